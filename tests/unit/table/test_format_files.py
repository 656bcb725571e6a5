"""Format tables in their folders: which partitions and files count, and how files are replaced."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from paimon_core.errors import (
    CommitStateUnknown,
    CorruptTable,
    InvalidArgument,
    OutsideTable,
    SchemaError,
    StorageError,
    TableGone,
    UnsupportedFeature,
)
from paimon_core.io.confined import ConfinedFileIO
from paimon_core.io.file_io import FileStat
from paimon_core.io.local import LocalFileIO
from paimon_core.names import Boundary
from paimon_core.options import Options
from paimon_core.predicate import parse_where
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.format.files import (
    FormatPartition,
    StagedFile,
    data_files,
    files_to_replace,
    format_partitions,
    partition_folder,
    partition_texts,
    publish,
    staging,
)
from paimon_core.table.format.format_table import FormatTable, check_format_table
from paimon_core.types.data_types import DataField
from paimon_core.types.sql import parse_type

ONLY_VALUES = {"format-table.partition-path-only-value": "true"}


def schema_of(
    keys: Mapping[str, str] | None = None, options: Mapping[str, str] | None = None
) -> TableSchema:
    types = {"id": "INT", **(keys or {})}
    fields = tuple(
        DataField(id=i, name=n, type=parse_type(t)) for i, (n, t) in enumerate(types.items())
    )
    return TableSchema(
        id=0,
        fields=fields,
        highest_field_id=len(fields) - 1,
        partition_keys=tuple(keys or ()),
        options=Options({"type": "format-table", "file.format": "csv", **(options or {})}),
    )


def table_in(
    folder: Path, keys: Mapping[str, str] | None = None, options: Mapping[str, str] | None = None
) -> FormatTable:
    root = str(folder)
    folder.mkdir(exist_ok=True)
    return FormatTable(
        name="db.t",
        schema=schema_of(keys, options),
        location=root,
        io=ConfinedFileIO(LocalFileIO(), Boundary(root)),
        root=root,
    )


def put(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def shown(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def names(table: FormatTable, partitions: Sequence[FormatPartition]) -> list[str]:
    return [f.path.removeprefix(f"{table.root}/") for p in partitions for f in data_files(table, p)]


def test_partitions_are_folders_and_hidden_files_do_not_count(tmp_path: Path) -> None:
    table = table_in(tmp_path / "t", {"dt": "DATE", "h": "INT"})
    put(
        tmp_path / "t",
        "dt=2024-01-31/h=7/a.csv",
        "dt=19753/h=08/deep/er/b.csv",
        "dt=__DEFAULT_PARTITION__/h=1/c.csv",
        "dt=2024-02-01/h=1/_temporary/x.csv",
        "dt=2024-02-01/h=1/.hidden.csv",
        "dt=2024-02-01/other=1/x.csv",
        "dt=2024-02-01/file",
        "_temporary/0/dt=2024-01-31/h=7/x.csv",
        ".caretaker-1/part-0",
    )
    found = format_partitions(table)
    assert [p.values for p in found] == [(19753, 8), (19753, 7), (19754, 1), (None, 1)]
    assert names(table, found) == [
        "dt=19753/h=08/deep/er/b.csv",
        "dt=2024-01-31/h=7/a.csv",
        "dt=__DEFAULT_PARTITION__/h=1/c.csv",
    ]
    put(tmp_path / "t", "dt=someday/h=1/x.csv")
    with pytest.raises(CorruptTable, match="dt=someday of format table"):
        format_partitions(table)


def test_folders_that_no_row_can_be_in_are_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_in(tmp_path / "t", {"dt": "STRING", "h": "INT"})
    put(tmp_path / "t", *(f"dt={d}/h={h}/a.csv" for d in "abc" for h in (1, 2)))
    listed: list[str] = []
    below = LocalFileIO.list_dir

    def list_dir(self: LocalFileIO, path: str) -> object:
        listed.append(path.rpartition("/")[2])
        return below(self, path)

    monkeypatch.setattr(LocalFileIO, "list_dir", list_dir)
    row_type = table.schema.row_type
    for condition, partitions, folders in (
        ("dt = 'b' AND h = 2", ["dt=b/h=2"], ["t", "dt=b"]),
        ("dt > 'a' AND id = 5", ["dt=b/h=1", "dt=b/h=2", "dt=c/h=1", "dt=c/h=2"], None),
        ("(dt = 'a' AND h = 1) OR (dt = 'c' AND h > 1)", ["dt=a/h=1", "dt=c/h=2"], None),
        ("dt = 'z'", [], ["t"]),
    ):
        listed.clear()
        found = format_partitions(table, parse_where(condition, row_type))
        assert [p.path.removeprefix(f"{table.root}/") for p in found] == partitions
        assert folders is None or listed == folders


def test_folders_may_be_named_by_values_alone(tmp_path: Path) -> None:
    table = table_in(tmp_path / "t", {"dt": "STRING", "h": "INT"}, ONLY_VALUES)
    put(
        tmp_path / "t",
        "a%3Ab/1/a.csv",
        "__DEFAULT_PARTITION__/2/b.csv",
        "_x/1/c.csv",
        "a%3Ab/_tmp/d",
    )
    assert [p.values for p in format_partitions(table)] == [(None, 2), ("a:b", 1)]
    assert partition_folder(table, ["a:b", "1"]) == f"{table.root}/a%3Ab/1"
    with pytest.raises(InvalidArgument, match="cannot be used as a partition path component"):
        partition_folder(table, [".."])


def test_rows_are_not_written_where_no_reader_sees_them(tmp_path: Path) -> None:
    table = table_in(tmp_path / "t", {"p": "STRING"}, ONLY_VALUES)
    assert partition_folder(table, ["__DEFAULT_PARTITION__"]).endswith("/__DEFAULT_PARTITION__")
    for text in ("_x", ".x"):
        with pytest.raises(InvalidArgument, match="no reader sees"):
            partition_folder(table, [text])
    assert partition_folder(table_in(tmp_path / "t", {"p": "STRING"}), ["_x"]).endswith("/p=_x")
    with pytest.raises(InvalidArgument, match="another name of the column"):
        partition_folder(table_in(tmp_path / "t", {"_p": "STRING"}), ["x"])


def test_partitions_are_named_as_in_java(tmp_path: Path) -> None:
    keys = {"dt": "DATE", "s": "STRING"}
    assert partition_texts(table_in(tmp_path / "t", keys), [19753, " "]) == (
        "19753",
        "__DEFAULT_PARTITION__",
    )
    options = {"partition.legacy-name": "false", "partition.default-name": "none"}
    table = table_in(tmp_path / "t", keys, options)
    assert partition_texts(table, [19753, None]) == ("2024-01-31", "none")
    assert partition_folder(table, ["x/y"]) == f"{table.root}/dt=x%2Fy"


def test_new_files_appear_before_old_ones_go(tmp_path: Path) -> None:
    table = table_in(tmp_path / "t", {"p": "INT"})
    put(tmp_path / "t", "p=1/old.csv", "p=2/old.csv")
    with staging(table) as folder:
        put(Path(folder), "x", "y")
        files = [
            StagedFile(f"{folder}/x", ("1",), ".csv"),
            StagedFile(f"{folder}/y", ("3",), ".csv.gz"),
        ]
        first = format_partitions(table)[0]
        publish(table, folder, files, files_to_replace(table, first))
    new = shown(tmp_path / "t")
    assert [n.partition("/")[0] for n in new] == ["p=1", "p=2", "p=3"]
    assert new[0].endswith("-0.csv")
    assert new[1] == "p=2/old.csv"
    assert new[2].endswith("-1.csv.gz")


def test_a_failure_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_in(tmp_path / "t", {"p": "INT"})
    put(tmp_path / "t", "p=1/old.csv")
    rename = LocalFileIO.rename
    with staging(table) as folder:
        put(Path(folder), "x", "y")
        files = [StagedFile(f"{folder}/{n}", ("1",), ".csv") for n in "xy"]

        def fail(self: LocalFileIO, src: str, dst: str) -> bool:
            if src.endswith("y"):
                raise PermissionError(src)
            return rename(self, src, dst)

        monkeypatch.setattr(LocalFileIO, "rename", fail)
        with pytest.raises(StorageError, match="its rows are as before"):
            publish(table, folder, files, [f"{table.root}/p=1/old.csv"])
    assert shown(tmp_path / "t") == ["p=1/old.csv"]


def test_nothing_outside_of_the_table_is_deleted(tmp_path: Path) -> None:
    table = table_in(tmp_path / "t", {"p": "INT"})
    put(tmp_path, "other/theirs.csv")
    (tmp_path / "t" / "p=1").symlink_to(tmp_path / "other")
    put(tmp_path / "t", "p=2/a.csv")
    (tmp_path / "t" / "p=2" / "below").symlink_to(tmp_path / "other")
    for partition in format_partitions(table):
        assert "theirs.csv" in str(data_files(table, partition))
        with pytest.raises(OutsideTable, match="symbolic link"):
            files_to_replace(table, partition)
    with staging(table) as folder, pytest.raises(CorruptTable):
        publish(table, folder, [], [str(tmp_path / "other" / "theirs.csv")])
    assert (tmp_path / "other" / "theirs.csv").exists()


def test_options_of_new_tables_are_checked() -> None:
    check_format_table(schema_of(options={"csv.field-delimiter": ";"}))
    for options, error, text in (
        ({"quote": ""}, InvalidArgument, "csv.quote-character must not be empty"),
        ({"primary-key": "id"}, SchemaError, "Cannot define primary-key for format table"),
        ({"file.format": "avro"}, UnsupportedFeature, "unsupported file format: avro"),
    ):
        with pytest.raises(error, match=text):
            check_format_table(schema_of(options=options))


def test_compressions_are_those_of_java(tmp_path: Path) -> None:
    for options, expected in (
        ({}, "none"),
        ({"file.format": "parquet"}, "snappy"),
        ({"file.format": "orc"}, "zstd"),
        ({"compression": "GZIP"}, "gzip"),
        ({"compression": "gzip", "file.compression": "none"}, "none"),
    ):
        assert table_in(tmp_path / "t", options=options).compression == expected


def test_a_paimon_table_inside_of_the_folder_is_not_deleted(tmp_path: Path) -> None:
    put(tmp_path / "t", "a.csv", "other/deep/schema/schema-0", "other/deep/bucket-0/data-1.csv")
    put(tmp_path / "t", "p=1/a.csv", "p=2/snapshot/snapshot-7")
    for keys in ({}, {"p": "INT"}):
        table = table_in(tmp_path / "t", keys)
        with pytest.raises(OutsideTable, match="is the folder of a Paimon table"):
            files_to_replace(table, format_partitions(table)[-1])
    put(tmp_path / "own", "schema/a.csv", "snapshot/snapshot-x", "schema-0")
    table = table_in(tmp_path / "own")
    assert len(files_to_replace(table, format_partitions(table)[0])) == 3


@pytest.mark.parametrize(
    "place",
    ["bucket-0", "p=1/q=2/bucket-postpone", "p=1", "manifest", "branch/branch-b/tag", "p=a\nb"],
)
def test_the_files_of_a_paimon_table_around_the_folder_are_not_deleted(
    place: str, tmp_path: Path
) -> None:
    put(tmp_path, f"w/{place}/data-1.csv")
    table = table_in(tmp_path / "w" / place)
    assert len(files_to_replace(table, format_partitions(table)[0])) == 1
    put(tmp_path, "w/schema/schema-0")
    with pytest.raises(OutsideTable, match="w is the folder of a Paimon table"):
        files_to_replace(table, format_partitions(table)[0])


def test_nothing_is_put_in_place_if_one_partition_leads_out(tmp_path: Path) -> None:
    table = table_in(tmp_path / "t", {"p": "INT"})
    put(tmp_path, "other/theirs.csv")
    (tmp_path / "t" / "p=2").symlink_to(tmp_path / "other")
    with staging(table) as folder:
        put(Path(folder), "x", "y")
        files = [StagedFile(f"{folder}/{n}", (p,), ".csv") for n, p in (("x", "1"), ("y", "2"))]
        with pytest.raises(OutsideTable):
            publish(table, folder, files, [])
    assert shown(tmp_path / "t") == []
    assert shown(tmp_path / "other") == ["theirs.csv"]


def test_a_statement_that_is_stopped_leaves_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_in(tmp_path / "t", {"p": "INT"})
    rename = LocalFileIO.rename
    with staging(table) as folder:
        put(Path(folder), "x", "y")
        files = [StagedFile(f"{folder}/{n}", ("1",), ".csv") for n in "xy"]

        def stop(self: LocalFileIO, src: str, dst: str) -> bool:
            if src.endswith("y"):
                raise KeyboardInterrupt
            return rename(self, src, dst)

        monkeypatch.setattr(LocalFileIO, "rename", stop)
        with pytest.raises(KeyboardInterrupt):
            publish(table, folder, files, [])
    assert shown(tmp_path / "t") == []


@pytest.mark.parametrize("moment", ["before the files", "before they move", "while they move"])
def test_rows_for_a_table_that_is_dropped_meanwhile_do_not_come_into_the_next_one(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_in(tmp_path / "t", {"p": "INT"})
    rename = LocalFileIO.rename

    def drop() -> None:
        LocalFileIO().delete_dir(table.root)

    with staging(table) as folder:
        if moment == "before the files":
            drop()
        put(Path(folder), "x", "y")
        files = [StagedFile(f"{folder}/{n}", ("1",), ".csv") for n in "xy"]
        if moment == "before they move":
            drop()

        def move(self: LocalFileIO, src: str, dst: str) -> bool:
            done = rename(self, src, dst)
            if src.endswith("y"):
                (Path(folder).parent / "begun").unlink()  # the drop comes to it first
            return done

        if moment == "while they move":
            monkeypatch.setattr(LocalFileIO, "rename", move)
        with pytest.raises(TableGone, match="it has none of them"):
            publish(table, folder, files, [])
    assert shown(tmp_path / "t") == []


def test_files_that_can_be_neither_moved_nor_deleted_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_in(tmp_path / "t")
    rename = LocalFileIO.rename
    with staging(table) as folder:
        put(Path(folder), "x", "y")
        files = [StagedFile(f"{folder}/{n}", (), ".csv") for n in "xy"]

        def fail(self: LocalFileIO, src: str, dst: str) -> bool:
            if src.endswith("y"):
                raise PermissionError(src)
            return rename(self, src, dst)

        def refuse(self: LocalFileIO, path: str) -> bool:
            raise PermissionError(path)

        monkeypatch.setattr(LocalFileIO, "rename", fail)
        monkeypatch.setattr(LocalFileIO, "delete", refuse)
        with pytest.raises(CommitStateUnknown, match="may have some of the new rows") as caught:
            publish(table, folder, files, [])
    (left,) = shown(tmp_path / "t")
    assert f"{left.removesuffix('0.csv')}*" in caught.value.next_step


def _staged_before(root: Path, name: str, days: float) -> Path:
    """A staging folder as a killed writer leaves it, `days` ago."""
    folder = root / name
    put(folder, "_temporary/0/task/part-0.csv")
    then = time.time() - days * 86_400
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (then, then))
    return folder


def test_folders_of_killed_writers_go(tmp_path: Path) -> None:
    table = table_in(tmp_path / "t")
    root = Path(table.root)
    dead = _staged_before(root, f".caretaker-{'a' * 32}", 15)
    young = _staged_before(root, f".caretaker-{'b' * 32}", 13)
    busy = _staged_before(root, f".caretaker-{'c' * 32}", 100)
    (busy / "_temporary/0/task/part-0.csv").touch()
    others = _staged_before(root, ".caretaker-of-others", 100)
    elsewhere = _staged_before(tmp_path, "elsewhere", 100)
    (root / f".caretaker-{'d' * 32}").symlink_to(elsewhere)
    linking = root / f".caretaker-{'e' * 32}"
    linking.mkdir()
    (linking / "link").symlink_to(elsewhere)
    os.utime(linking, (0, 0))
    with staging(table) as folder:
        put(Path(folder), "part-0.csv")
        assert dead.exists()
    assert not dead.exists()
    assert not Path(folder).exists()
    for kept in (young, busy, others, elsewhere, linking):
        assert list(kept.iterdir())
    assert (root / f".caretaker-{'d' * 32}").is_symlink()


@pytest.mark.parametrize("wrong", ["machine", "store"])
def test_one_wrong_clock_deletes_no_folder(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_in(tmp_path / "t")
    live = _staged_before(
        Path(table.root), f".caretaker-{'a' * 32}", 1 if wrong == "machine" else 0
    )
    ahead = time.time() + 30 * 86_400
    if wrong == "machine":
        monkeypatch.setattr(time, "time", lambda: ahead)
    write_bytes = LocalFileIO.write_bytes

    def write(io: LocalFileIO, path: str, data: bytes) -> None:
        write_bytes(io, path, data)
        if wrong == "store":
            os.utime(path, (ahead, ahead))

    monkeypatch.setattr(LocalFileIO, "write_bytes", write)
    with staging(table):
        pass
    assert live.exists()


def test_folders_of_living_writers_are_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_in(tmp_path / "t")
    _staged_before(Path(table.root), f".caretaker-{'a' * 32}", 1)
    list_dir, listed = LocalFileIO.list_dir, []

    def watched(io: LocalFileIO, path: str) -> list[FileStat]:
        listed.append(path)
        return list_dir(io, path)

    monkeypatch.setattr(LocalFileIO, "list_dir", watched)
    with staging(table):
        pass
    assert listed == [table.root]


def test_a_folder_that_cannot_be_deleted_fails_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_in(tmp_path / "t")
    dead = _staged_before(Path(table.root), f".caretaker-{'a' * 32}", 15)

    def fail(*_: object, **__: object) -> bool:
        raise PermissionError("no")

    monkeypatch.setattr(LocalFileIO, "delete_dir", fail)
    with staging(table):
        pass
    assert dead.exists()
