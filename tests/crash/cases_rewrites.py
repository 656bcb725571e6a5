"""Jobs that rewrite rows: compaction, postponed rows, rescaling, sorting, all that is due."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from evolving_tables import DELETING, delete_rows_of, groups_of, rows_by_id, update_columns
from harness import Case, State, attempt, run_job, state
from lakes import Lake
from row_deletes import delete_rows

from paimon_core.errors import CommitStateUnknown
from paimon_core.options import REWRITE_ROW_IDS
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_maintenance.job.error_json import error_json
from paimon_maintenance.job.report import Report, Status

GOLDEN = Path(__file__).parents[1] / "golden" / "1.4.2"
FULL = {"strategy": "full", "options": {"compaction.min.file-num": "2"}}
MINOR = {**FULL, "strategy": "minor"}


# --- compaction ---------------------------------------------------------------------------------


def golden(name: str) -> Callable[[Path], None]:
    """A table that Java wrote."""

    def build(warehouse: Path) -> None:
        shutil.copytree(GOLDEN / name / "warehouse", warehouse)

    return build


def compact(warehouse: Path, arguments: Mapping[str, object] = FULL) -> None:
    assert run_job(warehouse, "compact", arguments).error is None


def with_changelog(warehouse: Path) -> None:
    lake = Lake(warehouse)
    lake.primary_key(changelog__producer="lookup", merge__engine="partial-update")
    lake.fill(2)
    compact(warehouse)
    lake.append({"k": [1, 50], "v": ["new", "newer"]})


def key_vectors(warehouse: Path) -> None:
    """The second compaction marks rows of the first one's file, and so does the third."""
    lake = Lake(warehouse)
    lake.primary_key(**{"changelog-producer": "lookup", "deletion-vectors.enabled": "true"})
    lake.append({"k": list(range(500)), "v": [str(i * 7919 % 10007) for i in range(500)]})
    compact(warehouse)
    lake.append({"k": list(range(0, 100, 3)), "v": ["a"] * 34})
    compact(warehouse, MINOR)
    lake.append({"k": [0, 1, 2, 3, 600], "v": ["b"] * 5})


def clustered(warehouse: Path) -> None:
    """Files sorted by another column than the key, which overlap, and new rows of old keys."""
    _twice_compacted(warehouse, {"pk-clustering-override": "true", "clustering.columns": "v"})


def indexed_keys(warehouse: Path) -> None:
    """The same with B-trees, which belong to the compacted files of each level."""
    _twice_compacted(warehouse, {"pk-btree.index.columns": "v, k"})


def _twice_compacted(warehouse: Path, options: Mapping[str, str]) -> None:
    lake = Lake(warehouse)
    lake.primary_key(**options, **{"deletion-vectors.enabled": "true"})
    for i in range(2):
        lake.append(
            {"k": list(range(i, 60, i + 1)), "v": [f"v{k % 7}" for k in range(i, 60, i + 1)]}
        )
        compact(warehouse, MINOR)
    lake.append({"k": [0, 1, 2, 3, 600], "v": ["b"] * 5})
    lake.append({"k": [5], "v": [None]})


def append_vectors(warehouse: Path) -> None:
    """One file is large, so its vector has to be rewritten."""
    lake = Lake(warehouse)
    lake.log(**{"deletion-vectors.enabled": "true"}, target__file__size="4 kb")
    noise = [f"{i * 7919 % 10007:05d}{i * 104729 % 99991:05d}" for i in range(500)]
    lake.append({"k": list(range(500)), "v": noise})
    for i in range(2):
        lake.append({"k": [1000 + i, 2000 + i], "v": ["a", "b"]})
    delete_rows(lake.table(), {7, 1000, 2001})


def evolving(warehouse: Path) -> None:
    """Two partitions, whose row ids alternate twice, with updates of columns and deleted rows."""
    lake = Lake(warehouse)
    lake.create(primary_key=False, partitioned=True, options={**DELETING, "write-only": "true"})
    for i, day in enumerate("aaabba"):
        lake.append({"k": [i, 10 + i], "v": [f"v{i}", None], "dt": [day] * 2})
    for number in (1, 4):
        update_columns(lake.table(), groups_of(lake.table())[number], v=["new", "newer"])
    for number, position in ((0, 1), (1, 0), (5, 0)):
        delete_rows_of(lake.table(), groups_of(lake.table())[number], [position])


def indexed(warehouse: Path) -> None:
    """The same with a global index."""
    evolving(warehouse)
    assert run_job(warehouse, "create_global_index", {"index_column": "v"}).error is None


def tracked(warehouse: Path) -> State:
    """With the row ids of all rows."""
    return {**state(warehouse), "ids": rows_by_id(open_table(str(warehouse), "db.t"))}


def streamed(warehouse: Path) -> State:
    """With all changes that a stream sees."""
    result = attempt(warehouse, "stream_read", **{"from": 1})
    changes = sorted(str(row) for plan in result.get("plans", ()) for row in plan["rows"])
    # Of some tables Java's expiry left no beginning.
    return {**state(warehouse), "changes": changes, "refused": result.get("type")}


# --- rows that move -----------------------------------------------------------------------------

DAYS: dict[str, dict[str, Any]] = {
    "key": {"options": {"bucket": "2"}},
    "append": {"primary_key": False, "options": {"bucket": "2", "bucket-key": "k"}},
    "log": {"primary_key": False, "options": {"bucket": "-1"}},
    "dynamic": {"options": {"bucket": "-1", "dynamic-bucket.target-row-num": "9"}},
    "incremental": {
        "primary_key": False,
        "options": {
            "bucket": "-1",
            "clustering.incremental": "true",
            "clustering.columns": "v,k",
            "num-sorted-run.compaction-trigger": "2",
        },
    },
}
BUCKETS = {"bucket_num": 3, "batch_bytes": "1 b"}
ORDER = {"order_by": ["v", "k"], "order_strategy": "order", "batch_bytes": "1 b"}
"""Each partition is a batch of its own."""


