"""Plans the compaction of one primary-key bucket.

Java: `MergeTreeCompactManager`, `CompactStrategy.pickFullCompaction`, `MergeTreeCompactTask`.

The picked files are split into sections.  A section of several runs is merged.  Of the files
without overlap, a large one (at least 70 % of the target size) moves to the output level by
metadata only.  Small ones are rewritten together with adjacent files; a single small file moves up
as well.  A file that would move is rewritten instead

- to the top level, if it holds or may hold deletes;
- if it holds expired records;
- if the table sets `compaction.force-rewrite-all-files`;
- from level 0, where lookups are needed (java-rules E4): if the levels have different formats, if
  it holds deletes that deletion vectors must drop, or if records above may have to be merged with
  its own.

A file that moves is read if its rows are new to the changelog or to deletion vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from paimon_core.compaction.unit import CompactUnit, Rewrite
from paimon_core.lsm.changelog_producers import changelog_producer_of
from paimon_core.lsm.engines.traits import newest_file_wins
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.lsm.tree.levels import Levels, levels_of
from paimon_core.lsm.tree.sorted_run import SortedRun
from paimon_core.lsm.tree.universal_compaction import (
    Pick,
    PickRules,
    needs_lookup,
    number_of_levels,
    pick_full,
    pick_minor,
)
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import (
    COMPACTION_FORCE_REWRITE_ALL_FILES,
    DELETION_VECTORS_ENABLED,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    Options,
)
from paimon_core.schema.table_schema import TableSchema
from paimon_core.write.file_layout import small_file_size


def pick_primary_key(
    files: Sequence[DataFileMeta],
    schema: TableSchema,
    *,
    partition: bytes,
    bucket: int,
    total_buckets: int,
    full: bool,
    local_millis: int,
    is_expired: Callable[[DataFileMeta], bool] | None = None,
    expired_before: int | None = None,
    with_deletion_vectors: Collection[str] = (),
) -> CompactUnit | None:
    """Return the work due in a bucket; None if there is none.

    `files` holds all live files of the bucket; `local_millis` is the wall clock time, as in
    creation times; `is_expired` returns whether a file holds records beyond
    `record-level.expire-time`, and `expired_before` is that limit in seconds since the epoch;
    `with_deletion_vectors` names the files that have one.
    """
    options = schema.options
    levels = levels_of(files, schema.key_type, number_of_levels(options))
    rules = _Rules(
        options=options,
        top_level=levels.top_level,
        is_expired=is_expired or (lambda _: False),
    )
    only_top = len(levels.runs) == 1 and levels.runs[0].level == levels.top_level
    if full:
        picked = pick_full(levels)
    else:
        picked = pick_minor(
            levels,
            PickRules.of(options),
            local_millis=local_millis,
            last_full=_last_full(levels),
        )
    if picked is None:
        return None
    if full and only_top:
        chosen = [
            f
            for f in picked.files
            if rules.force or rules.is_expired(f) or f.file_name in with_deletion_vectors
        ]
        work = _Work(rewrites=[_alone(f) for f in chosen])
    else:
        work = _divided(picked, schema, rules)
    if not work:
        return None
    output = picked.output_level
    return CompactUnit(
        partition=partition,
        bucket=bucket,
        total_buckets=total_buckets,
        output_level=output,
        drop_deletes=output != 0 and (output >= levels.highest_non_empty or rules.has_vectors),
        rewrites=tuple(work.rewrites),
        upgrades=tuple(work.renamed),
        read_upgrades=tuple(work.read),
        above=_above(levels, output) if needs_lookup(options) else (),
        writes_changelog=rules.writes_changelog(output),
        expired_before=expired_before,
        reason=str(picked.reason),
    )


class _Move(Enum):
    """The handling of a file without overlap."""

    REWRITE = 1
    READ = 2
    """The file changes its level and is read for its rows."""
    RENAME = 3
    """The file changes its level by metadata only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """The rules by which files without overlap get to the output level."""

    options: Options
    top_level: int
    is_expired: Callable[[DataFileMeta], bool]

    @property
    def small(self) -> int:
        return small_file_size(self.options, primary_key=True)

    @property
    def force(self) -> bool:
        return self.options.value(COMPACTION_FORCE_REWRITE_ALL_FILES)

    @property
    def has_vectors(self) -> bool:
        return self.options.value(DELETION_VECTORS_ENABLED)

    def writes_changelog(self, level: int) -> bool:
        """Return whether a compaction into this level writes a changelog."""
        producer = changelog_producer_of(self.options)
        return producer.is_written_at(level, top_level=self.top_level)

    def move(self, file: DataFileMeta, level: int) -> _Move:
        may_hold_deletes = file.delete_row_count is None or file.delete_row_count > 0
        if (level == self.top_level and may_hold_deletes) or self.force or self.is_expired(file):
            return _Move.REWRITE
        if changelog_producer_of(self.options).top_level_only and self.writes_changelog(level):
            return _Move.READ
        if file.level != 0 or not needs_lookup(self.options):
            return _Move.RENAME
        if self._format(0) != self._format(level) or (self.has_vectors and may_hold_deletes):
            return _Move.REWRITE
        if level != self.top_level and not newest_file_wins(self.options):
            return _Move.REWRITE
        return _Move.READ if self.writes_changelog(level) or self.has_vectors else _Move.RENAME

    def _format(self, level: int) -> str:
        return self.options.value(FILE_FORMAT_PER_LEVEL).get(level, self.options.value(FILE_FORMAT))


@dataclass(frozen=True, slots=True)
class _Work:
    """The groups of a pick that are rewritten, and the files that move up."""

    rewrites: list[Rewrite] = field(default_factory=list)
    read: list[DataFileMeta] = field(default_factory=list)
    renamed: list[DataFileMeta] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.rewrites or self.read or self.renamed)


def _divided(picked: Pick, schema: TableSchema, rules: _Rules) -> _Work:
    work = _Work()

    def move_up(file: DataFileMeta) -> None:
        how = rules.move(file, picked.output_level)
        if how is _Move.REWRITE:
            work.rewrites.append(_alone(file))
        elif file.level != picked.output_level:
            (work.read if how is _Move.READ else work.renamed).append(file)

    for group in _groups(picked, schema, rules.small):
        if isinstance(group, DataFileMeta):
            move_up(group)
        elif len(group) == 1 and len(group[0]) == 1:
            for file in group[0][0].files:
                move_up(file)
        else:
            work.rewrites.append(group)
    return work


def _above(levels: Levels, output: int) -> tuple[SortedRun, ...]:
    """Return the runs of the levels above the output, the nearest first."""
    return tuple(r.run for r in levels.runs if r.level > output)


def _groups(picked: Pick, schema: TableSchema, small: int) -> Iterator[Rewrite | DataFileMeta]:
    """Yield, in key order, large files without overlap and the sections between them."""
    group: list[tuple[SortedRun, ...]] = []
    for section in interval_partition(picked.files, schema.key_type):
        if len(section) > 1:
            group.append(section)
            continue
        for file in section[0].files:
            if file.file_size < small:
                group.append((SortedRun((file,)),))
                continue
            if group:
                yield tuple(group)
                group = []
            yield file
    if group:
        yield tuple(group)


def _alone(file: DataFileMeta) -> Rewrite:
    return ((SortedRun((file,)),),)


def _last_full(levels: Levels) -> int | None:
    """Return the time of the last full compaction, from the top level (Java 2.0.0)."""
    times = [
        f.creation_time
        for r in levels.runs
        if r.level == levels.top_level
        for f in r.run.files
        if f.creation_time is not None
    ]
    return max(times, default=None)
