"""Links on the pages of tasks: to the page of the table in Caretaker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from airflow.sdk import BaseOperatorLink

from paimon_maintenance.storage.variables import WAREHOUSE_VARIABLE

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

PAGE: Final = "/caretaker/table"


class CaretakerPageLink(BaseOperatorLink):
    """The page of the table that a task works on or waits for."""

    name = "Table"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """The address within Airflow; empty for a name that is still a template."""
        table = str(getattr(operator, "table", None) or "")
        if not table or "{{" in table:
            return ""
        warehouse = getattr(operator, "warehouse", None) or os.environ.get(WAREHOUSE_VARIABLE, "")
        named = {
            "warehouse": warehouse,
            "table": table,
            "branch": getattr(operator, "branch", None) or "main",
        }
        return f"{PAGE}?{urlencode(named)}"
