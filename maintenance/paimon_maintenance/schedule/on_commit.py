"""Maintenance on commit: compacts just the partitions that commits changed, right after them.

::

    claim     one process works on the table
    commits   what changed since the table's position (`schedule.commits`)
    run       one `compact` of those partitions through the runner
    advance   the position moves to what was maintained; after a failure it stays

The position moves only after the run, so a process that is killed repeats the look, not the work:
the new plan finds nothing to do in what was committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from paimon_core.errors import PaimonError
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.options import CLUSTERING_INCREMENTAL
from paimon_maintenance.history.need_store import NeedStore
from paimon_maintenance.history.position_store import PositionStore
from paimon_maintenance.job.engine_choice import EngineName
from paimon_maintenance.job.opt_out import OptedOut
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.policy.model import Policy, TablePolicy
from paimon_maintenance.policy.needs import OnCommit, TableFacts
from paimon_maintenance.policy.resolve import resolve
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.many import TABLES_AT_ONCE
from paimon_maintenance.run.runner import RunServices, plan_table, run_table
from paimon_maintenance.schedule.claim import claimed
from paimon_maintenance.schedule.commits import Commits, commits_since
from paimon_maintenance.schedule.scope import Scope

logger = logging.getLogger(__name__)

JOB = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """The outcome of maintaining the commits to one table.

    `why` says why there was no run.  `failed`: the run or the look failed,
    and is tried again later.
    """

    table: str
    why: str = ""
    snapshot: int | None = None
    partitions: tuple[Mapping[str, str], ...] | None = ()
    report: Report | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OnCommitRun:
    """Maintains the commits to tables of one scope.

    Plans that the policy or the size sends to Spark are left to the scheduler, unless the services
    have Spark.
    """

    scope: Scope
    policy: Policy | None
    services: RunServices
    needs: NeedStore
    positions: PositionStore
    holder: str
    default: OnCommit = OnCommit.MINOR

    def run(
        self, tables: Iterable[str], on_result: Callable[[Maintained], None] = lambda _: None
    ) -> list[Maintained]:
        """Maintain the commits to these tables, several tables at a time."""
        found = []
        with ThreadPoolExecutor(TABLES_AT_ONCE, thread_name_prefix="commit") as pool:
            for one in pool.map(self.maintain, sorted(set(tables))):
                on_result(one)
                found.append(one)
        return found

    def maintain(self, name: str, only: Mapping[str, str] | None = None) -> Maintained:
        """Maintain the commits to one table; with `only`, just this partition of it.

        The position moves only without `only`.
        """
        now = self.services.env.now_millis
        with claimed(self.needs, name, self.holder, self.services.env) as is_claimed:
            if not is_claimed:
                return Maintained(table=name, why="another process works on the table")
            position = self.positions.get(name)
            try:
                table = self.scope.open(name)
                commits = commits_since(table, position)
                found = self.run_claimed(table, commits, only)
            except (PaimonError, OSError) as e:
                logger.warning("cannot maintain the commits to %s: %s", name, e)
                found = Maintained(table=name, why=str(e), failed=True)
                commits = None
            if only is not None:
                return found
            if found.failed or commits is None:
                self.positions.failed(name, position, now())
            else:
                self.positions.advance(name, _maintained_up_to(commits, found.report), now())
            return found

    def run_claimed(
        self, table: FileStoreTable, commits: Commits, only: Mapping[str, str] | None
    ) -> Maintained:
        """Run the compaction that the policy wants for these commits."""
        if table.bucket_mode is BucketMode.UNAWARE and table.options.value(CLUSTERING_INCREMENTAL):
            why = "its clustering is left to the scheduler"
            return Maintained(table=table.name, why=why, snapshot=commits.newest)
        policy, how = self.wanted(table)
        partitions = commits.partitions if only is None else (only,)
        nothing = self.why_not(policy, how, partitions)
        if nothing:
            return Maintained(table=table.name, why=nothing, snapshot=commits.newest)
        arguments: dict[str, object] = {"strategy": str(how)}
        if partitions is not None and table.schema.partition_keys:
            arguments["partitions"] = [dict(p) for p in partitions]
        request = resolve(
            job_named(JOB),
            policy,
            typed=arguments,
            engine=self.scope.engine,
            default_engine=self.scope.default_engine,
        ).request(
            warehouse=self.scope.warehouse,
            table=table.name,
            branch=self.scope.branch,
            storage=self.scope.storage,
            named=False,
        )
        done = Maintained(table=table.name, snapshot=commits.newest, partitions=partitions)
        if self.services.spark is None:
            try:
                plan = plan_table(request, replace(self.services, history=None))
            except OptedOut as e:
                return replace(done, why=e.message)
            if plan.is_empty:
                return replace(done, why="nothing to do")
            if request.engine.choose(plan.effect).engine == EngineName.SPARK:
                size = human_bytes(plan.effect.rewritten_bytes)
                return replace(done, why=f"{size} to rewrite are left to the scheduler")
        report = run_table(request, self.services)
        if report.status is Status.SKIPPED:
            return replace(done, why=report.why)
        failed = report.status in (Status.FAILED, Status.REFUSED)
        return replace(
            done,
            snapshot=report.snapshots[-1] if report.snapshots else done.snapshot,
            report=report,
            why=str(report.error) if report.error is not None else "",
            failed=failed,
        )

    def wanted(self, table: FileStoreTable) -> tuple[TablePolicy, OnCommit]:
        """The policy of the table, and how commits are maintained."""
        facts = TableFacts(dict(table.schema.options), table.schema.comment)
        if self.policy is None:
            policy = TablePolicy(table=table.name)
        else:
            policy = self.policy.for_table(table.name, lambda: facts)
        needs = policy.needs.of_table(facts)
        if not needs.scheduled or not policy.job(JOB).enabled:
            return policy, OnCommit.OFF
        return policy, self.default if self.policy is None else needs.on_commit

    @staticmethod
    def why_not(
        policy: TablePolicy, how: OnCommit, partitions: tuple[Mapping[str, str], ...] | None
    ) -> str:
        """Why nothing runs; empty if something does."""
        if how is OnCommit.OFF:
            return f"the policy does not maintain {policy.table} on commit"
        if partitions is not None and not partitions:
            return "the commits added no file"
        return ""


def _maintained_up_to(commits: Commits, report: Report | None) -> int:
    """The newest snapshot that is maintained: the run's own if no other commit came before."""
    newest = commits.newest
    for snapshot in () if report is None else report.snapshots:
        if snapshot == newest + 1:
            newest = snapshot
    return newest


def lines_of(found: Iterable[Maintained]) -> Iterator[str]:
    """The outcome of each table, for a log."""
    for one in found:
        report = one.report
        if report is None or one.failed:
            yield f"{one.table}: {'FAILED: ' if one.failed else ''}{one.why}"
            continue
        where = ", ".join("/".join(f"{k}={v}" for k, v in p.items()) for p in one.partitions or ())
        yield (
            f"{one.table}{f' {where}' if where else ''}: {report.status}, "
            f"{report.replaced.files} -> {counted(report.written.files, 'files')}, "
            f"snapshot {one.snapshot}, {sum(report.seconds.values()):.1f} s"
        )
