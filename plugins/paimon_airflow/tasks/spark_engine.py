"""Spark inside a task: the driver is a child of the task's process and ends with it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowNotFoundException

if TYPE_CHECKING:
    from paimon_maintenance.engines.spark.engine import SparkEngine

logger = logging.getLogger(__name__)


def spark_of_connection(connection: str, conf: Mapping[str, str]) -> SparkEngine | None:
    """Spark on the master of this connection, which starts with the first work; None without it."""
    from airflow.sdk import BaseHook  # noqa: PLC0415 - only when a task runs

    from paimon_maintenance.engines.spark.engine import SparkEngine  # noqa: PLC0415 - as above

    try:
        host = BaseHook.get_connection(connection).host
    except AirflowNotFoundException:
        logger.info("no connection %r: everything runs in the worker", connection)
        return None
    return SparkEngine(master=host or "local[*]", conf=dict(conf))
