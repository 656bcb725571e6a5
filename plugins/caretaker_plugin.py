"""Where Airflow finds the plugin in a plugins folder; an installed package has an entry point."""

from __future__ import annotations

from paimon_airflow.plugin import CaretakerPlugin

__all__ = ["CaretakerPlugin"]
