"""Batch reads as the `scan.*` and `incremental-*` options of a table define them.

Java: `table/source/AbstractDataTableScan.createStartingScanner`, `TimeTravelUtil`.

=========================  =========================================================================
scan.mode                  what is read
=========================  =========================================================================
latest-full, latest, full  the newest snapshot
compacted-full             the newest snapshot of a (full) compaction, else the newest
from-snapshot, ...-full    the one of `scan.snapshot-id`, `scan.tag-name`, `scan.watermark`
from-timestamp             the last one committed at or before `scan.timestamp[-millis]`
from-file-creation-time    files of the newest created since `scan.file-creation-time-millis`
from-creation-timestamp    the first snapshot at or after the time, or files created since
incremental                `incremental-between[-timestamp]`, `incremental-to-auto-tag`
=========================  =========================================================================

Options apply to one handle: `open_table(..., dynamic_options={...})`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from itertools import chain
from typing import Final

import pyarrow as pa

from paimon_core.errors import InvalidArgument, NoSuchVersion, UnsupportedFeature
from paimon_core.features import CHAIN_TABLE
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.options import SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH
from paimon_core.predicate import Predicate, fields_of
from paimon_core.read.incremental import has_other_buckets, read_diff
from paimon_core.read.snapshot_changes import read_between
from paimon_core.read.stream import created_since, first_since, newest_compacted
from paimon_core.read.table_read import chosen_rows, read_table
from paimon_core.refs.tag_period import TagPeriod
from paimon_core.refs.tags import Tag
from paimon_core.scan.scan import scan_files
from paimon_core.schema.scan_options import check_scan_options, scan_mode
from paimon_core.snapshot.snapshot import NO_SNAPSHOT, Identity, Snapshot
from paimon_core.table.chain.read import Chain, alone, chain_of, read_chain
from paimon_core.table.source.fallback import both_branches
from paimon_core.table.source.postponed_rows import (
    beside,
    check_whole_snapshot,
    merges_postponed,
    postponed_tasks,
    read_postponed,
)
from paimon_core.table.source.read_tags import ReadTag, create_read_tags, until_read
from paimon_core.table.source.time_travel import travel
from paimon_core.types.datetimes import local_to_utc, parse_sql_timestamp

NANOS_OF_MILLI: Final = 1_000_000
INCREMENTAL_MODES: Final = ("auto", "delta", "changelog", "diff")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchScan:
    """What to read from `table`, which has the schema of that time.

    `whole` is a snapshot (files created before `since`, epoch milliseconds, are left out);
    `between` holds the ids of a range of changes, start exclusive, and `mode` their kind; `diff`
    holds two snapshots to compare; `chain` holds two branches of a chain table.  With none of them,
    there are no rows.  `then` supplies the partitions that this scan does not have
    (`paimon_core.table.source.fallback`).
    """

    table: FileStoreTable
    whole: Snapshot | None = None
    since: int | None = None
    between: tuple[int, int] | None = None
    mode: str = "auto"
    diff: tuple[Snapshot, Snapshot] | None = None
    chain: Chain | None = None
    then: BatchScan | None = None

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield the snapshots whose files are read; of a range of changes, the last one."""
        if self.whole is not None:
            yield self.whole
        elif self.diff is not None:
            yield from self.diff
        elif self.between is not None:
            last = self.table.snapshots.get_or_none(self.between[1])
            if last is not None:
                yield last

    @property
    def identity(self) -> Identity | None:
        """The snapshot that is read as a whole, NO_SNAPSHOT if the table had none, else None."""
        if self.whole is not None:
            return self.whole.identity
        partly = self.between is not None or self.diff is not None or self.chain is not None
        return None if partly else NO_SNAPSHOT


def batch_scan_of(table: FileStoreTable, *, zone: tzinfo = UTC) -> BatchScan:
    """Return the scan that the table's options define.

    `zone` is the time zone of times written as text.  Raises SchemaError for conflicting options,
    InvalidArgument or NotFound for what cannot be read.
    """
    branches_of_chain = chain_of(table)
    if branches_of_chain is not None:
        return _of_chain(table, branches_of_chain)
    branches = both_branches(table)
    if branches is None:
        return _of_one_branch(table, zone)
    first, second = (_of_one_branch(branch, zone) for branch in branches)
    if scan_mode(table.options) == "incremental":
        raise UnsupportedFeature(
            f"incremental reads with {SCAN_FALLBACK_BRANCH.key} or {SCAN_PRIMARY_BRANCH.key}",
            table=table.name,
        )
    return replace(first, then=second)


