"""Temporary views of Spark for the tables and rows of a statement."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from paimon_spark.sql.session import SqlSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PREFIX: Final = "__paimon_"
_PROCESS: Final = uuid4().hex[:8]
_NUMBERS: Final = count(1)


def register(session: SqlSession, frame: DataFrame) -> str:
    """The name of a new temporary view of the DataFrame.

    It is never used again: sessions on other threads share the views of Spark, and through Spark
    Connect a query finds its views by their names each time that it runs.
    """
    view = f"{PREFIX}{_PROCESS}_{next(_NUMBERS)}"
    frame.createOrReplaceTempView(view)
    session.registered.append(view)
    return view


def is_registered(view: str) -> bool:
    """Whether `register` gave the view its name."""
    return view.startswith(f"{PREFIX}{_PROCESS}_")


def drop_registered(session: SqlSession, since: int = 0) -> None:
    """Drop the views that were registered after this many, which no query needs again."""
    for view in session.registered[since:]:
        session.spark.catalog.dropTempView(view)
    del session.registered[since:]
