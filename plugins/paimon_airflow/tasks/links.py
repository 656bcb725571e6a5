"""Links on the pages of tasks: to the page of the table in Caretaker, and to the UI of Spark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from airflow.sdk import BaseOperatorLink

from paimon_maintenance.storage.variables import WAREHOUSE_VARIABLE
from paimon_maintenance.storage.warehouse import canonical_warehouse

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

PAGE: Final = "/caretaker/table"


def root_path() -> str:
    """The path below which Airflow serves its UI: "" or, behind a proxy, for instance "/airflow"."""
    from airflow.configuration import conf  # noqa: PLC0415 - read when asked for

    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


class SparkUiLink(BaseOperatorLink):
    """The UI of the Spark application in which a task worked.

    It ends with the application, unless Spark knows the address of its history server
    (`spark.yarn.historyServer.address`).
    """

    name = "Spark UI"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """The address; empty if nothing ran on Spark, or if its UI is disabled as with local masters."""
        return str(getattr(operator, "spark_ui", None) or "")


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
            "warehouse": canonical_warehouse(warehouse),
            "table": table,
            "branch": getattr(operator, "branch", None) or "main",
        }
        return f"{root_path()}{PAGE}?{urlencode(named)}"
