"""Picks the sorted runs of a minor compaction.

Java: `UniversalCompaction`, `EarlyFullCompaction`, `ForceUpLevel0Compaction`.

Runs are sorted newest first, as in `Levels.runs`; a pick always takes a number of the newest runs.
In this order:

1. early full compaction: an interval since the last one, or size thresholds;
2. size amplification: all newer runs together are large compared with the oldest one: merge all;
3. size ratio: take runs as long as the next one is not much larger than all taken so far;
4. number of runs: more than the trigger: take enough to get below the trigger;
5. level 0, for tables whose readers skip level 0: take all of it.

The merged run goes to the level below the first run left out, but never to level 0; to the top
level if none is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from paimon_core.lsm.changelog_producers import changelog_producer_of
from paimon_core.lsm.engines.traits import traits_of
from paimon_core.lsm.tree.levels import Levels
from paimon_core.lsm.tree.sorted_run import LevelRun
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import (
    COMPACTION_FORCE_UP_LEVEL_0,
    COMPACTION_INCREMENTAL_SIZE_THRESHOLD,
    COMPACTION_OFF_PEAK_END,
    COMPACTION_OFF_PEAK_RATIO,
    COMPACTION_OFF_PEAK_START,
    COMPACTION_OPTIMIZATION_INTERVAL,
    COMPACTION_TOTAL_SIZE_THRESHOLD,
    DELETION_VECTORS_ENABLED,
    FORCE_LOOKUP,
    LOOKUP_COMPACT,
    LOOKUP_COMPACT_MAX_INTERVAL,
    MAX_SIZE_AMPLIFICATION,
    NUM_LEVELS,
    NUM_SORTED_RUN_TRIGGER,
    SIZE_RATIO,
    Options,
)

_MILLIS_PER_HOUR = 3_600_000


class PickReason(StrEnum):
    """The reason for a pick, printed in plans."""

    FULL = "full compaction requested"
    INTERVAL = "compaction.optimization-interval"
    TOTAL_SIZE = "compaction.total-size-threshold"
    INCREMENTAL_SIZE = "compaction.incremental-size-threshold"
    SIZE_AMPLIFICATION = "compaction.max-size-amplification-percent"
    SIZE_RATIO = "compaction.size-ratio"
    RUN_COUNT = "num-sorted-run.compaction-trigger"
    LEVEL_0 = "level 0 is not read"


@dataclass(frozen=True, slots=True)
class Pick:
    """Files to merge, and the output level of the merged run."""

    output_level: int
    files: tuple[DataFileMeta, ...]
    reason: PickReason


@dataclass(frozen=True, slots=True, kw_only=True)
class PickRules:
    """The table options that control picks; sizes in bytes, `interval` in milliseconds.

    `off_peak` is (start hour, end hour, extra percent) of the local day.
    """

    max_size_amplification: int = 200
    size_ratio: int = 1
    run_trigger: int = 5
    interval: int | None = None
    total_size_threshold: int | None = None
    incremental_size_threshold: int | None = None
    off_peak: tuple[int, int, int] | None = None
    force_level_0: bool = False

    @staticmethod
    def of(options: Options) -> PickRules:
        """Return the rules of a table."""
        start, end = (
            options.value(COMPACTION_OFF_PEAK_START),
            options.value(COMPACTION_OFF_PEAK_END),
        )
        off_peak = None
        if -1 not in (start, end) and start != end:
            off_peak = (start, end, options.value(COMPACTION_OFF_PEAK_RATIO))
        return PickRules(
            max_size_amplification=options.value(MAX_SIZE_AMPLIFICATION),
            size_ratio=options.value(SIZE_RATIO),
            run_trigger=options.value(NUM_SORTED_RUN_TRIGGER),
            interval=options.value(COMPACTION_OPTIMIZATION_INTERVAL),
            total_size_threshold=options.value(COMPACTION_TOTAL_SIZE_THRESHOLD),
            incremental_size_threshold=options.value(COMPACTION_INCREMENTAL_SIZE_THRESHOLD),
            off_peak=off_peak,
            force_level_0=_forces_level_0(options),
        )

    def ratio(self, local_millis: int) -> int:
        """Return the size ratio in percent at this local time (Java: `OffPeakHours`)."""
        if self.off_peak is None:
            return self.size_ratio
        start, end, extra = self.off_peak
        hour = local_millis // _MILLIS_PER_HOUR % 24
        inside = start <= hour < end if start <= end else hour < end or start <= hour
        return self.size_ratio + (extra if inside else 0)


def _forces_level_0(options: Options) -> bool:
    if needs_lookup(options):
        # Java's gentle mode forces level 0 at every n-th pick of a running writer; a job that picks
        # only once gets there only if n is 1.
        return options.value(LOOKUP_COMPACT) != "gentle" or _gentle_interval(options) == 1
    return options.value(COMPACTION_FORCE_UP_LEVEL_0)


def _gentle_interval(options: Options) -> int:
    trigger = options.value(NUM_SORTED_RUN_TRIGGER)
    interval = options.value(LOOKUP_COMPACT_MAX_INTERVAL)
    return max(trigger, 2 * trigger if interval is None else interval)


def needs_lookup(options: Options) -> bool:
    """Return whether compaction must look up records in higher levels (Java: `LookupStrategy`)."""
    return (
        traits_of(options).needs_lookup
        or changelog_producer_of(options).needs_lookup
        or options.value(DELETION_VECTORS_ENABLED)
        or options.value(FORCE_LOOKUP)
    )


def number_of_levels(options: Options) -> int:
    """Return `num-levels`; the default is one more than the trigger."""
    levels = options.value(NUM_LEVELS)
    return options.value(NUM_SORTED_RUN_TRIGGER) + 1 if levels is None else levels


def pick_minor(
    levels: Levels, rules: PickRules, *, local_millis: int, last_full: int | None
) -> Pick | None:
    """Return what a minor compaction merges; None if nothing is due.

    `local_millis` is the wall clock time, as in creation times; `last_full` is the time of the
    bucket's last full compaction on the same clock, None if unknown.
    """
    runs = levels.runs
    if not runs:
        return None
    picked = _early_full(levels, rules, local_millis, last_full) or _by_size(
        levels, rules, rules.ratio(local_millis)
    )
    if picked is None:
        return None
    if len(picked.files) == 1 and picked.files[0].level == picked.output_level:
        return None
    return picked


def pick_full(levels: Levels) -> Pick | None:
    """Pick all files for the top level; None if there are none."""
    files = _files(levels.runs)
    return Pick(levels.top_level, files, PickReason.FULL) if files else None


def _early_full(
    levels: Levels, rules: PickRules, local_millis: int, last_full: int | None
) -> Pick | None:
    runs = levels.runs
    if len(runs) == 1:
        return None
    sizes = [r.run.total_size for r in runs]
    reason = None
    if rules.interval is not None and (
        last_full is None or local_millis - last_full > rules.interval
    ):
        reason = PickReason.INTERVAL
    elif rules.total_size_threshold is not None and sum(sizes) < rules.total_size_threshold:
        reason = PickReason.TOTAL_SIZE
    elif rules.incremental_size_threshold is not None:
        newer = sum(n for r, n in zip(runs, sizes, strict=True) if r.level != levels.top_level)
        if newer > rules.incremental_size_threshold:
            reason = PickReason.INCREMENTAL_SIZE
    return None if reason is None else Pick(levels.top_level, _files(runs), reason)


def _by_size(levels: Levels, rules: PickRules, ratio: int) -> Pick | None:
    runs = levels.runs
    sizes = [r.run.total_size for r in runs]
    if len(runs) >= rules.run_trigger:
        if sum(sizes[:-1]) * 100 > rules.max_size_amplification * sizes[-1]:
            return Pick(levels.top_level, _files(runs), PickReason.SIZE_AMPLIFICATION)
        count = _grown(sizes, 1, ratio)
        if count > 1:
            return _pick(levels, count, PickReason.SIZE_RATIO)
    if len(runs) > rules.run_trigger:
        count = _grown(sizes, len(runs) - rules.run_trigger + 1, ratio)
        if count > 1:
            return _pick(levels, count, PickReason.RUN_COUNT)
        return None
    if rules.force_level_0:
        level_0 = sum(r.level == 0 for r in runs)
        if level_0:
            return _pick(levels, _grown(sizes, level_0, ratio), PickReason.LEVEL_0)
    return None


def _grown(sizes: Sequence[int], count: int, ratio: int) -> int:
    """Return `count`, extended by runs that are not much larger than all runs before them."""
    taken = sum(sizes[:count])
    for size in sizes[count:]:
        if taken * (100.0 + ratio) / 100.0 < size:
            break
        taken += size
        count += 1
    return count


def _pick(levels: Levels, count: int, reason: PickReason) -> Pick:
    """Pick the newest `count` runs and their output level; more runs if that would be level 0."""
    runs = levels.runs
    output = levels.top_level if count == len(runs) else max(0, runs[count].level - 1)
    if output == 0:
        for run in runs[count:]:
            count += 1
            if run.level != 0:
                output = run.level
                break
    if count == len(runs):
        output = levels.top_level
    return Pick(output, _files(runs[:count]), reason)


def _files(runs: Sequence[LevelRun]) -> tuple[DataFileMeta, ...]:
    return tuple(f for r in runs for f in r.run.files)
