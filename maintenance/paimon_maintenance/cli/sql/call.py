"""`CALL` in SQL: runs the jobs as the command line does, and answers as Java's procedures do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from paimon_core.catalog.catalog import Catalog
from paimon_core.commit.overwrite import replace_partitions
from paimon_core.commit.same_table import check_same_table, naming_what_is_gone
from paimon_core.environment import Environment, machine_zone, system_environment
from paimon_core.errors import InvalidArgument, NotFound, PaimonError
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.options import CLUSTERING_INCREMENTAL, POSTPONE_DEFAULT_BUCKETS
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.scan.scan import partition_filter, scan_files
from paimon_core.table.system.read import split_system_name
from paimon_maintenance.cli.approvals import approved
from paimon_maintenance.cli.sql.answers import ANSWERS, Rows, state_of
from paimon_maintenance.cli.sql.arguments import bound_values, check_compact, check_order
from paimon_maintenance.cli.sql.copy_table import copy_table
from paimon_maintenance.cli.sql.direct import (
    alter_view_dialect,
    change_function,
    compact_chain_table,
    merge,
    repair,
    repair_earliest_snapshot,
    rewrite_file_index,
)
from paimon_maintenance.cli.sql.migrate import migrate_all, migrate_one
from paimon_maintenance.cli.sql.procedures import PROCEDURES, Procedure
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.history.store import open_history
from paimon_maintenance.job.guards import Guards
from paimon_maintenance.job.opt_out import OptedOut, refuse_opted_out
from paimon_maintenance.job.report import Status
from paimon_maintenance.policy.approval import approval_wanted
from paimon_maintenance.policy.model import Policy, TablePolicy
from paimon_maintenance.policy.needs import TableFacts
from paimon_maintenance.registry import job_named
from paimon_maintenance.rules.partition_choice import partition_predicate
from paimon_maintenance.rules.tables import is_pattern, select_tables
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table
from paimon_maintenance.storage.catalogs import catalog_of, open_table_of
from paimon_spark.sql.errors import AnalysisError, TableNotLoaded
from paimon_spark.sql.procedures import CallSite, Given
from paimon_spark.sql.result import Result

logger = logging.getLogger(__name__)

_OF_ONE_TABLE: Final[
    Mapping[str, Callable[[FileStoreTable, Mapping[str, object], Environment], list[Any]]]
] = {
    "compact_chain_table": compact_chain_table,
    "repair_earliest_snapshot": repair_earliest_snapshot,
    "rewrite_file_index": rewrite_file_index,
}


def _opener(site: CallSite) -> Callable[[], Catalog]:
    return partial(catalog_of, site.warehouse, site.storage)


def _opened(table: str, branch: str | None, site: CallSite) -> FileStoreTable:
    """The table; TableNotLoaded if there is none.  Java: `BaseProcedure.loadSparkTable`."""
    try:
        return open_table_of(site.warehouse, table, branch=branch, file_io_options=site.storage)
    except NotFound as e:
        raise TableNotLoaded(
            f"Couldn't load table '{table}': {e.message}", table=table, next_step=e.next_step
        ) from e


class JobProcedures:
    """The procedures of `paimon_spark.sql`, done by jobs in this process.

    The guards and approvals of the policy apply; its arguments do not, because calls mean what they
    mean in Java.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self._env = system_environment()
        self._policy = policy

    def names(self) -> Sequence[str]:
        """All procedures, sorted."""
        return sorted(PROCEDURES)

    def call(self, name: str, given: Given, site: CallSite) -> Result:
        """Run the job of a procedure; its error is raised."""
        procedure = PROCEDURES.get(name)
        if procedure is None:
            raise AnalysisError(
                f"[ROUTINE_NOT_FOUND] there is no procedure sys.{name}",
                next_step="SHOW PROCEDURES lists them",
            )
        values = bound_values(name, procedure, given)
        answer = self._without_job(name, values, site)
        if answer is not None:
            return Result(procedure.columns, [answer])
        if name == "compact_database":
            return self._compact_database(procedure, values, site)
        if name == "purge_files":
            return self._purge_files(str(values["table"]), site)
        if name == "compact":
            check_compact(values)
        table, branch = _table(str(values.pop("table")), site)
        names = select_tables(_opener(site), table, where=site.warehouse)
        named = not is_pattern(table)
        rows: Rows = []
        for one in names:
            try:
                found = self._run(procedure, one, branch, dict(values), site, named=named)
            except OptedOut as e:
                logger.warning("%s: skipped, %s", one, e.message)
                continue
            if procedure.answer == "deleted_files" and rows:
                rows = [[a + b for a, b in zip(rows[0], found[0], strict=True)]]
            else:
                rows += found
        return Result(procedure.columns, rows)

    def _without_job(
        self, name: str, values: dict[str, object], site: CallSite
    ) -> list[Any] | None:
        """Run a procedure that no job does, and return its answer.

        None for a procedure of a job.
        """
        match name:
            case "create_function" | "alter_function" | "drop_function":
                change_function(name, _opener(site)(), values, site.database)
            case "repair":
                repair(_opener(site)(), values)
            case "alter_view_dialect":
                alter_view_dialect(_opener(site)(), values, site.database)
            case "merge_branch":
                table, _ = _table(str(values["table"]), site)
                merge(lambda branch: _opened(table, branch, site), values, env=self._env)
            case "copy":
                where = values.get("where")
                copy_table(
                    _opener(site)(),
                    _table(str(values["source_table"]), site)[0],
                    _table(str(values["target_table"]), site)[0],
                    None if where is None else str(where),
                    env=self._env,
                )
            case "migrate_table":
                source, target = (
                    None if text is None else _table(str(text), site)[0]
                    for text in (values["table"], values.get("target_table") or None)
                )
                assert source is not None
                migrate_one(_opener(site)(), source, target, values, env=self._env)
            case "migrate_database":
                return [migrate_all(_opener(site)(), values, env=self._env)]
            case _ if name in _OF_ONE_TABLE:
                table, branch = _table(str(values["table"]), site)
                again = partial(_opened, table, branch, site)
                opened = again()
                with naming_what_is_gone(opened, again, f"sys.{name}"):
                    return _OF_ONE_TABLE[name](opened, values, self._env)
            case _:
                return None
        return [True]

    def _compact_database(
        self, procedure: Procedure, values: dict[str, object], site: CallSite
    ) -> Result:
        """Compact each table that is meant.

        As in Java's `CompactDatabaseProcedure`, one that fails does not keep others from it, and
        the patterns of tables are for "database.table".
        """
        database = str(values.pop("including_databases", None) or ".*")
        included = str(values.pop("including_tables", None) or ".*")
        excluded = values.pop("excluding_tables", None)
        tables = select_tables(
            _opener(site),
            "*.*",
            including=[rf"(?=({database})\.)({included})"],
            excluding=[] if excluded is None else [str(excluded)],
            may_be_none=True,
            where=site.warehouse,
        )
        skipped, failed = [], []
        for table in tables:
            try:
                self._run(procedure, table, None, dict(values), site, named=False)
            except OptedOut as e:
                skipped.append(f"{table} ({e.message})")
            except PaimonError as e:
                logger.warning("%s: %s", table, e)
                failed.append(f"{table} ({e.message})")
        done = len(tables) - len(skipped) - len(failed)
        text = f"Compact database finished. Success: {done}, Failed: {len(failed)}"
        for what, which in (("skipped", skipped), ("failed", failed)):
            if which:
                text += f", {what}: {', '.join(which)}"
        return Result(procedure.columns, [[text]])

    def _purge_files(self, table: str, site: CallSite) -> Result:
        """Empty the table and keep one snapshot (Java: `FileStoreTable.purgeFiles`).

        TableGone, and no further change, if another table has its name meanwhile.  Young files to
        which nothing refers stay, unlike with Java's: a commit under way would name them after they
        are gone.
        """
        identifier, _ = _table(table, site)
        again = partial(_opened, identifier, None, site)
        opened = again()

        def step(name: str, *given: tuple[str, object]) -> None:
            procedure = PROCEDURES[name]
            values = bound_values(name, procedure, [("table", identifier), *given])
            del values["table"]
            self._run(procedure, identifier, None, values, site, named=True, seen=opened)

        for branch in opened.branches.names():
            step("delete_branch", ("branch", branch))
        for tag in opened.tags.all():
            step("delete_tag", ("tag", tag.name))
        step("clear_consumers")
        with naming_what_is_gone(opened, again, "sys.purge_files"):
            if opened.snapshots.latest() is not None:
                replace_partitions(opened, None, user=self._env.new_uuid(), env=self._env)
        if opened.changelogs.ids():
            step("expire_changelogs", ("delete_all", True))
        # The time counts in seconds, and the snapshots may be younger than one.
        soon = ("older_than", _wall_clock(self._env.now_millis() + 1000))
        step("expire_snapshots", ("retain_max", 1), ("retain_min", 1), soon)
        step("remove_orphan_files")
        return Result(("result",), [["Success"]])

    def _run(
        self,
        procedure: Procedure,
        table: str,
        branch: str | None,
        values: dict[str, object],
        site: CallSite,
        *,
        named: bool,
        seen: FileStoreTable | None = None,
    ) -> Rows:
        """The answer of the job; `seen` is the table that the caller means.

        OptedOut if nobody named the table, and it wants no maintenance.
        """
        assert procedure.job is not None
        job = job_named(procedure.job)
        dry_run = str(values.pop("dry_run", False)).lower() == "true"
        raw = {**procedure.fixed, **values}
        opened = _opened(table, branch, site)
        if seen is not None:
            check_same_table(seen)
        if not named:
            refuse_opted_out(table, opened.schema.options)
        if procedure.job == "compact" and _sorts(opened, raw):
            job = job_named("sort_compact")
        elif procedure.job == "compact":
            _choose_buckets(opened, raw, site)
        if procedure.job == "remove_orphan_files" and raw.get("older_than"):
            raw["allow_young"] = True  # Java's procedure takes the time as it is given
        if procedure.job == "delete_tag":
            # Java's procedure passes over tags that do not exist.
            tags = [t.strip() for t in str(raw["tag"]).split(",")]
            there = [t for t in tags if opened.tags.exists(t)]
            if not there:
                return [[True]]
            raw["tag"] = ",".join(there)
        deletes_consumer = job.name == "reset_consumer" and raw.get("next_snapshot_id") is None
        if deletes_consumer and str(raw["consumer_id"]) not in opened.consumers.ids():
            return [[True]]  # nor does it ask whether the consumer exists
        if job.name == "sort_compact":
            check_order(opened, str(raw.get("order_by") or ""))
        if job.name == "rescale" and opened.snapshots.latest() is None:
            raise InvalidArgument(f"Table {table} has no snapshot. No need to rescale.")
        is_limited = raw.get("partitions") or raw.get("where")
        if job.name == "rescale" and is_limited and not _has_files(opened, job.read_arguments(raw)):
            return [[True]]  # Java's procedure has nothing to do then, the job refuses it
        _choose_version(opened, raw)
        before = state_of(opened)
        policy = self._policy_of(opened, table)
        approval = approval_wanted(policy.needs, job.name, force=False)
        request = RunRequest(
            job=job,
            warehouse=site.warehouse,
            table=table,
            arguments=job.read_arguments(raw),
            branch=branch,
            file_io_options=dict(site.storage),
            dry_run=dry_run,
            guards=Guards.from_json(policy.job(job.name).guards.to_json()),
            approval=None if approval is None else str(approval),
            named=named,
            opened=seen or opened,
        )
        services = RunServices(engine=LocalEngine(), env=self._env, history=open_history())
        report = run_table(approved(request, services), services)
        if report.error is not None:
            raise report.error
        if report.status is Status.SKIPPED:
            raise OptedOut(report.why, table=table)
        return ANSWERS[procedure.answer](report, before, _opened(table, branch, site))

    def _policy_of(self, opened: FileStoreTable, table: str) -> TablePolicy:
        if self._policy is None:
            return TablePolicy(table=table)
        facts = TableFacts(dict(opened.schema.options), opened.schema.comment)
        return self._policy.for_table(table, lambda: facts)


