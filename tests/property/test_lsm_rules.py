"""Sections, levels and picks against Java's rules written down the slow way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from paimon_core.lsm.key_order import stored_key
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.lsm.tree.levels import Levels, levels_of
from paimon_core.lsm.tree.sorted_run import LevelRun
from paimon_core.lsm.tree.universal_compaction import PickRules, pick_full, pick_minor
from paimon_core.manifest.data_file import DataFileMeta
from tests.lsm_files import KEY, a_file, key_ranges, lsm_files

HOUR = 3_600_000


def low(file: DataFileMeta) -> int:
    (value,) = stored_key(file.min_key, KEY)
    assert isinstance(value, int)
    return value


def high(file: DataFileMeta) -> int:
    (value,) = stored_key(file.max_key, KEY)
    assert isinstance(value, int)
    return value


# --- interval partition -------------------------------------------------------------------------


@given(key_ranges(max_size=25))
def test_sections_hold_every_file_once_and_do_not_meet(ranges: list[tuple[int, int]]) -> None:
    files = [a_file(a, b, name=str(i)) for i, (a, b) in enumerate(ranges)]
    sections = interval_partition(files, KEY)
    placed = [f.file_name for s in sections for run in s for f in run.files]
    assert sorted(placed) == sorted(f.file_name for f in files)
    for left, right in pairwise(sections):
        assert max(high(f) for r in left for f in r.files) < min(
            low(f) for r in right for f in r.files
        )
    for section in sections:
        for run in section:
            for left, right in pairwise(run.files):
                assert high(left) < low(right)


@given(key_ranges(max_size=25))
def test_a_section_is_connected_and_has_the_fewest_runs(ranges: list[tuple[int, int]]) -> None:
    files = [a_file(a, b, name=str(i)) for i, (a, b) in enumerate(ranges)]
    for section in interval_partition(files, KEY):
        spans = sorted((low(f), high(f)) for r in section for f in r.files)
        reach = spans[0][1]
        for a, b in spans[1:]:
            assert a <= reach, "a gap inside a section"
            reach = max(reach, b)
        # As many runs as the most files that hold one key.
        deepest = max(sum(a <= k <= b for a, b in spans) for k in range(100))
        assert len(section) == deepest


# --- levels -------------------------------------------------------------------------------------


@given(lsm_files(), st.integers(1, 8))
def test_levels(files: list[DataFileMeta], num_levels: int) -> None:
    levels = levels_of(files, KEY, num_levels)
    assert levels.number_of_levels == max([num_levels, *(f.level + 1 for f in files)])
    assert levels.highest_non_empty == max((f.level for f in files), default=-1)
    assert sorted(f.file_name for r in levels.runs for f in r.run.files) == sorted(
        f.file_name for f in files
    )
    assert [r.level for r in levels.runs] == sorted(r.level for r in levels.runs)
    level_0 = [r.run.files[0] for r in levels.runs if r.level == 0]
    for newer, older in pairwise(level_0):
        assert newer.max_sequence_number >= older.max_sequence_number


# --- picks, as UniversalCompaction.java reads ------------------------------------------------------


class JavaUniversal:
    """The Java classes, line by line; a unit is (output level, number of runs)."""

    def __init__(self, rules: PickRules, local_millis: int, last_full: int | None) -> None:
        self.rules = rules
        self.now = local_millis
        self.last_full = last_full

    def pick(self, num_levels: int, runs: Sequence[LevelRun]) -> tuple[int, int] | None:
        max_level = num_levels - 1
        unit = self.early(max_level, runs)
        if unit is None:
            unit = self.for_size_amp(max_level, runs)
        if unit is None and len(runs) >= self.rules.run_trigger:
            unit = self.for_size_ratio(max_level, runs, 1, force=False)
        if unit is None and len(runs) > self.rules.run_trigger:
            candidate_count = len(runs) - self.rules.run_trigger + 1
            unit = self.for_size_ratio(max_level, runs, candidate_count, force=False)
        if unit is None and self.rules.force_level_0:
            candidate_count = 0
            for run in runs:
                if run.level > 0:
                    break
                candidate_count += 1
            if candidate_count:
                unit = self.for_size_ratio(max_level, runs, candidate_count, force=True)
        return unit

    def early(self, max_level: int, runs: Sequence[LevelRun]) -> tuple[int, int] | None:
        rules = self.rules
        if len(runs) == 1:
            return None
        everything = (max_level, len(runs))
        never = self.last_full is None
        if rules.interval is not None and (never or self.now - self.last_full > rules.interval):
            return everything
        total = sum(r.run.total_size for r in runs)
        if rules.total_size_threshold is not None and total < rules.total_size_threshold:
            return everything
        if rules.incremental_size_threshold is not None:
            incremental = sum(r.run.total_size for r in runs if r.level != max_level)
            if incremental > rules.incremental_size_threshold:
                return everything
        return None

    def for_size_amp(self, max_level: int, runs: Sequence[LevelRun]) -> tuple[int, int] | None:
        if len(runs) < self.rules.run_trigger:
            return None
        candidate_size = 0
        for run in runs[:-1]:
            candidate_size += run.run.total_size
        if candidate_size * 100 > self.rules.max_size_amplification * runs[-1].run.total_size:
            return max_level, len(runs)
        return None

    def off_peak(self) -> int:
        if self.rules.off_peak is None:
            return 0
        start, end, ratio = self.rules.off_peak
        hours = []
        hour = start
        while hour != end:
            hours.append(hour)
            hour = (hour + 1) % 24
        return ratio if self.now // HOUR % 24 in hours else 0

    def for_size_ratio(
        self, max_level: int, runs: Sequence[LevelRun], candidate_count: int, *, force: bool
    ) -> tuple[int, int] | None:
        candidate_size = sum(r.run.total_size for r in runs[:candidate_count])
        for i in range(candidate_count, len(runs)):
            following = runs[i].run.total_size
            percent = 100.0 + self.rules.size_ratio + self.off_peak()
            if candidate_size * percent / 100.0 < following:
                break
            candidate_size += following
            candidate_count += 1
        if force or candidate_count > 1:
            return self.create_unit(max_level, runs, candidate_count)
        return None

    def create_unit(
        self, max_level: int, runs: Sequence[LevelRun], run_count: int
    ) -> tuple[int, int]:
        output_level = max_level
        if run_count < len(runs):
            output_level = max(0, runs[run_count].level - 1)
        if output_level == 0:
            for i in range(run_count, len(runs)):
                run_count += 1
                if runs[i].level != 0:
                    output_level = runs[i].level
                    break
        if run_count == len(runs):
            output_level = max_level
        return output_level, run_count


rules = st.builds(
    PickRules,
    max_size_amplification=st.sampled_from([0, 50, 200, 2000]),
    size_ratio=st.sampled_from([0, 1, 30]),
    run_trigger=st.integers(1, 6),
    interval=st.none() | st.integers(0, 100),
    total_size_threshold=st.none() | st.integers(0, 30_000),
    incremental_size_threshold=st.none() | st.integers(0, 30_000),
    off_peak=st.none()
    | st.tuples(st.integers(0, 23), st.integers(0, 23), st.just(50)).filter(lambda t: t[0] != t[1]),
    force_level_0=st.booleans(),
)
sizes = st.sampled_from([1, 10, 11, 100, 101, 1000, 5000, 100_000])


@given(
    lsm_files(sizes=sizes),
    rules,
    st.integers(0, 23),
    st.none() | st.integers(-200, 0),
)
def test_minor_picks_are_javas(
    files: list[DataFileMeta], chosen: PickRules, hour: int, last_full: int | None
) -> None:
    levels = levels_of(files, KEY, chosen.run_trigger + 1)
    last = None if last_full is None else hour * HOUR + last_full
    expected = None
    if levels.runs:
        expected = JavaUniversal(chosen, hour * HOUR, last).pick(
            levels.number_of_levels, levels.runs
        )
    if expected is not None:
        picked_runs = levels.runs[: expected[1]]
        picked = [f for r in picked_runs for f in r.run.files]
        if len(picked) == 1 and picked[0].level == expected[0]:
            expected = None
    actual = pick_minor(levels, chosen, local_millis=hour * HOUR, last_full=last)
    if expected is None:
        assert actual is None
    else:
        assert actual is not None
        assert actual.output_level == expected[0]
        assert list(actual.files) == picked
        check_invariants(levels, actual.output_level, actual.files)


@given(lsm_files())
def test_full_pick_takes_all(files: list[DataFileMeta]) -> None:
    levels = levels_of(files, KEY, 6)
    pick = pick_full(levels)
    if not files:
        assert pick is None
    else:
        assert pick is not None
        assert {f.file_name for f in pick.files} == {f.file_name for f in files}
        check_invariants(levels, pick.output_level, pick.files)


def check_invariants(levels: Levels, output: int, picked: Sequence[DataFileMeta]) -> None:
    """Nothing older stays above the output, nothing newer is skipped, level 0 is no output."""
    names = {f.file_name for f in picked}
    assert 0 < output <= levels.top_level
    for run in levels.runs:
        inside = {f.file_name in names for f in run.run.files}
        assert len(inside) == 1, "a run is picked whole"
        if inside == {False}:
            assert run.level > output
