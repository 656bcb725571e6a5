"""Whatever somebody puts in a metadata file's place, the command says which file it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from command_line import caretaker
from golden_files import GOLDEN
from lakes import Lake

from paimon_core.errors import CorruptTable, InvalidArgument
from paimon_core.io import read_retry
from paimon_core.io.fsspec_io import _os_errors
from paimon_core.io.json_text import parse_json
from paimon_core.io.local import LocalFileIO
from paimon_core.manifest.data_file import FileKind
from paimon_core.manifest.entries.records import ENTRY_KIND
from paimon_core.manifest.manifest_file import read_manifest
from paimon_core.manifest.metadata_file import write_metadata
from paimon_core.scan.manifests import data_manifests
from paimon_core.snapshot.numbered_files import NumberedFiles

RAW = ("Errno", "report this bug", "embedded null", "Traceback")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is writing what cannot be read, so it is not tried again."""
    monkeypatch.setattr(read_retry, "WAITS_MILLIS", ())


EXPIRE = ("run", "expire_snapshots", "--retain-max", "1", "--retain-min", "1")


@pytest.fixture
def lake(lake: Lake, tmp_path: Path) -> Lake:
    lake.primary_key(buckets=2)
    lake.fill(3)
    assert caretaker("run", "compact", "db.t", "-w", tmp_path, "--engine", "local").code == 0
    assert caretaker("run", "create_tag", "db.t", "-w", tmp_path, "--tag", "t").code == 0
    return lake


def root(lake: Lake) -> Path:
    return lake.warehouse / "db.db" / "t"


def refused(lake: Lake, *words: object, names: str) -> str:
    ran = caretaker(*words, "db.t", "-w", lake.warehouse)
    assert ran.code == 7, (ran.code, ran.err, ran.out)
    assert names in ran.err
    assert ran.err.count("\n") == 1
    assert not any(raw in ran.err for raw in RAW), ran.err
    return ran.err


def manifest_names(lake: Lake) -> dict[str, str]:
    table = lake.table()
    latest = table.snapshots.latest()
    return {
        "list": latest.base_manifest_list,
        "manifest": data_manifests(table, latest)[-1].file_name,
    }


# --- holes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    [
        "snapshot/snapshot-4",
        "tag/tag-t",
        "consumer/consumer-c",
        "schema/schema-0",
        "changelog/changelog-1",
        "caretaker/leases/x.json",
        "caretaker/released/x.json",
        "manifest/{list}",
        "manifest/{manifest}",
    ],
)
def test_a_file_that_would_take_all_of_the_memory(place: str, lake: Lake) -> None:
    """It is made of holes, so that it takes no space on the disk."""
    lake.table().consumers.set("c", 4)
    path = root(lake) / place.format(**manifest_names(lake))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.truncate(1 << 40)
    refused(lake, *EXPIRE, names=path.name)


def test_a_text_that_would_take_many_times_its_size(lake: Lake) -> None:
    with (root(lake) / "tag" / "tag-t").open("ab") as file:
        file.truncate((1 << 26) + 1)
    assert "too large" in refused(lake, *EXPIRE, names="tag-t")


@pytest.mark.parametrize("name", ["LATEST", "EARLIEST"])
def test_a_hint_that_would_take_all_of_the_memory(name: str, lake: Lake) -> None:
    with (root(lake) / "snapshot" / name).open("ab") as file:
        file.truncate(1 << 40)
    ran = caretaker("verify", "db.t", "-w", lake.warehouse)
    assert f"{name} says '(too large to be one that Paimon wrote)'" in ran.out
    assert caretaker(*EXPIRE, "db.t", "-w", lake.warehouse).code == 0


# --- folders ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    [
        "snapshot/snapshot-4",
        "snapshot/snapshot-2",
        "schema/schema-0",
        "tag/tag-t",
        "list",
        "manifest",
    ],
)
def test_a_folder_in_the_place_of_a_file(lake: Lake, place: str) -> None:
    known = manifest_names(lake)
    path = root(lake) / (f"manifest/{known[place]}" if place in known else place)
    path.unlink()
    path.mkdir()
    assert "is a folder" in refused(lake, *EXPIRE, names=str(path))
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 7


