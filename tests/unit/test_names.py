"""What a name or path in metadata may be, and where it may lead."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.errors import CorruptTable, InvalidArgument
from paimon_core.io.confined import ConfinedFileIO
from paimon_core.io.local import LocalFileIO
from paimon_core.names import (
    LARGEST_LONG,
    Boundary,
    checked_external_path,
    checked_millis,
    checked_name,
    file_number,
    is_file_name,
    location,
)
from paimon_core.options import Options
from paimon_core.paths import TablePaths, compacted_changelog, table_paths
from paimon_core.table.open import open_table, split_identifier
from paimon_core.types.data_types import RowType

LEADS_AWAY = ["", ".", "..", "a/b", "../x", "/x", "a\\b", "x\0y", "a" * 1025]


@pytest.mark.parametrize("name", LEADS_AWAY)
def test_a_file_name_stays_in_its_folder(name: str) -> None:
    assert not is_file_name(name)
    with pytest.raises(ValueError, match="_FILE_NAME does not name a file"):
        checked_name(name, "_FILE_NAME")


@pytest.mark.parametrize("name", ["data-1.parquet", "..a", "a..b", ".x", "é 漢", "a\nb", "a:b"])
def test_other_names_are_taken_as_they_are(name: str) -> None:
    assert checked_name(name, "_FILE_NAME") == name


def test_a_name_is_a_text() -> None:
    with pytest.raises(ValueError, match="_FILE_NAME does not name a file"):
        checked_name(None, "_FILE_NAME")


@pytest.mark.parametrize("path", ["", "/", "file:/", "/w/../x", "/w/./x", "s3://b/..", "/w/x\0"])
def test_an_external_path_does_not_go_back(path: str) -> None:
    assert location(path) is None
    with pytest.raises(ValueError, match="_EXTERNAL_PATH is not the path of a file"):
        checked_external_path(path, "_EXTERNAL_PATH")


def test_one_place_has_one_location() -> None:
    assert location("file:/w/x") == location("file:///w/x/") == location("/w//x")
    assert location("s3://b/k") == location("s3a://b/k")
    assert location("s3://b/k") != location("s3://c/k") != location("oss://c/k")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("12", 12),
        (str(LARGEST_LONG), LARGEST_LONG),
        (str(LARGEST_LONG + 1), None),
        ("9" * 5000, None),
        ("-1", None),
        ("1_0", None),
        ("\u0661", None),
        ("", None),
    ],
)
def test_numbers_in_names_are_longs(text: str, number: int | None) -> None:
    assert file_number(text) == number


def test_times_that_no_calendar_has_are_refused() -> None:
    assert checked_millis(0, "timeMillis") == 0
    for value in (2**62, -(2**62)):
        with pytest.raises(ValueError, match="timeMillis is not a time"):
            checked_millis(value, "timeMillis")


def test_a_table_holds_what_lies_below_its_folders() -> None:
    limits = Boundary("/w/db.db/t", ("file:///outside/a", "s3://b/x/"))
    assert limits.checked("/w/db.db/t/bucket-0/f") == "/w/db.db/t/bucket-0/f"
    assert limits.holds("file:/outside/a/bucket-0/f")
    assert limits.holds("s3a://b/x/f")
    for path in (
        "/w/db.db/t",
        "/w/db.db/t2/f",
        "/w/db.db/t/../t2/f",
        "/outside/ab/f",
        "s3://c/x/f",
        "s3://b/x",
        "relative/f",
    ):
        with pytest.raises(CorruptTable, match="outside the table"):
            limits.checked(path)


def test_a_whole_store_is_never_a_tables_folder() -> None:
    assert not Boundary("/w/t", ("file:/", "s3://b")).holds("/etc/passwd")


def test_folders_of_earlier_schemas_are_asked_for_only_if_needed() -> None:
    asked: list[int] = []

    def earlier() -> list[str]:
        asked.append(1)
        return ["file:/old"]

    limits = Boundary("/t", (), earlier)
    assert limits.holds("/t/f")
    assert not asked
    assert limits.holds("/old/f")
    assert limits.holds("/old/g")
    assert len(asked) == 1


def test_paths_of_files_outside_are_refused() -> None:
    paths = table_paths("/w/t", RowType(), Options({"data-file.external-paths": "file:/e"}))

    class File:
        file_name = "f"
        external_path: str | None = "file:/elsewhere/f"

    assert paths == pickle.loads(pickle.dumps(paths))
    for resolve in (
        lambda: paths.data_file(bytes(12), 0, File()),
        lambda: paths.extra_file(bytes(12), 0, File(), "g"),
        lambda: paths.index_file(bytes(12), 0, File()),
    ):
        with pytest.raises(CorruptTable, match="outside the table"):
            resolve()


@pytest.mark.parametrize("folder", ["..", "../t2", "a/../../b", "a//b", "./x"])
def test_the_data_folder_lies_below_the_table(folder: str) -> None:
    with pytest.raises(CorruptTable, match=r"data-file\.path-directory"):
        table_paths("/w/t", RowType(), Options({"data-file.path-directory": folder}))


def test_a_branch_is_not_another_table(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="slash"):
        TablePaths(root="/w/t", branch="x/../../../t2")
    with pytest.raises(InvalidArgument, match="slash"):
        open_table(str(tmp_path), "db.t", branch="x/../../../t2")


@pytest.mark.parametrize("name", ["db...", "db.", "...t", "db.a/b", "db.a\0b"])
def test_a_tables_name_does_not_lead_out_of_its_database(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="not a table name"):
        split_identifier(name)
    (tmp_path / "db.db").mkdir()
    with pytest.raises(InvalidArgument):
        FileSystemCatalog(str(tmp_path)).drop_table(name)
    assert (tmp_path / "db.db").exists()


@pytest.mark.parametrize(
    "name",
    [
        "compacted-changelog-u$1-3-1-1/../x.cc-orc",
        "compacted-changelog-u$1_0-3-1-1.cc-orc",
        f"compacted-changelog-u$1-3-{'9' * 30}-1.cc-orc",
        "compacted-changelog-u$-1-3.cc-orc",
    ],
)
def test_other_names_are_no_slices_of_changelogs(name: str) -> None:
    assert compacted_changelog(f"/t/bucket-0/{name}") is None


# --- the guard before every change --------------------------------------------------------------


def _confined(root: Path, *declared: Path) -> ConfinedFileIO:
    return ConfinedFileIO(LocalFileIO(), Boundary(str(root), tuple(map(str, declared))))


def test_nothing_outside_is_deleted_moved_or_replaced(tmp_path: Path) -> None:
    root = tmp_path / "t"
    (root / "bucket-0").mkdir(parents=True)
    (root / "bucket-0" / "f").write_text("mine")
    victim = tmp_path / "victim"
    victim.write_text("another's")
    io = _confined(root)
    for act in (
        lambda: io.delete(str(victim)),
        lambda: io.delete(f"{root}/../victim"),
        lambda: io.delete_dir(str(tmp_path)),
        lambda: io.delete_dir(str(root)),
        lambda: io.overwrite(str(victim), b"x"),
        lambda: io.rename(str(victim), f"{root}/x"),
        lambda: io.rename(f"{root}/bucket-0/f", f"{tmp_path}/x"),
    ):
        with pytest.raises(CorruptTable, match="outside the table"):
            act()
    assert victim.read_text() == "another's"
    assert io.delete(f"{root}/bucket-0/f")


def test_links_out_of_the_table_are_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "t", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "f").write_text("another's")
    (root / "bucket-7").symlink_to(outside)
    io = _confined(root)
    for act in (
        lambda: io.delete(f"{root}/bucket-7/f"),
        lambda: io.delete_dir(f"{root}/bucket-7/f"),
        lambda: io.overwrite(f"{root}/bucket-7/f", b"x"),
        lambda: io.rename(f"{root}/bucket-7/f", f"{root}/f"),
    ):
        with pytest.raises(CorruptTable, match="symbolic link"):
            act()
    assert (outside / "f").read_text() == "another's"
    assert [f.is_link for f in io.list_dir(str(root))] == [True]
    assert io.delete(f"{root}/bucket-7")  # the link itself is the table's
    assert (outside / "f").exists()


def test_a_link_to_a_declared_folder_is_followed(tmp_path: Path) -> None:
    root, disk = tmp_path / "t", tmp_path / "disk"
    root.mkdir()
    disk.mkdir()
    (disk / "f").touch()
    (root / "bucket-0").symlink_to(disk)
    assert _confined(root, disk).delete(f"{root}/bucket-0/f")


def test_the_root_may_be_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "bucket-0").mkdir(parents=True)
    (real / "bucket-0" / "f").touch()
    (tmp_path / "t").symlink_to(real)
    assert _confined(tmp_path / "t").delete(f"{tmp_path}/t/bucket-0/f")
