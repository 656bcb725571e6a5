"""Sets of names and columns of files, beside Python's sets and lists."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from paimon_core.io.file_io import IS_LINK, FileStat, FolderNames
from paimon_core.io.file_stats import NO_SIZE, FileStats, FileStatsBuilder
from paimon_core.manifest.entries.columns import name_array
from paimon_core.reachability.name_set import NameSet

NAMES = st.text("ab-é$", min_size=1, max_size=20)
CONTENTS = st.lists(NAMES, max_size=4).map("".join)
FILES = st.builds(
    FileStat,
    path=st.builds("/{}/{}".format, st.sampled_from(["w/t", "w/t/bucket-0", "w/t/p=é"]), NAMES),
    size=st.integers(0, 2**40),
    modified_millis=st.integers(0, 2**45),
    is_dir=st.booleans(),
    is_link=st.booleans(),
)


@given(
    st.lists(st.lists(NAMES, max_size=8), max_size=3),
    st.lists(st.lists(NAMES, max_size=5), max_size=4),
    st.lists(CONTENTS, max_size=3),
)
def test_a_set_of_names_is_a_set(
    chunks: list[list[str]], removed: list[list[str]], contents: list[str]
) -> None:
    names = pa.chunked_array([name_array(chunk) for chunk in chunks], pa.large_binary())
    found = NameSet(names)
    model = {name for chunk in chunks for name in chunk}
    for some in removed:
        lost = found.remove_array(name_array(some)).tolist()
        assert sorted(some[i] for i in lost) == sorted(model & set(some))
        model.difference_update(some)
    for content in contents:
        found.remove_inside(content.encode())
        model = {name for name in model if name.encode() not in content.encode()}
    listed = [name for chunk in chunks for name in chunk]
    assert found.left(names).tolist() == [name in model for name in listed]
    others = [name for some in removed for name in some]
    assert [name in found for name in others] == [name in model for name in others]


@given(st.lists(FILES, max_size=30), st.integers(0, 31), st.integers(0, 31))
def test_columns_of_files_are_a_list(files: list[FileStat], start: int, end: int) -> None:
    builder = FileStatsBuilder()
    builder.extend(files)
    found = builder.finish()
    assert found == files
    assert [found[i] for i in range(len(files))] == files
    assert found[start:end] == files[start:end]
    assert found.by_folder() == sorted(files, key=_place)
    grouped, places = found.grouped()
    folders = {file.path.rpartition("/")[0] for file in files}
    assert places.keys() == folders
    for folder in folders:
        here = [file for file in files if file.path.rpartition("/")[0] == folder]
        assert grouped[places[folder]] == here
    counts, sizes = found.folder_totals()
    assert counts.sum() == len(files)
    assert sizes.sum() == sum(file.size for file in files)


@given(st.lists(st.lists(FILES, max_size=8), max_size=4), st.lists(st.lists(NAMES), max_size=3))
def test_lists_are_put_together(parts: list[list[FileStat]], listed: list[list[str]]) -> None:
    builder = FileStatsBuilder()
    for part in parts:
        own = FileStatsBuilder()
        own.extend(part)
        builder.add_part(own.finish())
    for number, names in enumerate(listed):
        kinds = bytes(IS_LINK * (len(name) % 2) for name in names)
        builder.add_folder(f"/n/{number}", FolderNames(names, kinds))
    known = [file for part in parts for file in part]
    found = builder.finish()
    assert found[: len(known)] == known
    assert found[len(known) :] == [
        FileStat(f"/n/{number}/{name}", NO_SIZE, 0, is_link=bool(len(name) % 2))
        for number, names in enumerate(listed)
        for name in names
    ]
    assert found.without_state.tolist() == [i >= len(known) for i in range(len(found))]
    assert found.is_file.tolist() == [not f.is_dir and not f.is_link for f in found]


def test_nothing_is_a_list_too() -> None:
    nothing: FileStats = FileStatsBuilder().finish()
    assert nothing == []
    assert nothing.by_folder() == []
    assert nothing.grouped() == ([], {})


def _place(file: FileStat) -> tuple[str, bytes]:
    folder, _, name = file.path.rpartition("/")
    return folder, name.encode()