def test_a_folder_between_snapshots_stops_a_rollback_before_it_removes_any(lake: Lake) -> None:
    path = root(lake) / "snapshot" / "snapshot-2"
    path.unlink()
    path.mkdir()
    before = lake.on_disk()
    assert "is a folder" in refused(lake, "run", "rollback", "--snapshot", "1", names=str(path))
    assert lake.on_disk() == before


def test_a_folder_in_the_place_of_a_consumer(lake: Lake) -> None:
    path = root(lake) / "consumer" / "consumer-team"
    path.mkdir(parents=True)
    assert "is a folder" in refused(lake, *EXPIRE, names=str(path))
    assert "team" in refused(lake, "inspect", names=str(path))


def test_a_folder_in_the_place_of_a_data_file(lake: Lake) -> None:
    path = next(root(lake).glob("bucket-0/*.parquet"))
    for file in root(lake).glob("bucket-*/*.parquet"):
        file.unlink()
        file.mkdir()
    assert path.is_dir()
    assert "is a folder" in refused(lake, "read", names="bucket-")


@pytest.mark.parametrize("kind", [FileKind.ADD, FileKind.DELETE])
def test_entries_that_contradict_each_other(lake: Lake, kind: FileKind) -> None:
    """The newest snapshot, a compaction, adds or deletes a file twice."""
    table = lake.table()
    newest = table.latest_or_not_found()
    meta = data_manifests(table, newest)[-1]
    path = table.paths.manifest(meta.file_name)
    entries = read_manifest(table.io, path)
    twice = [*entries, next(e for e in entries if e.kind is kind)]
    Path(path).unlink()
    write_metadata(table.io, path, ENTRY_KIND, twice, table.options)
    base = table.paths.manifest(newest.base_manifest_list)
    for words in (("read",), ("run", "compact"), ("run", "rescale", "--bucket-num", "3")):
        told = refused(lake, *words, names=base)
        assert f"snapshot {newest.id}" in told
        assert "db.t" in told


@pytest.mark.parametrize("make", ["folder", "pipe"])
def test_other_than_a_file_in_the_place_of_statistics(lake: Lake, make: str) -> None:
    assert caretaker("run", "analyze", "db.t", "-w", lake.warehouse, "--engine", "local").code == 0
    (path,) = (root(lake) / "statistics").iterdir()
    path.unlink()
    path.mkdir() if make == "folder" else os.mkfifo(path)
    assert f"a {make}" in refused(lake, "run", "compact_manifest", names=str(path))


def test_a_folder_in_the_place_of_a_file_that_expires(lake: Lake) -> None:
    first = lake.table().snapshots.get(1)
    path = root(lake) / "manifest" / first.base_manifest_list
    path.unlink()
    path.mkdir()
    ran = caretaker(*EXPIRE, "db.t", "-w", lake.warehouse)
    assert ran.code in (1, 7)
    assert f"{path} is a folder" in ran.err
    assert not any(raw in ran.err for raw in RAW), ran.err


@pytest.mark.parametrize("keys", ["primaryKeys", "partitionKeys"])
def test_a_schema_with_a_key_twice(lake: Lake, keys: str) -> None:
    path = root(lake) / "schema" / "schema-0"
    path.write_text(json.dumps({**json.loads(path.read_text()), keys: ["k", "k"]}))
    assert f"{keys} names a column twice" in refused(lake, "read", names=str(path))


def test_statistics_of_a_column_that_the_schema_does_not_have(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "2.0.0" / "schema_evolution_append" / "warehouse", tmp_path / "lake")
    path = tmp_path / "lake" / "db.db" / "t" / "schema" / "schema-2"
    schema = json.loads(path.read_text())
    schema["fields"] = [f for f in schema["fields"] if f["name"] != "dec"]
    path.write_text(json.dumps(schema))
    ran = caretaker("files", "db.t", "-w", tmp_path / "lake")
    assert ran.code == 7
    assert "statistics of column 'dec'" in ran.err
    assert str(path) in ran.err


def test_a_folder_in_the_place_of_a_hint_is_passed_over(lake: Lake) -> None:
    hint = root(lake) / "snapshot" / "LATEST"
    hint.unlink()
    hint.mkdir()
    assert caretaker("read", "db.t", "-w", lake.warehouse).code == 0
    assert "says '(a folder)'" in caretaker("verify", "db.t", "-w", lake.warehouse).out