def two_days(kind: str, warehouse: Path) -> None:
    lake = Lake(warehouse)
    told = DAYS[kind]
    options = {**told["options"], "write-only": "true"}
    lake.create(partitioned=True, primary_key=told.get("primary_key", True), options=options)
    lake.fill(2)


def rescaled(warehouse: Path) -> None:
    two_days("key", warehouse)
    assert run_job(warehouse, "rescale", BUCKETS).error is None


def layouts(warehouse: Path) -> set[int]:
    table = open_table(str(warehouse), "db.t")
    return {e.total_buckets for e in scan_files(table, table.latest_or_not_found())}


def says_nothing_half(before: int, warehouse: Path, report: Report) -> None:
    if report.status is Status.FAILED and layouts(warehouse) == {before}:
        option = open_table(str(warehouse), "db.t").options["bucket"]
        if option != str(before):  # with a full disk
            told = str(error_json(report.error)["next_step"])
            assert f"the option bucket of the table is {option} now" in told
            if not isinstance(report.error, CommitStateUnknown):
                assert "could not be put back: the disk is full" in told


# --- all that is due ----------------------------------------------------------------------------

DUE = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "partition.expiration-time": "7 d",
    "partition.timestamp-formatter": "yyyy-MM-dd",
    "consumer.expiration-time": "1 d",
    "tag.automatic-creation": "process-time",
    "tag.num-retained-max": "3",
}


def everything_due(warehouse: Path) -> None:
    lake = Lake(warehouse)
    lake.primary_key(partitioned=True, **DUE)
    for _ in range(4):
        lake.append({"k": [1, 2], "v": ["a", "b"], "dt": ["2020-01-01", "2999-01-01"]})
    table = lake.table()
    table.consumers.set("dead", 2)
    os.utime(table.paths.consumer("dead"), (0, 0))


CASES = {
    **{
        f"compact {name}": Case(
            job="compact", arguments=FULL, build=golden(name), leaves=True, parts=True, least=4
        )
        for name in ("dedup_write_only", "append_unaware", "append_bucketed", "postpone")
    },
    "compact append_vectors": Case(
        job="compact", arguments=FULL, build=append_vectors, leaves=True, parts=True, least=4
    ),
    "compact data evolution": Case(
        job="compact",
        arguments=FULL,
        build=evolving,
        leaves=True,
        parts=True,
        state=tracked,
        least=4,
    ),
    "compact new row ids": Case(
        job="compact",
        # Files with neighbouring new ids stay apart in a second run, too.
        arguments={
            "strategy": "full",
            "options": {REWRITE_ROW_IDS.key: "true", "compaction.min.file-num": "5"},
        },
        build=indexed,
        leaves=True,
        least=4,
    ),
    "create_global_index": Case(
        job="create_global_index",
        arguments={"index_column": "v", "options": {"sorted-index.records-per-range": "2"}},
        build=evolving,
        leaves=True,
        state=tracked,
        least=6,
    ),
    "reassign_row_id": Case(
        job="reassign_row_id", build=indexed, leaves=True, state=tracked, least=4
    ),
    "drop_global_index": Case(
        job="drop_global_index",
        arguments={"index_column": "v"},
        build=indexed,
        leaves=True,
        state=tracked,
    ),
    # A second minor compaction merges the files that the first one has made.
    "compact clustered": Case(
        job="compact", arguments=FULL, build=clustered, leaves=True, parts=True, least=4
    ),
    **{
        f"compact indexed keys {told['strategy']}": Case(
            job="compact", arguments=told, build=indexed_keys, leaves=True, parts=True, least=4
        )
        for told in (FULL, MINOR)
    },
    "rescale clustered": Case(
        job="rescale", arguments={"bucket_num": 3}, build=clustered, leaves=True, parts=True
    ),
    "compact key_vectors": Case(
        job="compact",
        arguments=MINOR,
        build=key_vectors,
        leaves=True,
        parts=True,
        state=streamed,
        least=4,
    ),
    "compact with changelog": Case(
        job="compact",
        arguments=FULL,
        build=with_changelog,
        leaves=True,
        parts=True,
        state=streamed,
        least=4,
    ),
    **{
        f"rescale {kind}": Case(
            job="rescale",
            arguments=BUCKETS,
            build=partial(two_days, kind),
            leaves=True,
            parts=True,
            after_failure=partial(says_nothing_half, 2),
            least=10,
        )
        for kind in ("key", "append")
    },
    "rescale back": Case(
        job="rescale",
        arguments={"restore": True, "batch_bytes": "1 b"},
        build=rescaled,
        leaves=True,
        parts=True,
        after_failure=partial(says_nothing_half, 3),
        least=10,
    ),
    **{
        f"sort_compact {kind}": Case(
            job="sort_compact",
            arguments=arguments,
            build=partial(two_days, kind),
            leaves=True,
            parts=True,
            least=10,
        )
        for kind, arguments in (
            ("log", ORDER),
            ("dynamic", {**ORDER, "writers_stopped": True}),
            ("incremental", {"strategy": "full", "batch_bytes": "1 b"}),
        )
    },
    "maintain": Case(
        job="maintain",
        arguments={"compact": "full", "also": ["compact_manifest"]},
        build=everything_due,
        leaves=True,
        parts=True,
        least=10,
    ),
}