def rescaled_between(
    table: FileStoreTable, *, zone: tzinfo = UTC
) -> tuple[Snapshot, Snapshot] | None:
    """Return the snapshots that the options compare, if they differ in the number of buckets."""
    diff = batch_scan_of(table, zone=zone).diff
    return diff if diff is not None and has_other_buckets(table, *diff) else None


def _of_chain(table: FileStoreTable, branches: Chain) -> BatchScan:
    """Return the scan of the table's own branch, followed by its chains."""
    mode = scan_mode(table.options)
    if mode not in ("latest-full", "latest") or "scan.version" in table.options:
        raise UnsupportedFeature(
            f"{CHAIN_TABLE} with scan.mode={mode}",
            f"chain table {table.name} is only read as it is now; read one of its branches instead",
            table=table.name,
        )
    own = alone(table)
    then = BatchScan(table=own, chain=branches)
    return BatchScan(table=own, whole=own.snapshots.latest(), then=then)


def _of_one_branch(table: FileStoreTable, zone: tzinfo) -> BatchScan:
    options = table.options
    version = options.get("scan.version")
    if version is not None:
        return _version(table, version)
    check_scan_options(options)
    mode = scan_mode(options)
    latest = table.snapshots.latest()
    match mode:
        case "latest-full" | "latest":
            return BatchScan(table=table, whole=latest)
        case "compacted-full":
            return BatchScan(table=table, whole=newest_compacted(table) or latest)
        case "from-timestamp":
            at = millis_of(
                options.get("scan.timestamp-millis"), options.get("scan.timestamp"), zone
            )
            return _at(*travel(table, timestamp_millis=at))
        case "from-snapshot" | "from-snapshot-full":
            return _from_snapshot(table)
        case "from-file-creation-time":
            since = _number(options["scan.file-creation-time-millis"])
            return BatchScan(table=table, whole=latest, since=since)
        case "from-creation-timestamp":
            return _since_creation(table, latest, _number(options["scan.creation-time-millis"]))
        case "incremental":
            return _incremental(table, zone)
    raise InvalidArgument(f"scan.mode={mode} does not apply to a batch read", table=table.name)


