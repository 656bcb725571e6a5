"""Calls maintenance on commit: the watch over a lake, and the runs on its commits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paimon_airflow.tasks.from_reports import from_error, from_report
from paimon_airflow.tasks.results import TableResult
from paimon_maintenance.storage.warehouse import canonical_warehouse

if TYPE_CHECKING:
    from paimon_airflow.tasks.job_request import JobRequest
    from paimon_maintenance.engines.spark.engine import SparkEngine
    from paimon_maintenance.history.need_store import NeedStore
    from paimon_maintenance.history.position_store import PositionStore
    from paimon_maintenance.schedule.commits import Watch
    from paimon_maintenance.schedule.on_commit import Maintained, OnCommitRun
    from paimon_maintenance.schedule.scope import Scope

_NEW_DRIVERS: Final = 2
"""More losses in a row are probably due to the table itself, for example to
the memory that it takes."""


def watch_of(
    warehouse: str,
    patterns: Sequence[str],
    storage: Mapping[str, str],
    *,
    including: Sequence[str] = (),
    excluding: Sequence[str] = (),
    branch: str | None = None,
) -> Watch:
    """A watch over the tables that match; InvalidArgument without a history."""
    from paimon_core.environment import system_environment
    from paimon_maintenance.rules.tables import select_tables  # noqa: PLC0415 - when a task runs
    from paimon_maintenance.schedule.commits import Watch  # noqa: PLC0415
    from paimon_maintenance.schedule.scope import Scope  # noqa: PLC0415
    from paimon_maintenance.storage.catalogs import catalog_of, options_of  # noqa: PLC0415
    from paimon_maintenance.storage.options import options_of_environment  # noqa: PLC0415

    warehouse = canonical_warehouse(warehouse)
    options = options_of(warehouse, {**options_of_environment(), **storage})
    _, positions = _stores(warehouse, branch)

    def names() -> list[str]:
        found: set[str] = set()
        for pattern in patterns:
            found.update(
                select_tables(
                    lambda: catalog_of(warehouse, options),
                    pattern,
                    including=including,
                    excluding=excluding,
                    where=warehouse,
                    may_be_none=True,
                )
            )
        return sorted(found)

    return Watch(
        store=positions,
        names=names,
        open_table=Scope(warehouse=warehouse, tables=(), branch=branch, storage=options).open,
        now_millis=system_environment().now_millis,
    )


def runs_of(request: JobRequest, holder: str, spark: SparkEngine | None = None) -> OnCommitRun:
    """The object that maintains commits under the policy and the engine of this request."""
    from paimon_maintenance.engines.gate import Gate, usable_cores  # noqa: PLC0415 - when a task runs
    from paimon_maintenance.engines.process import prepare_process  # noqa: PLC0415

    prepare_process()  # before the next imports load Arrow
    from paimon_maintenance.engines.lifeline import ends_with_parent  # noqa: PLC0415
    from paimon_maintenance.engines.local import LocalEngine  # noqa: PLC0415
    from paimon_maintenance.schedule.on_commit import OnCommitRun  # noqa: PLC0415

    needs, positions = _stores(request.warehouse, request.branch)
    services = replace(
        request.services(),
        engine=LocalEngine(gate=Gate(usable_cores())),
        spark=spark,
        check_supervised=ends_with_parent(),
    )
    return OnCommitRun(
        scope=_scope(request),
        policy=request.policy,
        services=services,
        needs=needs,
        positions=positions,
        holder=holder,
    )


def maintain_until_quiet(
    request: JobRequest,
    runs: OnCommitRun,
    *,
    linger_seconds: float,
    longest_seconds: float,
    poll_seconds: float,
    on_result: Callable[[Maintained], None],
) -> dict[str, Maintained]:
    """Maintain the commits to all tables of the request until no commit arrives for a while.

    Returns the last result of each table; a failure takes precedence.  Waiting for more commits is
    much faster than a new task for each commit.  No table waits for a slower one.  A table whose
    Spark driver was lost, or did not start, gets another one at once, as often as `_NEW_DRIVERS`;
    later tries wait like those after other failures.
    """
    from paimon_maintenance.run.many import TABLES_AT_ONCE  # noqa: PLC0415 - when a task runs

    watch = watch_of(
        request.warehouse,
        request.patterns,
        request.storage,
        including=request.including,
        excluding=request.excluding,
        branch=request.branch,
    )
    found: dict[str, Maintained] = {}
    running: dict[str, Future[Maintained]] = {}
    lost: Counter[str] = Counter()
    begun = worked = time.monotonic()
    has_worked = False
    with ThreadPoolExecutor(TABLES_AT_ONCE, thread_name_prefix="commit") as pool:
        while True:
            now = time.monotonic()
            pending = watch.look()
            again = [t for t, one in found.items() if _lost_spark(one) and lost[t] <= _NEW_DRIVERS]
            if now - begun <= longest_seconds:
                for table in sorted({*pending, *again} - running.keys()):
                    running[table] = pool.submit(runs.maintain, table)
            wait(running.values(), timeout=poll_seconds)
            for table in [t for t, future in running.items() if future.done()]:
                one = running.pop(table).result()
                on_result(one)
                lost[table] = lost[table] + 1 if _lost_spark(one) else 0
                known = found.get(table)
                # Keep a result with a run over a later look that found nothing to do.
                if one.failed or one.report is not None or known is None or known.failed:
                    found[table] = one
                if one.report is not None:
                    worked, has_worked = time.monotonic(), True
            now = time.monotonic()
            # A table that a process claimed before it was killed is free again soon.
            stays = bool(pending or again) or (has_worked and now - worked <= linger_seconds)
            if not running and (not stays or now - begun > longest_seconds):
                return found
            time.sleep(poll_seconds)


def _lost_spark(one: Maintained) -> bool:
    from paimon_maintenance.engines.spark.loss import SparkLost  # noqa: PLC0415 - when a task runs
    from paimon_maintenance.engines.spark.session import SparkUnavailable  # noqa: PLC0415

    error = None if one.report is None else one.report.error
    return isinstance(error, SparkLost | SparkUnavailable)


def result_of(one: Maintained) -> TableResult:
    """The outcome of maintaining the commits to a table, as tasks report it."""
    if one.report is not None:
        return from_report(one.report.to_json())
    if one.failed:
        return from_error(one.table, RuntimeError(one.why))
    return TableResult(table=one.table, outcome="nothing", summary=one.why)


def _scope(request: JobRequest) -> Scope:
    from paimon_maintenance.schedule.scope import Scope  # noqa: PLC0415 - when a task runs

    return Scope(
        warehouse=request.warehouse,
        tables=(),
        branch=request.branch,
        storage=request.storage,
        engine=request.engine,
        default_engine=request.default_engine,
    )


def _stores(warehouse: str, branch: str | None) -> tuple[NeedStore, PositionStore]:
    from paimon_maintenance.history.need_store import NeedStore  # noqa: PLC0415 - when a task runs
    from paimon_maintenance.history.position_store import PositionStore  # noqa: PLC0415
    from paimon_maintenance.history.store import needed_history  # noqa: PLC0415

    place = (needed_history("maintenance on commit"), warehouse, branch or "main")
    return NeedStore(*place), PositionStore(*place)
