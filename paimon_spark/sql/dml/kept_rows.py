"""Rows that several queries of a statement need: computed once, so that all see the same ones.

A query may give other rows each time that it runs: `rand()`, a LIMIT without an order, a UDF, files
that change.  A cache would run it again where an executor is lost; a local checkpoint does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from paimon_core.errors import PaimonError
from paimon_spark.sql.query.registered import is_registered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ATTEMPTS: Final = 3
_LOST: Final = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
_ROW_BY_ROW: Final = frozenset({"Project", "Filter", "Union", "SubqueryAlias", "View"})
"""Parts of plans that give the same rows for the same rows, apart from their expressions."""
_FIXED: Final = frozenset({"LocalRelation", "OneRowRelation", "Range"})
_VARYING: Final = ("CURRENT_LIKE", "PLAN_EXPRESSION", "PYTHON_UDF", "SCALA_UDF")
"""Spark's names of expressions that it calls deterministic, and that may not be so."""


class RowsLost(PaimonError):
    """Rows that a statement had computed are lost with an executor; nothing was committed."""

    default_next_step = "run the statement again, with executors that live as long as it"


@contextmanager
def kept_rows(rows: DataFrame) -> Iterator[DataFrame]:
    """The rows, computed once and kept on the executors' disks until the block ends.

    RowsLost if an executor is lost with them.
    """
    from pyspark import StorageLevel  # noqa: PLC0415 - only with a session

    kept = rows.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
    try:
        yield kept
    except Exception as e:
        if _LOST not in str(e):
            raise
        raise RowsLost("an executor was lost with rows of the statement") from e
    finally:
        forget(kept)


def forget(kept: DataFrame) -> None:
    """Delete the rows from the executors' disks; Spark Connect does it with the DataFrame."""
    if hasattr(kept, "_jdf"):
        with suppress(Exception):  # Spark deletes them later.
            kept._jdf.queryExecution().analyzed().rdd().unpersist(False)  # noqa: SLF001


def until_kept(change: Callable[[], None]) -> None:
    """Run a change again where rows that it had computed were lost."""
    for _ in range(1, _ATTEMPTS):
        with suppress(RowsLost):
            return change()
    return change()


def is_deterministic(query: DataFrame, column: int) -> bool:
    """Whether a column of a SELECT is; with Spark Connect, whose plan is elsewhere, true."""
    if not hasattr(query, "_jdf"):
        return True
    plan = query._jdf.queryExecution().analyzed()  # noqa: SLF001
    return bool(plan.nodeName() != "Project" or plan.projectList().apply(column).deterministic())


def gives_same_rows(query: DataFrame) -> bool:
    """Whether each run of the query gives the same rows, and reads them from tables only.

    The plan must be simple enough to tell; then running it again costs little, too.
    """
    if not hasattr(query, "_jdf"):
        return False
    jvm: Any = query.sparkSession._jvm  # noqa: SLF001 - as its plan
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    varying = [getattr(patterns, name)() for name in _VARYING]
    return _same_rows(query._jdf.queryExecution().analyzed(), varying)  # noqa: SLF001


def _same_rows(plan: Any, varying: list[Any]) -> bool:
    name = plan.nodeName()
    if name == "SubqueryAlias" and is_registered(plan.alias()):
        return True  # a table as of one snapshot
    if name in _FIXED:
        return True
    if name not in _ROW_BY_ROW or not plan.deterministic():
        return False
    if any(plan.containsPattern(pattern) for pattern in varying):
        return False
    children = plan.children()
    return all(_same_rows(children.apply(i), varying) for i in range(children.size()))