def _wall_clock(millis: int) -> str:
    """The time as an argument of jobs: to the second, in the machine's zone."""
    return datetime.fromtimestamp(millis // 1000, machine_zone()).strftime("%Y-%m-%d %H:%M:%S")


def _has_files(table: FileStoreTable, arguments: Mapping[str, Any]) -> bool:
    """Whether the chosen partitions hold files that are in buckets."""
    predicate = partition_predicate(table, arguments["partitions"], arguments["where"])
    passes = partition_filter(table, predicate)
    return any(
        e.bucket != POSTPONE_BUCKET and (passes is None or passes(e.partition))
        for e in scan_files(table, table.latest_or_not_found())
    )


def _sorts(table: FileStoreTable, raw: dict[str, object]) -> bool:
    """Whether Java's `compact` sorts with these arguments; removes those that do not apply then."""
    order = str(raw.pop("order_strategy", None) or "none").lower()
    if order == "none":
        raw.pop("order_by", None)
        return _clusters(table)
    raw["order_strategy"] = order
    raw.pop("partition_idle_time", None)
    raw.pop("strategy", None)
    return True


def _choose_buckets(table: FileStoreTable, raw: dict[str, object], site: CallSite) -> None:
    """As in Java, the session's parallelism is the number of buckets if the table names none."""
    given = str(raw.get("options") or "")
    key = POSTPONE_DEFAULT_BUCKETS.key
    postponed = table.bucket_mode is BucketMode.POSTPONE and key not in table.schema.options
    if postponed and site.parallelism is not None and key not in given:
        raw["options"] = ",".join(filter(None, (given, f"{key}={site.parallelism}")))


def _clusters(table: FileStoreTable) -> bool:
    """Whether a compaction of the table sorts its rows (Java: `append/cluster`)."""
    unaware = table.bucket_mode is BucketMode.UNAWARE
    return unaware and table.options.value(CLUSTERING_INCREMENTAL)


def _table(text: str, site: CallSite) -> tuple[str, str | None]:
    """The table (or `db.*`) and its branch; a name without a database lies in the current one."""
    parts = [p.strip("`") for p in text.split(".")]
    if len(parts) == 3:
        parts = parts[1:]
    if len(parts) == 1:
        parts = [site.database, *parts]
    identifier, branch, system = split_system_name(".".join(parts))
    if system is not None:
        raise AnalysisError(f"{text} is a system table")
    return identifier, branch


def _choose_version(table: FileStoreTable, raw: dict[str, object]) -> None:
    """`version` as a tag or a snapshot, and `snapshot` as it is.

    InvalidArgument if they are not one (Java: `RollbackProcedure`).
    """
    text = str(raw.pop("version", None) or "").strip()
    if not text:
        return
    if raw.get("snapshot") is not None or raw.get("tag") is not None:
        raise InvalidArgument("only one of version, snapshot and tag can be given")
    if text.isdecimal() and not table.tags.exists(text):
        raw["snapshot"] = int(text)
    else:
        raw["tag"] = text
