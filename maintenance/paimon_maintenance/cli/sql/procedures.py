"""Paimon's procedures and the jobs that do their work: names, arguments, columns as in Java.

Java: `paimon-spark-common/.../spark/procedure/*`.  Arguments are in Java's order, for positional
calls; `as_` is the job's own name for one, None for one that does not apply here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

TRUE: Final = "true"
"""The answer of most: one row, one column `result`, true."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a procedure."""

    name: str
    as_: str | None = None
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """One procedure: `fixed` are arguments of the job that the procedure implies.

    Without a `job`, `cli.sql.direct`, `copy_table` or `migrate` does the work.
    """

    job: str | None
    parameters: tuple[Parameter, ...]
    columns: tuple[str, ...] = ("result",)
    answer: str = TRUE
    fixed: Mapping[str, object] = field(default_factory=dict)


def _same(*names: str) -> tuple[Parameter, ...]:
    """Arguments that the job has under the same name."""
    return tuple(Parameter(name, name) for name in names)


def _needed(name: str, as_: str | None = None) -> Parameter:
    return Parameter(name, as_ or name, required=True)


_TABLE: Final = Parameter("table", required=True)
_SNAPSHOT_IDS: Final = ("previous_snapshot_id", "current_snapshot_id")
_RETAIN: Final = _same("retain_max", "retain_min", "older_than", "max_deletes", "options")
_NO_SAFETY_TAG: Final[Mapping[str, object]] = {"safety_tag": "0 s"}
"""A runbook for Java finds exactly the tags that it made."""

