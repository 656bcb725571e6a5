"""A unit of compaction work and its result; both are sent as bytes to and from executors.

A unit belongs to one bucket and is executed by one task.  It holds all decisions of the rules, so
that executing it needs no rules::

    primary key   rewrites   groups of sections; each group becomes files of its own, in key order
                  upgrades   files that only change their level; some are read nevertheless, to
                             write their rows to the changelog or to look their keys up
    append        files      concatenated, in this order; with data evolution, files of the same
                             rows are put together column by column, and keep their ids or get
                             new ones
    postponed     files      replayed, in this order, into the real buckets of the partition
    clustered     rewrites   of new files, whose rows are sorted by other columns than the key
                  groups     of files that are in that order already, each merged into files

A bucket too large for one task is split into several units with a `key_range` each.  All of them
read the same files, and only one of them, with `owns_inputs`, names these as deleted; so all
results of a bucket must be committed together (java-rules E7).

In a table with deletion vectors, a unit also names the vectors of the files that it reads, and the
levels `above` its output, which may hold rows that its own rows supersede.  The result names these
rows, and `vectors` turns all results of a bucket into index files (java-rules E8).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from paimon_core.commit.message import CommitMessage
from paimon_core.errors import InvalidArgument
from paimon_core.lsm.tree.sorted_run import Section, SortedRun
from paimon_core.manifest.data_file import (
    DataFileMeta,
    DeletionVectorRange,
    FileSource,
    IndexFileMeta,
    SimpleStats,
)

_FORMAT = 1

Rewrite = tuple[Section, ...]
"""Sections in key order that are merged into one sequence of files."""


@dataclass(frozen=True, slots=True)
class RowWindow:
    """The rows of a data file from `begin` to `end` - 1."""

    data_file: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys >= `low` and < `high`, as stored row bytes; None means unbounded.

    `windows` are the rows of files outside which no key is in the range; a file without a window
    may hold such keys anywhere.  Without `may_copy`, no stretch of the rows of one file is long
    enough to copy its pages, so nobody has to look for one.
    """

    low: bytes | None
    high: bytes | None
    windows: tuple[RowWindow, ...] = ()
    may_copy: bool = True

    @property
    def rows(self) -> dict[str, range]:
        """Return the windows by file name."""
        return {w.data_file: range(w.begin, w.end) for w in self.windows}