def test_a_folder_in_the_place_of_a_hint_that_expiry_writes(lake: Lake) -> None:
    hint = root(lake) / "snapshot" / "EARLIEST"
    hint.unlink(missing_ok=True)
    hint.mkdir()
    ran = caretaker(*EXPIRE, "db.t", "-w", lake.warehouse)
    assert ran.code == 1
    assert f"{hint} is a folder, not a file, and was not overwritten" in ran.err
    assert not any(raw in ran.err for raw in RAW), ran.err
    hint.rmdir()
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0


def test_a_file_in_the_place_of_a_folder(lake: Lake) -> None:
    (root(lake) / "manifest").rename(root(lake) / "elsewhere")
    (root(lake) / "manifest").write_text("a file")
    refused(lake, "read", names="/manifest/")


def test_a_pipe_does_not_block_the_reader(lake: Lake, tmp_path: Path) -> None:
    path = root(lake) / "snapshot" / "snapshot-4"
    path.unlink()
    os.mkfifo(path)
    done = threading.Event()

    def read() -> None:
        assert caretaker("read", "db.t", "-w", lake.warehouse).code != 0
        done.set()

    threading.Thread(target=read, daemon=True).start()
    assert done.wait(20), "reading a pipe blocks"


# --- JSON ---------------------------------------------------------------------------------------

DEEP = '{"a":' * 3000 + "1" + "}" * 3000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timeMillis", "9" * 5000),
        ("timeMillis", str(2**62)),
        ("timeMillis", str(-(2**63))),
        ("timeMillis", "1e999999999"),
        ("timeMillis", "NaN"),
        ("schemaId", "1" + "0" * 30),
        ("commitUser", DEEP),
        ("unknown", DEEP),
        ("unknown", "[" * 3000 + "]" * 3000),
        ("baseManifestList", '"a\\u0000b"'),
        ("baseManifestList", '""'),
        ("statistics", '".."'),
        ("commitUser", '"\\ud800"'),
    ],
)
@pytest.mark.parametrize("command", [("read",), ("inspect",), ("run", "expire_snapshots")])
def test_hostile_json_of_a_snapshot(lake: Lake, field: str, value: str, command) -> None:
    path = root(lake) / "snapshot" / "snapshot-4"
    obj = {**json.loads(path.read_text()), field: "HERE"}
    path.write_text(json.dumps(obj).replace('"HERE"', value))
    refused(lake, *command, names=str(path))


@pytest.mark.parametrize(
    "value",
    [
        '"' + "ARRAY<" * 2000 + "INT" + ">" * 2000 + '"',
        '"INT' + " ARRAY" * 2000 + '"',
        '{"type":"ARRAY","element":' * 2000 + '"INT"' + "}" * 2000,
        '{"type":"ARRAY","element":' * 90 + '"INT"' + "}" * 90,
        '"DECIMAL(' + "9" * 5000 + ')"',
    ],
)
def test_types_that_are_nested_too_deeply(lake: Lake, value: str) -> None:
    path = root(lake) / "schema" / "schema-0"
    text = path.read_text()
    path.write_text(text.replace('"INT NOT NULL"', value, 1))
    assert path.read_text() != text
    ran = caretaker("read", "db.t", "-w", lake.warehouse)
    assert ran.code in (4, 7)
    assert str(path) in ran.err
    assert not any(raw in ran.err for raw in RAW), ran.err
    assert len(ran.err) < 3000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tagTimeRetained", "1E+999999999"),
        ("tagTimeRetained", "1" + "0" * 5000),
        ("tagCreateTime", "[ 9223372036854775807, 1, 1, 1, 1 ]"),
        ("tagCreateTime", '"2024-13-45T99:99"'),
        ("tagCreateTime", "[ 2024, 1, 1, 1, 1, 1, [] ]"),
    ],
)
def test_hostile_times_of_a_tag(lake: Lake, field: str, value: str) -> None:
    path = root(lake) / "tag" / "tag-t"
    obj = {
        **json.loads(path.read_text()),
        "tagTimeRetained": 1,
        "tagCreateTime": [2024, 1, 1, 1, 1],
    }
    path.write_text(json.dumps({**obj, field: "HERE"}).replace('"HERE"', value))
    refused(lake, "run", "expire_tags", names=str(path))