def read_batch(
    batch: BatchScan,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    limit: int | None = None,
    keep_deletes: bool = False,
    zone: tzinfo = UTC,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows as `read_table` does; changes with their kinds, unmerged.

    `zone` is the time zone of the files' creation times.  Tags for the read (`read_tags`) end with
    the last row.
    """
    rows = rows_of_scan(batch, columns, predicate, limit, keep_deletes=keep_deletes, zone=zone)
    tags = tag_for_read(batch)  # only of what can be read; no file of it is open yet
    return until_read(rows, tags) if tags else rows


def tag_for_read(scan: BatchScan) -> list[ReadTag]:
    """Tag the snapshots whose files the scan reads, where options say so (`read_tags`)."""
    tags: list[ReadTag] = []
    at: BatchScan | None = scan
    while at is not None:
        tags += create_read_tags(at.table, at.snapshots())
        at = at.then
    return tags


def rows_of_scan(
    batch: BatchScan,
    columns: Sequence[str] | None,
    predicate: Predicate | None,
    limit: int | None = None,
    *,
    keep_deletes: bool,
    zone: tzinfo,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `read_batch`, whose snapshot stays without a tag, or has one already."""
    table = batch.table
    names = table.schema.names if columns is None else columns
    if not keep_deletes:
        check_whole_snapshot(table)
    if batch.diff is not None:
        before, after = batch.diff
        rows = read_diff(
            table, before, after, columns=names, predicate=predicate, keep_deletes=keep_deletes
        )
        return chosen_rows(rows, names, None, limit)
    if batch.between is not None:
        start, end = batch.between
        needed = {*names, *(fields_of(predicate) if predicate is not None else ())}
        changes = read_between(table, start, end, mode=batch.mode, columns=needed)
        return chosen_rows(changes, names, predicate, limit)
    wholes = _wholes(batch, columns, predicate, keep_deletes=keep_deletes, zone=zone)
    # What cannot be read is refused now, not with the first row.
    first = next(wholes)
    if batch.then is None and not merges_postponed(table):
        return first if limit is None else chosen_rows(first, names, None, limit)
    return chosen_rows(chain(first, chain.from_iterable(wholes)), names, None, limit)


def _wholes(
    batch: BatchScan,
    columns: Sequence[str] | None,
    predicate: Predicate | None,
    *,
    keep_deletes: bool,
    zone: tzinfo,
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield the rows of the batch, then those of the fallback batch."""
    seen: set[bytes] = set()
    at: BatchScan | None = batch
    while at is not None:
        if at.chain is not None:
            left = replace(at.chain, skip=at.chain.skip | seen)
            yield read_chain(left, columns=columns, predicate=predicate, keep_deletes=keep_deletes)
        elif at.whole is None:
            yield iter(())
        else:
            keep = kept_files(at, frozenset(seen), zone)
            names = at.table.schema.names if columns is None else columns
            # An audit log shows what the buckets hold.
            postponed = (
                []
                if keep_deletes
                else postponed_tasks(
                    at.table, at.whole, predicate=predicate, keep=keep, columns=columns
                )
            )
            yield from (read_postponed(task, names, predicate) for task in postponed)
            yield read_table(
                at.table,
                at.whole,
                columns=columns,
                predicate=predicate,
                keep_deletes=keep_deletes,
                keep=beside(postponed, keep),
                lenient=True,
            )
            if at.then is not None:
                seen |= {e.partition for e in scan_files(at.table, at.whole)}
        at = at.then


def kept_files(
    batch: BatchScan, seen: frozenset[bytes], zone: tzinfo
) -> Callable[[ManifestEntry], bool] | None:
    """Which files of a whole snapshot are read: young enough, of partitions not seen; None: all."""
    young = None if batch.since is None else created_since(batch.since, zone)
    if not seen:
        return young
    return lambda e: e.partition not in seen and (young is None or young(e))


# --- versions -----------------------------------------------------------------------------------


def _version(table: FileStoreTable, version: str) -> BatchScan:
    """`scan.version`: a tag's name, "watermark-N", or a snapshot's id, in this order."""
    if table.tags.exists(version):
        return _at(*travel(table, tag=version))
    if version.startswith("watermark-"):
        return _at(*travel(table, watermark=_number(version.removeprefix("watermark-"))))
    if version.isdecimal():
        return _at(*travel(table, snapshot=int(version)))
    raise NoSuchVersion(
        f"Cannot find a time travel version for {version}: Tag '{version}' doesn't exist",
        table=table.name,
    )


def _from_snapshot(table: FileStoreTable) -> BatchScan:
    options = table.options
    snapshot, watermark = options.get("scan.snapshot-id"), options.get("scan.watermark")
    return _at(
        *travel(
            table,
            snapshot=None if snapshot is None else _number(snapshot),
            tag=options.get("scan.tag-name"),
            watermark=None if watermark is None else _number(watermark),
        )
    )


def _at(table: FileStoreTable, snapshot: Snapshot | None) -> BatchScan:
    return BatchScan(table=table, whole=snapshot)


def _since_creation(table: FileStoreTable, latest: Snapshot | None, millis: int) -> BatchScan:
    first = first_since(table, millis)
    if first is not None:
        return _at(*travel(table, snapshot=first))
    return BatchScan(table=table, whole=latest, since=millis)


# --- between ------------------------------------------------------------------------------------


def incremental_mode(table: FileStoreTable) -> str:
    """Return `incremental-between-scan-mode`; InvalidArgument for an unknown mode."""
    mode = table.options.get("incremental-between-scan-mode", "auto").strip().lower()
    if mode not in INCREMENTAL_MODES:
        raise InvalidArgument(
            f"unknown incremental-between-scan-mode {mode!r}; "
            f"expected {', '.join(INCREMENTAL_MODES)}"
        )
    return mode


def _incremental(table: FileStoreTable, zone: tzinfo) -> BatchScan:
    options = table.options
    mode = incremental_mode(table)
    between = options.get("incremental-between")
    if between is not None:
        as_snapshots = options.flag("incremental-between-tag-to-snapshot")
        return _between(table, *_pair(between), mode, tags_as_snapshots=as_snapshots)
    times = options.get("incremental-between-timestamp")
    if times is not None:
        start, end = (
            millis_of(t if t.lstrip("-").isdigit() else None, t, zone) for t in _pair(times)
        )
        return _between_times(table, start, end, mode)
    return _to_auto_tag(table, options["incremental-to-auto-tag"])


def _pair(text: str) -> tuple[str, str]:
    parts = [p.strip() for p in text.split(",")]
    if len(parts) != 2 or not all(parts):
        raise InvalidArgument(f"expected a start and an end, FROM,TO, found {text!r}")
    return parts[0], parts[1]


def _between(
    table: FileStoreTable, start: str, end: str, mode: str, *, tags_as_snapshots: bool
) -> BatchScan:
    first, last = table.tags.get_or_none(start), table.tags.get_or_none(end)
    if first is not None and last is not None:
        return _between_tags(table, first, last, mode, as_snapshots=tags_as_snapshots)
    if not (start.isdecimal() and end.isdecimal()):
        raise InvalidArgument(
            f"{start!r} and {end!r} are neither two tags nor two snapshots of table {table.name}",
            table=table.name,
        )
    from_id, to_id = int(start), int(end)
    _check_order(table, from_id, to_id)
    if from_id == to_id or table.snapshots.earliest_id() is None:
        return BatchScan(table=table)
    if mode == "diff":
        pair = table.snapshots.get(from_id), table.snapshots.get(to_id)
        return BatchScan(table=table, diff=pair)
    return BatchScan(table=table, between=(from_id, to_id), mode=mode)


def _check_order(table: FileStoreTable, start: int, end: int) -> None:
    if end < start:
        raise InvalidArgument(f"the end, {end}, is before the start, {start}", table=table.name)


def _between_tags(
    table: FileStoreTable, first: Tag, last: Tag, mode: str, *, as_snapshots: bool
) -> BatchScan:
    start, end = first.snapshot, last.snapshot
    if as_snapshots:
        if mode == "diff":
            raise InvalidArgument("scan mode diff needs tags, not snapshots")
        return BatchScan(table=table, between=(start.id, end.id), mode=mode)
    _check_order(table, start.id, end.id)
    return BatchScan(table=table, diff=None if start.id == end.id else (start, end))


def _between_times(table: FileStoreTable, start: int, end: int, mode: str) -> BatchScan:
    earliest, latest = table.snapshots.earliest(), table.snapshots.latest()
    if earliest is None or latest is None:
        return BatchScan(table=table)
    _check_order(table, start, end)
    if start == end or start > latest.time_millis or end < earliest.time_millis:
        return BatchScan(table=table)
    first = table.snapshots.at_or_before_time(start)
    last = table.snapshots.at_or_before_time(end) or latest
    if mode == "diff":
        return BatchScan(table=table, diff=(first or earliest, last))
    return BatchScan(
        table=table, between=(earliest.id - 1 if first is None else first.id, last.id), mode=mode
    )


def _to_auto_tag(table: FileStoreTable, name: str) -> BatchScan:
    """Return the changes since the previous automatic tag; empty if one of the tags is missing."""
    period = TagPeriod.of(table.options)
    time = period.time_of(name)
    if time is None:
        raise InvalidArgument(f"{name!r} is not the name of an automatic tag of table {table.name}")
    end = table.tags.get_or_none(name)
    timed = [(period.time_of(t.name), t) for t in table.tags.all()]
    earlier = [(t, tag) for t, tag in timed if t is not None and t < time]
    if end is None or not earlier:
        return BatchScan(table=table)
    _, start = max(earlier, key=lambda pair: pair[0])
    return BatchScan(table=table, diff=(start.snapshot, end.snapshot))


# --- times --------------------------------------------------------------------------------------


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as e:
        raise InvalidArgument(f"not a whole number: {text!r}") from e


def millis_of(millis: str | None, text: str | None, zone: tzinfo) -> int:
    """Return epoch milliseconds from a number, or from a time such as "2024-01-31 12:00:00"."""
    if millis is not None:
        return _number(millis)
    try:
        nanos = parse_sql_timestamp(text or "", 3)
    except ValueError as e:
        raise InvalidArgument(f"not a time: {text!r}") from e
    return local_to_utc(nanos, zone) // NANOS_OF_MILLI
