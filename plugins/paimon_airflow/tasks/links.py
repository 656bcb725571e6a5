"""Links on the pages of tasks: to the page of the table in Caretaker, and to the UI of Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from airflow.sdk import BaseOperatorLink

from paimon_maintenance.storage.variables import WAREHOUSE_VARIABLE
from paimon_maintenance.storage.warehouse import canonical_warehouse

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

LAKE: Final = "/caretaker/"
PAGE: Final = "/caretaker/table"


def root_path() -> str:
    """The path below which Airflow serves its UI: "" or, behind a proxy, such as "/airflow"."""
    from airflow.configuration import conf  # noqa: PLC0415 - read when asked for

    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


class SparkUiLink(BaseOperatorLink):
    """The UI of the Spark application in which a task worked.

    It ends with the application, unless Spark knows the address of its history server
    (`spark.yarn.historyServer.address`).
    """

    name = "Spark UI"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """The address; empty if nothing ran on Spark, or if its UI is disabled (local masters)."""
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
        return page_of(warehouse, getattr(operator, "branch", None), [table])


class CaretakerLink(BaseOperatorLink):
    """What Caretaker's page shows of the tables that a task worked on: their table, or the lake."""

    name = "Caretaker"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """The address within Airflow that the task set (`page_of`).

        Empty before it knows its tables.
        """
        return str(getattr(operator, "page", None) or "")


def page_of(warehouse: str, branch: str | None, tables: Sequence[str]) -> str:
    """The address of the page of one table, or of the lake that has several."""
    named = {"warehouse": canonical_warehouse(warehouse)}
    if len(tables) == 1:
        named["table"] = tables[0]
    named["branch"] = branch or "main"
    return f"{root_path()}{PAGE if len(tables) == 1 else LAKE}?{urlencode(named)}"