def test_a_hint_of_thousands_of_digits_is_no_hint(lake: Lake) -> None:
    for name in ("LATEST", "EARLIEST"):
        (root(lake) / "snapshot" / name).write_text("9" * 5000)
    verified = caretaker("verify", "db.t", "-w", lake.warehouse)
    assert "wrong_hint" in verified.out
    assert len(verified.out) < 3000
    files = NumberedFiles(LocalFileIO(), str(root(lake) / "snapshot"), "snapshot-")
    assert files.latest() == 4
    assert files.earliest() == 1
    assert caretaker("read", "db.t", "-w", lake.warehouse).code == 0


def test_names_of_files_with_thousands_of_digits_are_passed_over(lake: Lake) -> None:
    for folder in ("snapshot", "schema"):
        (root(lake) / folder / f"{folder}-{'9' * 200}").write_text("{}")
    assert caretaker("read", "db.t", "-w", lake.warehouse).code == 0


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "[" * 201 + "]" * 201, "1" * 1001, "1e500"])
def test_json_that_java_would_not_write(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


def test_brackets_in_texts_are_not_nested() -> None:
    text = json.dumps(["[{" * 500, 'a"]\\' * 300, [[1]]])
    assert parse_json(text) == json.loads(text)


# --- other files --------------------------------------------------------------------------------


def test_damaged_zstd_in_a_manifest(lake: Lake) -> None:
    path = root(lake) / "manifest" / manifest_names(lake)["manifest"]
    data = bytearray(path.read_bytes())
    at = data.rindex(b"\x28\xb5\x2f\xfd")  # zstd's magic number
    data[at : at + 12] = b"\x28\xb5\x2f\xfd" + b"\xff" * 8
    path.write_bytes(data)
    refused(lake, "read", names=str(path))


def test_a_nul_in_a_path_is_an_argument_that_cannot_be() -> None:
    for call in (LocalFileIO().exists, LocalFileIO().read_bytes, LocalFileIO().list_dir):
        with pytest.raises(InvalidArgument, match="NUL"):
            call("/a\0b")


def test_deep_statistics_name_their_file(lake: Lake) -> None:
    from paimon_core.table.statistics import read_statistics

    assert caretaker("run", "analyze", "db.t", "-w", lake.warehouse, "--engine", "local").code == 0
    (path,) = (root(lake) / "statistics").iterdir()
    path.write_text(DEEP)
    table = lake.table()
    with pytest.raises(CorruptTable, match=path.name):
        read_statistics(table, table.snapshots.latest())


# --- stores -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("The specified bucket does not exist"),
        PermissionError(13, "Forbidden"),
        OSError("An error occurred (SlowDown)"),
        ClientError({"Error": {"Code": "AccessDenied"}}, "GetObject"),
    ],
)
def test_errors_of_a_store_name_the_path(error: Exception) -> None:
    with (
        pytest.raises(OSError, match="s3://bucket/w/key") as raised,
        _os_errors("s3://bucket/w/key"),
    ):
        raise error
    assert isinstance(raised.value, FileNotFoundError) == isinstance(error, FileNotFoundError)


# --- a base install -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "extra", "words"),
    [
        ("yaml", "maintenance", ("plan", "compact", "db.t")),
        ("sqlalchemy", "maintenance", ("history", "db.t")),
    ],
)
def test_a_package_that_is_not_installed(lake: Lake, package: str, extra: str, words) -> None:
    script = (
        "import sys\n"
        f"sys.modules[{package!r}] = None\n"
        "from paimon_maintenance.cli.main import main\n"
        "raise SystemExit(main(sys.argv[1:]))\n"
    )
    table = ("-w", str(lake.warehouse)) if words[0] == "plan" else ()
    policy = lake.warehouse / "policy.yaml"
    policy.write_text("version: 1\n")
    env = {**os.environ, "CARETAKER_POLICY": str(policy)}
    done = subprocess.run(
        [sys.executable, "-c", script, *words, *table],
        cwd=Path(__file__).parents[3], env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert f"pip install '.[{extra}]'" in done.stderr
    assert "./caretaker" in done.stderr
    assert package in done.stderr
    assert "report this bug" not in done.stderr