PROCEDURES: Final[Mapping[str, Procedure]] = {
    "compact": Procedure(
        job="compact",
        parameters=(
            _TABLE,
            *_same("partitions"),
            Parameter("compact_strategy", "strategy"),
            *_same("order_strategy", "order_by", "where", "options", "partition_idle_time"),
        ),
    ),
    "compact_database": Procedure(
        job="compact",
        parameters=(
            Parameter("including_databases"),
            Parameter("including_tables"),
            Parameter("excluding_tables"),
            *_same("options"),
        ),
        answer="success",
    ),
    "compact_manifest": Procedure(
        job="compact_manifest", parameters=(_TABLE, *_same("options", "dry_run"))
    ),
    "copy": Procedure(
        job=None,
        parameters=(
            _needed("source_table"),
            _needed("target_table"),
            Parameter("where", "where"),
        ),
    ),
    "purge_files": Procedure(job=None, parameters=(_TABLE,)),
    "expire_snapshots": Procedure(
        job="expire_snapshots",
        parameters=(_TABLE, *_RETAIN),
        columns=("deleted_snapshots_count",),
        answer="expired_snapshots",
    ),
    "expire_changelogs": Procedure(
        job="expire_changelogs",
        parameters=(_TABLE, *_RETAIN, *_same("delete_all")),
        columns=("deleted_changelogs_count",),
        answer="expired_changelogs",
    ),
    "expire_partitions": Procedure(
        job="expire_partitions",
        parameters=(
            _TABLE,
            *_same(
                "expiration_time",
                "timestamp_formatter",
                "timestamp_pattern",
                "expire_strategy",
                "max_expires",
                "options",
            ),
        ),
        columns=("expired_partitions",),
        answer="expired_partitions",
    ),
    "expire_tags": Procedure(
        job="expire_tags",
        parameters=(_TABLE, *_same("older_than")),
        columns=("expired_tags",),
        answer="expired_tags",
    ),
    "create_tag": Procedure(
        job="create_tag",
        parameters=(_TABLE, _needed("tag"), *_same("snapshot", "time_retained")),
    ),
    "create_tag_from_timestamp": Procedure(
        job="create_tag",
        parameters=(_TABLE, _needed("tag"), *_same("timestamp", "time_retained")),
        columns=("tagName", "snapshot", "commit_time", "watermark"),
        answer="tag",
    ),
    "replace_tag": Procedure(
        job="replace_tag",
        parameters=(_TABLE, _needed("tag"), *_same("snapshot", "time_retained")),
    ),
    "rename_tag": Procedure(
        job="rename_tag", parameters=(_TABLE, _needed("tag"), _needed("target_tag"))
    ),
    "delete_tag": Procedure(job="delete_tag", parameters=(_TABLE, _needed("tag"))),
    "trigger_tag_automatic_creation": Procedure(
        job="trigger_tag_automatic_creation", parameters=(_TABLE,)
    ),
    "rollback": Procedure(
        job="rollback",
        parameters=(_TABLE, Parameter("version", "version"), *_same("snapshot", "tag")),
        columns=_SNAPSHOT_IDS,
        answer="snapshots",
        fixed=_NO_SAFETY_TAG,
    ),
    "rollback_to_timestamp": Procedure(
        job="rollback",
        parameters=(_TABLE, _needed("timestamp")),
        columns=_SNAPSHOT_IDS,
        answer="snapshots",
        fixed=_NO_SAFETY_TAG,
    ),
    "rollback_to_watermark": Procedure(
        job="rollback",
        parameters=(_TABLE, _needed("watermark")),
        columns=_SNAPSHOT_IDS,
        answer="snapshots",
        fixed=_NO_SAFETY_TAG,
    ),
    "create_branch": Procedure(
        job="create_branch",
        parameters=(
            _TABLE,
            _needed("branch", "branch_name"),
            *_same("tag"),
            Parameter("ignoreIfExists", "ignore_if_exists"),
        ),
    ),
    "delete_branch": Procedure(
        job="delete_branch", parameters=(_TABLE, _needed("branch", "branch_name"))
    ),
    "rename_branch": Procedure(
        job="rename_branch",
        parameters=(
            _TABLE,
            _needed("from_branch", "branch_name"),
            _needed("to_branch", "target_branch"),
        ),
    ),
    "fast_forward": Procedure(
        job="fast_forward",
        parameters=(_TABLE, _needed("branch", "branch_name")),
        fixed=_NO_SAFETY_TAG,
    ),
    "reset_consumer": Procedure(
        job="reset_consumer",
        parameters=(
            _TABLE,
            _needed("consumerId", "consumer_id"),
            Parameter("nextSnapshotId", "next_snapshot_id"),
        ),
    ),
    "clear_consumers": Procedure(
        job="clear_consumers",
        parameters=(
            _TABLE,
            Parameter("includingConsumers", "including_consumers"),
            Parameter("excludingConsumers", "excluding_consumers"),
        ),
    ),
    "mark_partition_done": Procedure(
        job="mark_partition_done", parameters=(_TABLE, _needed("partitions"))
    ),
    "drop_partition": Procedure(job="drop_partition", parameters=(_TABLE, _needed("partitions"))),
    "rescale": Procedure(
        job="rescale",
        parameters=(_TABLE, *_same("bucket_num", "partitions", "where")),
        fixed=_NO_SAFETY_TAG,
    ),
    "remove_orphan_files": Procedure(
        job="remove_orphan_files",
        parameters=(
            _TABLE,
            *_same("older_than", "dry_run", "parallelism"),
            Parameter("mode"),
        ),
        columns=("deletedFileCount", "deletedFileTotalLenInBytes"),
        answer="deleted_files",
    ),
    "remove_unexisting_files": Procedure(
        job="remove_unexisting_files",
        parameters=(_TABLE, *_same("dry_run"), Parameter("parallelism")),
        columns=("fileName",),
        answer="file_names",
    ),
    "rewrite_file_index": Procedure(
        job=None,
        parameters=(_TABLE, *_same("where")),
        columns=("written_partitions", "written_indexes"),
    ),
    "repair_earliest_snapshot": Procedure(
        job=None,
        parameters=(_TABLE, _needed("snapshot_id")),
        columns=("previous_earliest_snapshot_id", "current_earliest_snapshot_id"),
    ),
    "alter_view_dialect": Procedure(
        job=None,
        parameters=(_needed("view"), _needed("action"), *_same("engine", "query")),
    ),
    "create_function": Procedure(
        job=None,
        parameters=(
            _needed("function"),
            _needed("inputParams"),
            _needed("returnParams"),
            *_same("deterministic", "comment", "options"),
        ),
    ),
    "alter_function": Procedure(
        job=None,
        parameters=(_needed("function"), _needed("change")),
    ),
    "drop_function": Procedure(job=None, parameters=(_needed("function"),)),
    "create_global_index": Procedure(
        job="create_global_index",
        parameters=(
            _TABLE,
            _needed("index_column"),
            _needed("index_type"),
            *_same("partitions", "options"),
        ),
    ),
    "reassign_row_id": Procedure(
        job="reassign_row_id",
        parameters=(_TABLE, *_same("partitions")),
        answer="success",
    ),
    "drop_global_index": Procedure(
        job="drop_global_index",
        parameters=(
            _TABLE,
            _needed("index_column"),
            _needed("index_type"),
            *_same("partitions", "dry_run"),
        ),
        columns=("result", "dropped_file_count"),
        answer="dropped_index_files",
    ),
    "compact_chain_table": Procedure(
        job=None,
        parameters=(_TABLE, _needed("partition", "partitions"), *_same("overwrite")),
    ),
    "merge_branch": Procedure(
        job=None,
        parameters=(_TABLE, _needed("source_branch"), *_same("target_branch")),
    ),
    "migrate_database": Procedure(
        job=None,
        parameters=(
            _needed("source_type"),
            _needed("database"),
            *_same("options", "options_map", "parallelism"),
        ),
    ),
    "migrate_table": Procedure(
        job=None,
        parameters=(
            _needed("source_type"),
            _TABLE,
            *_same("options", "delete_origin", "target_table", "options_map", "parallelism"),
        ),
    ),
    "repair": Procedure(
        job=None,
        parameters=(_needed("database_or_table"),),
    ),
    "analyze": Procedure(
        job="analyze", parameters=(_TABLE, *_same("columns", "all_columns", "options"))
    ),
}
