"""What the compaction of one primary-key bucket does (Java: `MergeTreeCompactManager`,
`CompactStrategy.pickFullCompaction`, `MergeTreeCompactTask`).

The picked files are cut into sections.  A section of several runs is merged.  Of files that
overlap nothing, a large one (70 % of the target size and more) moves to the output level by
metadata alone, and small ones are rewritten together with their neighbours, unless one stands
alone: that moves up as well.  A file that would move is rewritten instead

- to the top level, if it holds deletes, or may hold some;
- if it holds expired records;
- if the table says so (`compaction.force-rewrite-all-files`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from paimon_core.compaction.unit import CompactUnit, Rewrite
from paimon_core.lsm.interval_partition import interval_partition
from paimon_core.lsm.levels import Levels, levels_of
from paimon_core.lsm.sorted_run import SortedRun
from paimon_core.lsm.universal_compaction import (
    Pick,
    PickRules,
    number_of_levels,
    pick_full,
    pick_minor,
)
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import (
    COMPACTION_FORCE_REWRITE_ALL_FILES,
    DELETION_VECTORS_ENABLED,
    Options,
)
from paimon_core.schema.table_schema import TableSchema
from paimon_core.write.file_layout import target_file_size


def small_file_size(options: Options, *, primary_key: bool) -> int:
    """Bytes below which a file counts as small (Java: `CoreOptions.compactionFileSize`)."""
    return target_file_size(options, primary_key=primary_key) // 10 * 7


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
    with_deletion_vectors: Collection[str] = (),
) -> CompactUnit | None:
    """The work that is due in a bucket, None if there is none.

    `files` are all live files of the bucket; `local_millis` is the wall clock, as creation times
    have it; `is_expired` tells whether a file holds records beyond `record-level.expire-time`;
    `with_deletion_vectors` names the files that have one.
    """
    options = schema.options
    levels = levels_of(files, schema.key_type, number_of_levels(options))
    force = options.value(COMPACTION_FORCE_REWRITE_ALL_FILES)
    must_rewrite = _Rules(
        top_level=levels.top_level,
        is_expired=is_expired or (lambda _: False),
        force=force,
        small=small_file_size(options, primary_key=True),
    )
    only_top = len(levels.runs) == 1 and levels.runs[0].level == levels.top_level
    if full and only_top:
        picked = pick_full(levels)
        assert picked is not None
        chosen = [
            f
            for f in picked.files
            if force or must_rewrite.is_expired(f) or f.file_name in with_deletion_vectors
        ]
        rewrites = [_alone(f) for f in chosen]
        upgrades: list[DataFileMeta] = []
    else:
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
        rewrites, upgrades = _divided(picked, schema, must_rewrite)
    if not rewrites and not upgrades:
        return None
    has_vectors = options.value(DELETION_VECTORS_ENABLED)
    return CompactUnit(
        partition=partition,
        bucket=bucket,
        total_buckets=total_buckets,
        output_level=picked.output_level,
        drop_deletes=picked.output_level != 0
        and (picked.output_level >= levels.highest_non_empty or has_vectors),
        rewrites=tuple(rewrites),
        upgrades=tuple(upgrades),
        reason=str(picked.reason),
    )


class _Rules:
    """Which files that overlap nothing are rewritten nevertheless."""

    __slots__ = ("_force", "_top_level", "is_expired", "small")

    def __init__(
        self,
        *,
        top_level: int,
        is_expired: Callable[[DataFileMeta], bool],
        force: bool,
        small: int,
    ) -> None:
        self._top_level = top_level
        self._force = force
        self.is_expired = is_expired
        self.small = small

    def forbids_upgrade(self, file: DataFileMeta, level: int) -> bool:
        may_hold_deletes = file.delete_row_count is None or file.delete_row_count > 0
        return (
            (level == self._top_level and may_hold_deletes) or self._force or self.is_expired(file)
        )


def _divided(
    picked: Pick, schema: TableSchema, rules: _Rules
) -> tuple[list[Rewrite], list[DataFileMeta]]:
    """What of the pick is rewritten, in groups, and what moves up."""
    rewrites: list[Rewrite] = []
    upgrades: list[DataFileMeta] = []

    def move_up(file: DataFileMeta) -> None:
        if rules.forbids_upgrade(file, picked.output_level):
            rewrites.append(_alone(file))
        elif file.level != picked.output_level:
            upgrades.append(file)

    for group in _groups(picked, schema, rules.small):
        if isinstance(group, DataFileMeta):
            move_up(group)
        elif len(group) == 1 and len(group[0]) == 1:
            for file in group[0][0].files:
                move_up(file)
        else:
            rewrites.append(group)
    return rewrites, upgrades


def _groups(picked: Pick, schema: TableSchema, small: int) -> Iterator[Rewrite | DataFileMeta]:
    """In key order: large files that overlap nothing, and the sections between them."""
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
    """When the bucket was last compacted in full, as its top level tells (Java 2.0.0)."""
    times = [
        f.creation_time
        for r in levels.runs
        if r.level == levels.top_level
        for f in r.run.files
        if f.creation_time is not None
    ]
    return max(times, default=None)