@dataclass(frozen=True, slots=True)
class Replay:
    """The replay of postponed rows: the bucket count, and the first sequence number."""

    buckets: int
    first_sequence_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteredWork:
    """Sorts rows by `columns` instead of the key: those of `rewrites`, and each of these groups.

    `takes_new`: the rows of `rewrites` go into the files of the first group.
    """

    columns: tuple[str, ...]
    groups: tuple[tuple[DataFileMeta, ...], ...] = ()
    takes_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactUnit:
    """Work for one task; see the module.  `reason` is for display.

    `above`: the sorted runs above the output level in which superseded rows are looked up, the
    nearest first.  `vector_files`: the index files with deletion vectors of files that are read or
    looked up in; their ranges may name only these.  `read_upgrades` are not part of `upgrades`.
    `writes_changelog`: the changes are written to changelog files.  `expired_before`: older rows
    (seconds since the epoch) are dropped, by `record-level.expire-time`.  `new_row_ids`: the append
    files, BLOB files too, are written without deleted rows, and the commit numbers the others.
    `clustered`: the files are sorted by other columns than the key.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    output_level: int = 0
    drop_deletes: bool = False
    rewrites: tuple[Rewrite, ...] = ()
    upgrades: tuple[DataFileMeta, ...] = ()
    read_upgrades: tuple[DataFileMeta, ...] = ()
    writes_changelog: bool = False
    expired_before: int | None = None
    append_files: tuple[DataFileMeta, ...] = ()
    new_row_ids: bool = False
    key_range: KeyRange | None = None
    owns_inputs: bool = True
    above: tuple[SortedRun, ...] = ()
    vector_files: tuple[IndexFileMeta, ...] = ()
    replay: Replay | None = None
    clustered: ClusteredWork | None = None
    reason: str = ""

    @property
    def rewritten_files(self) -> tuple[DataFileMeta, ...]:
        """Return the files that are read, each once."""
        if self.append_files:
            return self.append_files
        merged = (
            f
            for rewrite in self.rewrites
            for section in rewrite
            for run in section
            for f in run.files
        )
        groups = () if self.clustered is None else self.clustered.groups
        return (*merged, *(f for group in groups for f in group))

    @property
    def moved_files(self) -> tuple[DataFileMeta, ...]:
        """Return the files that only change their level, read or not."""
        return (*self.upgrades, *self.read_upgrades)

    @property
    def read_bytes(self) -> int:
        """Return the bytes of the files that are read, without those above the output."""
        return self.rewritten_bytes + sum(f.file_size for f in self.read_upgrades)

    @property
    def rewritten_bytes(self) -> int:
        return sum(f.file_size for f in self.rewritten_files)

    @property
    def rewritten_rows(self) -> int:
        return sum(f.row_count for f in self.rewritten_files)

    @property
    def is_metadata_only(self) -> bool:
        """Return whether nothing must be read."""
        return not self.rewritten_files and not self.read_upgrades

    def to_bytes(self) -> bytes:
        """Encode the unit for `from_bytes` of the same version of this library."""
        return _dump("unit", _plain(self))

    @staticmethod
    def from_bytes(data: bytes) -> CompactUnit:
        """Decode the result of `to_bytes`; InvalidArgument for anything else."""
        obj = _load("unit", data)
        key_range = obj["key_range"]
        return CompactUnit(
            partition=_bytes(obj["partition"]),
            bucket=obj["bucket"],
            total_buckets=obj["total_buckets"],
            output_level=obj["output_level"],
            drop_deletes=obj["drop_deletes"],
            rewrites=tuple(
                tuple(tuple(SortedRun(_files(run["files"])) for run in s) for s in rewrite)
                for rewrite in obj["rewrites"]
            ),
            upgrades=_files(obj["upgrades"]),
            read_upgrades=_files(obj["read_upgrades"]),
            writes_changelog=obj["writes_changelog"],
            expired_before=obj["expired_before"],
            append_files=_files(obj["append_files"]),
            new_row_ids=obj["new_row_ids"],
            key_range=key_range
            and KeyRange(
                _maybe_bytes(key_range["low"]),
                _maybe_bytes(key_range["high"]),
                tuple(RowWindow(**w) for w in key_range["windows"]),
                key_range["may_copy"],
            ),
            owns_inputs=obj["owns_inputs"],
            above=tuple(SortedRun(_files(run["files"])) for run in obj["above"]),
            vector_files=tuple(map(_index_file, obj["vector_files"])),
            replay=obj["replay"] and Replay(**obj["replay"]),
            clustered=obj["clustered"] and _clustered(obj["clustered"]),
            reason=obj["reason"],
        )


@dataclass(frozen=True, slots=True)
class SupersededRows:
    """Rows of a remaining file that the written rows supersede.

    `positions` is a 64-bit Roaring bitmap of row positions.
    """

    data_file: str
    positions: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult:
    """The result of a unit: removed and added files (Java: `compact/CompactResult`).

    An upgraded file is in `before` and, with its new level, in `after`.  `superseded` holds the
    rows to add to the bucket's deletion vectors; the index files contain the outcome.  `moved`
    holds the files added to other buckets of the partition, which are committed together with this
    result.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    before: tuple[DataFileMeta, ...] = ()
    after: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexFileMeta, ...] = ()
    deleted_index_files: tuple[IndexFileMeta, ...] = ()
    superseded: tuple[SupersededRows, ...] = ()
    moved: tuple[CompactResult, ...] = ()

    def to_messages(self) -> list[CommitMessage]:
        """Return the result and the files moved to other buckets as messages of one commit."""
        return [self.to_message(), *(m.to_message() for m in self.moved)]

    def to_message(self) -> CommitMessage:
        """Return the result as the compaction part of a commit message."""
        return CommitMessage(
            partition=self.partition,
            bucket=self.bucket,
            total_buckets=self.total_buckets,
            compact_before=self.before,
            compact_after=self.after,
            compact_changelog=self.changelog_files,
            compact_new_index_files=self.new_index_files,
            compact_deleted_index_files=self.deleted_index_files,
        )

    def to_bytes(self) -> bytes:
        """Encode the result for `from_bytes` of the same version of this library."""
        return _dump("result", _plain(self))

    @staticmethod
    def from_bytes(data: bytes) -> CompactResult:
        """Decode the output of `to_bytes`; InvalidArgument for anything else."""
        obj = _load("result", data)
        return CompactResult(
            partition=_bytes(obj["partition"]),
            bucket=obj["bucket"],
            total_buckets=obj["total_buckets"],
            before=_files(obj["before"]),
            after=_files(obj["after"]),
            changelog_files=_files(obj["changelog_files"]),
            new_index_files=tuple(map(_index_file, obj["new_index_files"])),
            deleted_index_files=tuple(map(_index_file, obj["deleted_index_files"])),
            superseded=tuple(
                SupersededRows(s["data_file"], _bytes(s["positions"])) for s in obj["superseded"]
            ),
            moved=tuple(CompactResult.from_bytes(_dump("result", m)) for m in obj["moved"]),
        )


