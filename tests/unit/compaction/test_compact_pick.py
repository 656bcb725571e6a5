"""The cases of java-rules E3, E5, and what options add."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_core.compaction.append_coordinator import FileVector, pack_unaware, pick_bucketed
from paimon_core.compaction.pick import pick_primary_key
from paimon_core.compaction.unit import CompactUnit
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import Options
from paimon_core.schema.table_schema import TableSchema
from paimon_core.write.file_layout import small_file_size, target_file_size
from tests.lsm_files import KEY, a_file

BIG = 800
PLACE = {"partition": b"\0" * 12, "bucket": 0, "total_buckets": 1}


def pick(
    files: list[DataFileMeta], *, full: bool = True, options: dict[str, str] | None = None, **more
) -> CompactUnit | None:
    schema = TableSchema(
        id=0,
        fields=KEY.fields,
        highest_field_id=0,
        primary_keys=("k",),
        options=Options({"target-file-size": "1000", **(options or {})}),
    )
    return pick_primary_key(files, schema, full=full, local_millis=10**12, **PLACE, **more)


def names(unit: CompactUnit | None) -> tuple[list[str], list[str]]:
    assert unit is not None
    return [f.file_name for f in unit.rewritten_files], [f.file_name for f in unit.upgrades]


def test_sizes() -> None:
    assert target_file_size(Options(), primary_key=True) == 128 * 2**20
    assert target_file_size(Options(), primary_key=False) == 256 * 2**20
    assert small_file_size(Options({"target-file-size": "1009"}), primary_key=True) == 700
    options = {"target-file-size": "1009", "compaction.small-file-ratio": "0.5"}
    assert small_file_size(Options(options), primary_key=False) == 504


def test_overlapping_files_are_rewritten_and_a_large_one_moves_up() -> None:
    files = [a_file(0, 9, name="a"), a_file(5, 20, name="b"), a_file(30, 40, size=BIG, name="c")]
    unit = pick(files)
    assert names(unit) == (["a", "b"], ["c"])
    assert unit is not None
    assert unit.output_level == 5
    assert unit.drop_deletes
    assert not unit.is_metadata_only


def test_a_lone_small_file_moves_up_but_two_are_joined() -> None:
    assert names(pick([a_file(0, 9, name="a")])) == ([], ["a"])
    assert names(pick([a_file(0, 9, name="a"), a_file(10, 19, name="b")])) == (["a", "b"], [])


def test_a_large_file_between_small_ones_separates_their_outputs() -> None:
    files = [
        a_file(0, 1, name="a"),
        a_file(2, 3, name="b"),
        a_file(4, 5, size=BIG, name="c"),
        a_file(6, 7, name="d"),
    ]
    unit = pick(files)
    assert unit is not None
    assert len(unit.rewrites) == 1
    assert names(unit) == (["a", "b"], ["c", "d"])


@pytest.mark.parametrize("deletes", [1, None])
def test_deletes_do_not_move_to_the_top(deletes: int | None) -> None:
    file = a_file(0, 9, size=BIG, name="a", deletes=deletes)
    assert names(pick([file])) == (["a"], [])


def test_deletes_may_move_to_a_middle_level() -> None:
    old = a_file(0, 1000, level=5, size=1_000_000, name="top")
    new = [a_file(i, i, size=BIG, name=str(i), deletes=1) for i in range(6)]
    unit = pick([old, *new], full=False)
    assert names(unit)[0] == []
    assert len(names(unit)[1]) == 6
    assert unit is not None
    assert unit.output_level == 4
    assert not unit.drop_deletes


def test_only_top_level_files() -> None:
    files = [a_file(0, 9, level=5, name="a"), a_file(10, 19, level=5, name="b")]
    assert pick(files) is None
    assert names(pick(files, with_deletion_vectors={"b"})) == (["b"], [])
    assert names(pick(files, is_expired=lambda f: f.file_name == "a")) == (["a"], [])
    forced = pick(files, options={"compaction.force-rewrite-all-files": "true"})
    assert forced is not None
    assert len(forced.rewrites) == 2  # each by itself


def test_expired_records_forbid_moving_up() -> None:
    file = a_file(0, 9, size=BIG, name="a")
    assert names(pick([file], is_expired=lambda _: True)) == (["a"], [])


def test_deletion_vectors_let_deletes_go_before_the_top() -> None:
    old = a_file(0, 1000, level=5, size=10**9, name="top")
    new = [a_file(0, 9, size=10, name=str(i)) for i in range(5)]
    options = {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "9"}
    unit = pick([old, *new], full=False, options={**options, "num-levels": "6"})
    assert unit is not None
    assert unit.output_level == 4
    assert unit.drop_deletes
    assert unit.reason == "level 0 is not read"
    assert pick([old, *new], full=False, options={**options, "lookup-compact": "gentle"}) is None


def test_nothing_is_due() -> None:
    assert pick([]) is None
    assert pick([], full=False) is None
    assert pick([a_file(0, 9)], full=False) is None


def test_the_interval_counts_from_the_top_levels_newest_file() -> None:
    options = {"compaction.optimization-interval": "1 h"}
    top = a_file(0, 9, level=5, name="top", created=10**12 - 3_599_000)
    new = a_file(0, 9, name="new")
    assert pick([top, new], full=False, options=options) is None
    late = replace(top, creation_time=10**12 - 3_601_000)
    unit = pick([late, new], full=False, options=options)
    assert unit is not None
    assert unit.reason == "compaction.optimization-interval"


def test_units_survive_the_journey() -> None:
    unit = pick([a_file(0, 9, name="a"), a_file(5, 20, name="b"), a_file(30, 40, size=BIG)])
    assert unit is not None
    assert CompactUnit.from_bytes(unit.to_bytes()) == unit


# --- append tables --------------------------------------------------------------------------------


def test_vectors_keep_files_of_one_index_file_together() -> None:
    files = [a_file(i, i, size=10 + i, name=str(i)) for i in range(7)]
    vectors = {"0": FileVector("x", 1), "5": FileVector("x", 1), "6": FileVector("y", None)}
    options = Options({"target-file-size": "4 mb", "compaction.min.file-num": "9"})
    bins = [[f.file_name for f in b] for b in pack_unaware(files, options, vectors=vectors)]
    # The smaller group first, each whole; then the rest.
    assert bins == [["6", "0", "5"], ["1", "2"], ["3", "4"]]


def test_many_deleted_rows_make_a_large_file_due() -> None:
    large = a_file(0, 99, size=10**9, name="large")
    options = Options({"target-file-size": "1 mb"})
    assert pack_unaware([large], options) == []
    assert pack_unaware([large], options, vectors={"large": FileVector("x", 20)}) == []
    assert pack_unaware([large], options, vectors={"large": FileVector("x", 21)}) == [(large,)]
    assert pack_unaware([large], options, vectors={"large": FileVector("x", None)}) == [(large,)]


@pytest.mark.parametrize(
    ("sizes", "joined"),
    [
        ([10, 10], []),
        ([10, 10, 10], [0, 1, 2]),
        ([90, 10, 10, 10], [1, 2, 3]),  # large ones at the front stay
        ([10, 90, 90], []),  # fewer small than large ones
        ([10, 90, 90, 10, 10], [0, 1, 2, 3, 4]),
        ([90, 90, 90], []),
    ],
)
def test_full_compaction_of_a_bucketed_append_table(sizes: list[int], joined: list[int]) -> None:
    files = [a_file(i, i, size=n, sequence=i) for i, n in enumerate(sizes)]
    units = pick_bucketed(files, Options({"target-file-size": "100"}), full=True, **PLACE)
    assert [f.min_sequence_number for u in units for f in u.append_files] == joined


def test_full_compaction_joins_two_files_if_the_option_asks_for_no_more() -> None:
    files = [a_file(i, i, size=10, sequence=i) for i in range(2)]
    for count, joined in (("2", [(0, 1)]), ("3", [])):
        options = Options({"target-file-size": "100", "compaction.min.file-num": count})
        units = pick_bucketed(files, options, full=True, **PLACE)
        assert [tuple(f.min_sequence_number for f in u.append_files) for u in units] == joined


@pytest.mark.parametrize(("least", "bins"), [("1", 1), ("2", 1), ("5", 1), ("50000", 0)])
def test_very_many_neighbours_are_joined_at_once(least, bins):
    """Also where one file is said to be enough: joining it with none would never end."""
    files = [a_file(i, i, size=1, sequence=i) for i in range(20_000)]
    options = Options({"target-file-size": "1 mb", "compaction.min.file-num": least})
    found = pick_bucketed(files, options, full=False, **PLACE)
    assert [len(u.append_files) for u in found] == ([20_000 - spare(least)] if bins else [])


def spare(least: str) -> int:
    """Files at the end that are too few to be joined to what was joined before."""
    step = max(1, int(least) - 1)
    return (20_000 - 1) % step
