"""`verify --deep` decodes every page; reads notice a page that lost its checksum."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command_line import caretaker
from lakes import Lake

from paimon_core.errors import CorruptTable
from paimon_core.format import decode_all
from paimon_core.format.decode_all import decode_whole
from paimon_core.io.local import LocalFileIO
from paimon_core.table.open import open_table
from paimon_maintenance.verify.check import Scope, check_table
from paimon_maintenance.verify.findings import Problem

FLIPS = 60


def data_files(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("bucket-*/*") if p.suffix in (".parquet", ".orc", ".avro"))


def lake_of(tmp_path: Path, file_format: str, **options: str) -> Lake:
    lake = Lake(tmp_path)
    lake.log(file_format=file_format, **options)
    lake.append({"k": list(range(2000)), "v": [f"value {i * 7919 % 2000}" for i in range(2000)]})
    assert {file.suffix for file in data_files(tmp_path)} == {f".{file_format}"}
    return lake


def flip_in_page(file: Path) -> None:
    """Damage the last page of the first column."""
    chunk = pq.read_metadata(file).row_group(0).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(file.read_bytes())
    data[start + chunk.total_compressed_size - 2] ^= 1
    file.write_bytes(data)


def read(lake: Lake) -> tuple[int, list[str]]:
    ran = caretaker("read", "db.t", "-w", lake.warehouse)
    return ran.code, sorted(ran.out.splitlines())


def deep(lake: Lake) -> set[Problem]:
    found = check_table(lake.table(), Scope(deep=True, parallelism=2))
    return {f.problem for f in found.findings}


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_a_flipped_bit_of_a_parquet_file_never_reads_as_other_rows(tmp_path, compression):
    lake = lake_of(tmp_path, "parquet", file_compression=compression)
    (file,) = data_files(tmp_path)
    sound, (code, rows) = file.read_bytes(), read(lake)
    assert code == 0
    assert deep(lake) == set()
    rng = random.Random(4)
    noticed = 0
    for _ in range(FLIPS):
        at = rng.randrange(4, len(sound) - 8)
        file.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << rng.randrange(8)]) + sound[at + 1 :])
        code, now = read(lake)
        assert code == 7 or now == rows, f"byte {at} reads as other rows"
        found = deep(lake)
        assert found or code == 0, f"byte {at} cannot be read and is not found"
        noticed += bool(found)
    assert noticed > FLIPS * 0.8


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_what_cannot_be_read_is_found_in_every_format(tmp_path, file_format):
    lake = lake_of(tmp_path, file_format)
    (file,) = data_files(tmp_path)
    sound = file.read_bytes()
    assert deep(lake) == set()
    rng = random.Random(5)
    unreadable = 0
    for _ in range(FLIPS // 2):
        at = rng.randrange(len(sound))
        file.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << rng.randrange(8)]) + sound[at + 1 :])
        if read(lake)[0] == 7:
            unreadable += 1
            assert deep(lake), f"byte {at} cannot be read and is not found"
    assert unreadable > 5


def test_pages_of_java_are_held_against_their_checksums(golden):
    table = golden("types_append_parquet", copy=True)
    file = data_files(Path(table.root))[0]
    io = LocalFileIO()
    assert decode_whole(io, str(file)) > 0
    flip_in_page(file)
    with pytest.raises(CorruptTable, match="CRC") as error:
        decode_whole(io, str(file))
    assert error.value.file == str(file)
    ran = caretaker("read", "db.t", "-w", table.warehouse)
    assert ran.code == 7
    assert file.name in ran.err


@pytest.mark.parametrize(
    "name",
    ["types_append_parquet", "types_append_orc", "types_append_avro", "bloom_index_file", "dedup"],
)
def test_sound_tables_of_java_are_clean(golden, name):
    table = open_table(str(golden(name).warehouse), "db.t")
    found = check_table(table, Scope(deep=True, parallelism=2))
    assert found.findings == []
    assert found.checked["decoded files"] > 0


def test_a_damaged_page_of_an_old_version_is_found(tmp_path):
    lake = Lake(tmp_path)
    lake.primary_key()
    lake.fill(3)
    before = set(data_files(tmp_path))
    assert caretaker("run", "compact", "db.t", "-w", tmp_path, "--engine", "local").code == 0
    old = min(before)
    flip_in_page(old)
    assert caretaker("verify", "db.t", "-w", tmp_path).code == 0
    ran = caretaker("verify", "db.t", "-w", tmp_path, "--deep", "--parallelism", 2)
    assert ran.code == 7
    assert old.name in ran.out
    assert "unreadable" in ran.out
    assert "decoded files" in ran.out


def test_statistics_of_all_live_files_are_compared(tmp_path):
    lake = Lake(tmp_path)
    lake.primary_key(buckets=40)
    lake.fill(1, rows=400)
    quick = check_table(lake.table()).checked["sampled files"]
    assert quick < 40
    assert check_table(lake.table(), Scope(deep=True)).checked["sampled files"] == 40


def test_progress_is_told_and_few_files_are_open_at_a_time(tmp_path, monkeypatch):
    lake = Lake(tmp_path)
    lake.primary_key(buckets=8)
    lake.fill(2, rows=80)
    lock, now, most = threading.Lock(), 0, 0
    real = decode_all._parquet

    def counted(source):
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        try:
            return real(source)
        finally:
            with lock:
                now -= 1

    monkeypatch.setattr(decode_all, "_parquet", counted)
    told = {"expected": 0, "done": 0}

    class Watch:
        def phase(self, name):
            assert name == "decode"

        def expect(self, units, size):
            told["expected"] += units

        def advance(self, units, size):
            with lock:
                told["done"] += units

    check_table(lake.table(), Scope(deep=True, parallelism=3), Watch())
    assert told["expected"] == told["done"] == 16
    assert 1 <= most <= 3


@pytest.mark.parametrize(
    "words", [("--deep", "--no-rows"), ("--parallelism", 2), ("--deep", "--parallelism", 0)]
)
def test_options_that_contradict_each_other(tmp_path, words):
    Lake(tmp_path).primary_key()
    assert caretaker("verify", "db.t", "-w", tmp_path, *words).code == 2
