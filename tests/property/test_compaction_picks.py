"""What is rewritten and what moves up, against `MergeTreeCompactTask` written down line by line;
bins of append tables against their invariants."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from paimon_core.compaction.append_coordinator import pack_unaware, pick_bucketed, pick_unaware
from paimon_core.compaction.pick import pick_primary_key
from paimon_core.compaction.unit import CompactUnit
from paimon_core.lsm.key_order import stored_key
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.lsm.tree.sorted_run import SortedRun
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import Options
from paimon_core.schema.table_schema import TableSchema
from tests.lsm_files import KEY, a_file, lsm_files

TARGET = 1000
SMALL = TARGET // 10 * 7
PLACE = {"partition": b"\0" * 12, "bucket": 3, "total_buckets": 4}


def schema(**options: str) -> TableSchema:
    return TableSchema(
        id=0,
        fields=KEY.fields,
        highest_field_id=0,
        primary_keys=("k",),
        options=Options({"target-file-size": str(TARGET), **options}),
    )


class JavaTask:
    """MergeTreeCompactTask: `rewritten` are groups of sections, `upgraded` files."""

    def __init__(self, files: list[DataFileMeta], output_level: int, max_level: int) -> None:
        self.output_level = output_level
        self.max_level = max_level
        self.rewritten: list[list[tuple[SortedRun, ...]]] = []
        self.upgraded: list[DataFileMeta] = []
        candidate: list[tuple[SortedRun, ...]] = []
        for section in interval_partition(files, KEY):
            if len(section) > 1:
                candidate.append(section)
            else:
                for file in section[0].files:
                    if file.file_size < SMALL:
                        candidate.append((SortedRun((file,)),))
                    else:
                        self.rewrite(candidate)
                        candidate = []
                        self.upgrade(file)
        self.rewrite(candidate)

    def upgrade(self, file: DataFileMeta) -> None:
        deletes = True if file.delete_row_count is None else file.delete_row_count > 0
        if self.output_level == self.max_level and deletes:
            self.rewritten.append([(SortedRun((file,)),)])
        elif file.level != self.output_level:
            self.upgraded.append(file)

    def rewrite(self, candidate: list[tuple[SortedRun, ...]]) -> None:
        if not candidate:
            return
        if len(candidate) == 1 and len(candidate[0]) == 1:
            for file in candidate[0][0].files:
                self.upgrade(file)
            return
        self.rewritten.append(candidate)


sizes = st.sampled_from([10, 200, SMALL - 1, SMALL, 900, 3000])


@given(lsm_files(sizes=sizes))
def test_full_compaction_is_javas(files: list[DataFileMeta]) -> None:
    unit = pick_primary_key(files, schema(), full=True, local_millis=0, **PLACE)
    levels = {f.level for f in files}
    if not files or levels == {5}:
        assert unit is None
        return
    task = JavaTask(files, 5, 5)
    if not task.rewritten and not task.upgraded:
        assert unit is None
        return
    assert unit is not None
    assert unit.output_level == 5
    assert unit.drop_deletes
    assert [list(r) for r in unit.rewrites] == task.rewritten
    assert list(unit.upgrades) == task.upgraded
    check(unit, files)


@given(lsm_files(sizes=sizes, max_level_0=14))
def test_minor_compaction_keeps_the_levels_sound(files: list[DataFileMeta]) -> None:
    unit = pick_primary_key(files, schema(), full=False, local_millis=0, **PLACE)
    if unit is not None:
        check(unit, files)
        taken = {f.file_name for f in unit.rewritten_files + unit.upgrades}
        older = [f for f in files if f.file_name not in taken and f.level >= unit.output_level]
        stays = [f for f in files if f.level > unit.output_level]
        assert unit.drop_deletes == (not stays)
        assert all(f.level > 0 for f in older)


def check(unit: CompactUnit, files: list[DataFileMeta]) -> None:
    """No file twice, and what comes out does not overlap on the output level."""
    names = [f.file_name for f in unit.rewritten_files + unit.upgrades]
    assert len(names) == len(set(names))
    spans = [
        (
            min(stored_key(f.min_key, KEY) for s in rewrite for r in s for f in r.files),
            max(stored_key(f.max_key, KEY) for s in rewrite for r in s for f in r.files),
        )
        for rewrite in unit.rewrites
    ]
    staying = [f for f in files if f.level == unit.output_level and f.file_name not in names]
    spans += [
        (stored_key(f.min_key, KEY), stored_key(f.max_key, KEY)) for f in [*unit.upgrades, *staying]
    ]
    for left, right in pairwise(sorted(spans)):
        assert left[1] < right[0]
    assert CompactUnit.from_bytes(unit.to_bytes()) == unit


@given(st.lists(st.integers(1, 9 * 2**20), max_size=30))
def test_bins_of_unaware_buckets(sizes: list[int]) -> None:
    files = [a_file(i, i, size=n, name=str(i)) for i, n in enumerate(sizes)]
    options = Options({"target-file-size": "8 mb", "compaction.min.file-num": "4"})
    bins = pack_unaware(files, options)
    packed = [f.file_name for b in bins for f in b]
    assert len(packed) == len(set(packed))
    small = {f.file_name for f in files if f.file_size < 8 * 2**20 // 10 * 7}
    assert set(packed) <= small
    assert len(small - set(packed)) < 4
    cost = 4 * 2**20
    for number, members in enumerate(bins):
        weights = [f.file_size + cost for f in members]
        assert len(members) >= 2
        assert sum(weights) >= 16 * 2**20 or (number == len(bins) - 1 and len(members) >= 4)
        assert len(members) == 2 or sum(weights[:-1]) < 16 * 2**20
    ordered = [f.file_size for b in bins for f in b]
    assert ordered == sorted(ordered)
    units = pick_unaware(files, options, partition=b"", total_buckets=-1)
    assert [u.append_files for u in units] == bins


@given(st.lists(st.integers(1, 300), max_size=25), st.booleans(), st.booleans())
def test_bucketed_append_joins_neighbours_only(
    sizes: list[int],
    full: bool,  # noqa: FBT001 - drawn
    until_done: bool,  # noqa: FBT001 - drawn
) -> None:
    files = [a_file(i, i, size=n, name=str(i), sequence=i) for i, n in enumerate(sizes)]
    options = Options({"target-file-size": "100"})
    units = pick_bucketed(
        files[::-1],
        options,
        full=full,
        until_done=until_done,
        partition=b"",
        bucket=1,
        total_buckets=2,
    )
    taken: list[int] = []
    for unit in units:
        places = [f.min_sequence_number for f in unit.append_files]
        assert places == list(range(places[0], places[0] + len(places)))
        assert len(places) >= (3 if full else 5)
        taken += places
    assert len(taken) == len(set(taken))
    if full:
        assert len(units) <= 1


def test_repeated_minor_compactions_are_joined_in_one() -> None:
    files = [a_file(i, i, size=1, name=str(i), sequence=i) for i in range(20)]
    options = Options({"target-file-size": "1000"})
    place = {"partition": b"", "bucket": 0, "total_buckets": 1}
    (once,) = pick_bucketed(files, options, full=False, until_done=False, **place)
    assert len(once.append_files) == 5
    (done,) = pick_bucketed(files, options, full=False, **place)
    assert len(done.append_files) == 17  # 5, then 4 more with the file that came out, and so on
