"""The environment variables that the command line, Airflow and Spark applications all read."""

from __future__ import annotations

from typing import Final

WAREHOUSE_VARIABLE: Final = "CARETAKER_WAREHOUSE"
"""The warehouse of commands and tasks that do not name one."""
POLICY_VARIABLE: Final = "CARETAKER_POLICY"
"""The policy file."""