def merged(results: Sequence[CompactResult]) -> CompactResult:
    """Merge the results of one bucket's units; InvalidArgument for several buckets."""
    first = results[0]
    if any((r.partition, r.bucket) != (first.partition, first.bucket) for r in results):
        raise InvalidArgument("results of several buckets cannot be merged")
    return replace(
        first,
        before=tuple(f for r in results for f in r.before),
        after=tuple(f for r in results for f in r.after),
        changelog_files=tuple(f for r in results for f in r.changelog_files),
        new_index_files=tuple(f for r in results for f in r.new_index_files),
        deleted_index_files=tuple(f for r in results for f in r.deleted_index_files),
        superseded=tuple(s for r in results for s in r.superseded),
        moved=_merged_by_bucket([m for r in results for m in r.moved]),
    )


def _merged_by_bucket(results: Sequence[CompactResult]) -> tuple[CompactResult, ...]:
    by_bucket: dict[int, list[CompactResult]] = {}
    for result in results:
        by_bucket.setdefault(result.bucket, []).append(result)
    return tuple(merged(found) for found in by_bucket.values())


# --- as JSON, byte strings in base64 --------------------------------------------------------------


def _dump(kind: str, obj: Any) -> bytes:
    return json.dumps({"format": _FORMAT, "kind": kind, **obj}, separators=(",", ":")).encode()


def _load(kind: str, data: bytes) -> dict[str, Any]:
    try:
        obj = json.loads(data)
    except ValueError as e:
        raise InvalidArgument(f"not the bytes of a compaction {kind}: {e}") from e
    if not isinstance(obj, dict) or (obj.get("format"), obj.get("kind")) != (_FORMAT, kind):
        raise InvalidArgument(
            f"not the bytes of a compaction {kind}, or of another version of this library"
        )
    return obj


def _plain(value: Any) -> Any:
    """Convert dataclasses to objects and bytes to base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "__dataclass_fields__"):
        # Unknown fields stay here: the commit knows them from the manifest.
        names = (f.name for f in fields(value) if f.name != "unknown")
        return {name: _plain(getattr(value, name)) for name in names}
    return value


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def _maybe_bytes(text: str | None) -> bytes | None:
    return None if text is None else _bytes(text)


def _maybe_tuple(values: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def _clustered(obj: Mapping[str, Any]) -> ClusteredWork:
    return ClusteredWork(
        columns=tuple(obj["columns"]),
        groups=tuple(map(_files, obj["groups"])),
        takes_new=obj["takes_new"],
    )


def _files(objs: Sequence[Mapping[str, Any]]) -> tuple[DataFileMeta, ...]:
    return tuple(map(_file, objs))


def _file(obj: Mapping[str, Any]) -> DataFileMeta:
    source = obj["file_source"]
    return DataFileMeta(
        **{
            **obj,
            "min_key": _bytes(obj["min_key"]),
            "max_key": _bytes(obj["max_key"]),
            "key_stats": _stats(obj["key_stats"]),
            "value_stats": _stats(obj["value_stats"]),
            "extra_files": tuple(obj["extra_files"]),
            "embedded_index": _maybe_bytes(obj["embedded_index"]),
            "file_source": None if source is None else FileSource(source),
            "value_stats_cols": _maybe_tuple(obj["value_stats_cols"]),
            "write_cols": _maybe_tuple(obj["write_cols"]),
        }
    )


def _stats(obj: Mapping[str, Any]) -> SimpleStats:
    return SimpleStats(
        _bytes(obj["min_values"]), _bytes(obj["max_values"]), _maybe_tuple(obj["null_counts"])
    )


def _index_file(obj: Mapping[str, Any]) -> IndexFileMeta:
    ranges = obj["dv_ranges"]
    return IndexFileMeta(
        **{
            **obj,
            "dv_ranges": None
            if ranges is None
            else tuple(DeletionVectorRange(**r) for r in ranges),
        }
    )
