from __future__ import annotations

import itertools
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import fastavro
import pytest

from paimon_core.errors import CorruptTable, InvalidArgument, UnsupportedFeature
from paimon_core.format.avro.container import Container
from paimon_core.format.avro.schema import file_schema
from paimon_core.io.local import LocalFileIO
from paimon_core.manifest.avro_codec import RecordWriter
from paimon_core.manifest.data_file import (
    EMPTY_ROW,
    DataFileMeta,
    DeletionVectorRange,
    FileKind,
    FileSource,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)
from paimon_core.manifest.entries.encoding import encode_entry, zigzag
from paimon_core.manifest.index_manifest import read_index_manifest, write_index_manifest
from paimon_core.manifest.layouts import MANIFEST_ENTRY
from paimon_core.manifest.manifest_file import read_manifest, write_manifests
from paimon_core.manifest.manifest_list import read_manifest_list, write_manifest_list
from paimon_core.options import Options
from paimon_core.paths import TablePaths
from paimon_core.types.binary_row import decode_row, encode_row
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.sql import parse_type

GOLDEN = Path(__file__).parents[2] / "golden"
IO = LocalFileIO()
UNPARTITIONED = RowType()
BY_DAY = RowType(fields=(DataField(id=0, name="dt", type=parse_type("STRING")),))
CODECS = ["zstd", "zstandard", "null", "deflate", "snappy", "bzip2"]


def _day(text: str | None) -> bytes:
    return encode_row([text], BY_DAY.types)


def _stats(low: bytes = EMPTY_ROW, *nulls: int | None) -> SimpleStats:
    return SimpleStats(low, low, nulls)


def _entry(number: int = 0, *, kind: FileKind = FileKind.ADD, **file: object) -> ManifestEntry:
    partition = file.pop("partition", EMPTY_ROW)
    values = {"file_name": f"data-{number}.parquet", "file_size": 10, "row_count": 3} | file
    meta = DataFileMeta(**values)  # type: ignore[arg-type]
    return ManifestEntry(kind, partition, number % 4, 4, meta)  # type: ignore[arg-type]


FULL = _entry(
    7,
    kind=FileKind.DELETE,
    file_size=2**62,
    row_count=0,
    min_key=b"\0" * 300,
    max_key=b"\1" * 70_000,
    key_stats=_stats(b"x", 0, None, 2**40),
    value_stats=SimpleStats(b"", b"", None),
    min_sequence_number=-(2**63),
    max_sequence_number=2**63 - 1,
    schema_id=12,
    level=5,
    extra_files=("a.index", "é"),
    creation_time=-5,
    delete_row_count=0,
    embedded_index=b"",
    file_source=FileSource.COMPACT,
    value_stats_cols=(),
    external_path="s3://b/é.parquet",
    first_row_id=0,
    write_cols=("a", "b"),
)


def _uuids() -> Iterator[str]:
    return (f"uuid{i}" for i in itertools.count())


def _write(
    root: Path,
    entries: list[ManifestEntry],
    partition_type: RowType = UNPARTITIONED,
    **options: str,
) -> list[ManifestFileMeta]:
    uuids = _uuids()
    return write_manifests(
        IO,
        TablePaths(root=str(root)),
        entries,
        options=Options({k.replace("_", "-").replace("--", "."): v for k, v in options.items()}),
        partition_type=partition_type,
        new_uuid=lambda: next(uuids),
    )


def _read(root: Path, *metas: ManifestFileMeta) -> list[ManifestEntry]:
    return [e for m in metas for e in read_manifest(IO, f"{root}/manifest/{m.file_name}")]


@pytest.mark.parametrize("file_format", ["avro", "orc", "parquet"])
def test_every_field_survives(tmp_path: Path, file_format: str) -> None:
    full = FULL
    if file_format == "orc":  # which has no times within the second before 1970
        full = replace(FULL, file=replace(FULL.file, creation_time=0))
    entries = [_entry(0), full, _entry(1, creation_time=1_700_000_000_123)]
    (meta,) = _write(tmp_path, entries, manifest__format=file_format)
    assert _read(tmp_path, meta) == entries
    assert meta.file_size == (tmp_path / "manifest" / meta.file_name).stat().st_size


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_by_another_avro_reader_too(tmp_path: Path, codec: str) -> None:
    entries = [_entry(i) for i in range(500)]
    (meta,) = _write(tmp_path, entries, manifest__compression=codec)
    assert _read(tmp_path, meta) == entries
    with (tmp_path / "manifest" / meta.file_name).open("rb") as f:
        reader = fastavro.reader(f)
        assert reader.metadata["avro.codec"] == ("zstandard" if codec == "zstd" else codec)
        assert reader.writer_schema["name"] == "org.apache.paimon.avro.generated.record"
        if codec in ("null", "deflate", "bzip2"):  # for the others it needs more packages
            names = [r["_FILE"]["_FILE_NAME"] for r in reader]
            assert names == [e.file.file_name for e in entries]


def test_what_java_cannot_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="lz4"):
        _write(tmp_path, [FULL], manifest__compression="lz4")
    with pytest.raises(UnsupportedFeature, match="csv"):
        _write(tmp_path, [FULL], manifest__format="csv")
    assert not list(tmp_path.rglob("manifest-*"))


def test_a_manifest_says_what_it_holds(tmp_path: Path) -> None:
    entries = [
        _entry(2, partition=_day("2024-01-03"), schema_id=1, level=0, first_row_id=100),
        _entry(5, partition=_day("2024-01-01"), schema_id=3, level=5, first_row_id=0, row_count=50),
        _entry(3, partition=_day(None), kind=FileKind.DELETE, level=4, first_row_id=60),
        _entry(3, partition=_day("2024-01-03"), kind=FileKind.DELETE, first_row_id=10),
    ]
    (meta,) = _write(tmp_path, entries, BY_DAY)
    assert meta.file_name == "manifest-uuid0-0"
    assert (meta.num_added_files, meta.num_deleted_files) == (2, 2)
    assert (meta.schema_id, meta.min_bucket, meta.max_bucket) == (3, 1, 3)
    assert (meta.min_level, meta.max_level) == (0, 5)
    assert (meta.min_row_id, meta.max_row_id) == (0, 102)
    stats = meta.partition_stats
    assert decode_row(stats.min_values, BY_DAY.types) == ("2024-01-01",)
    assert decode_row(stats.max_values, BY_DAY.types) == ("2024-01-03",)
    assert stats.null_counts == (1,)
    (without,) = _write(tmp_path / "b", [*entries, _entry(0, partition=_day("x"))], BY_DAY)
    assert (without.min_row_id, without.max_row_id) == (None, None)


def test_nothing_makes_no_manifest_but_an_empty_list(tmp_path: Path) -> None:
    assert _write(tmp_path, []) == []
    assert not (tmp_path / "manifest").exists()
    paths = TablePaths(root=str(tmp_path))
    name, size = write_manifest_list(IO, paths, [], options=Options(), new_uuid=lambda: "u")
    assert name == "manifest-list-u-0"
    assert read_manifest_list(IO, paths.manifest(name)) == []
    assert size > 0


def test_manifests_roll_at_their_size_but_only_at_a_thousand_entries(tmp_path: Path) -> None:
    entries = [_entry(i, min_key=i.to_bytes(200, "big")) for i in range(4500)]
    options = {"manifest__target_file_size": "100 kb", "manifest__compression": "null"}
    metas = _write(tmp_path, entries, **options)
    assert [m.num_added_files for m in metas] == [1000, 1000, 1000, 1000, 500]
    assert [m.file_name for m in metas] == [f"manifest-uuid0-{i}" for i in range(5)]
    assert _read(tmp_path, *metas) == entries
    (whole,) = _write(tmp_path / "b", entries)
    assert whole.num_added_files == 4500


def test_a_failure_leaves_no_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    real = LocalFileIO.write_bytes

    def fail_later(io: LocalFileIO, path: str, data: bytes) -> None:
        real(io, path, data if len(written) < 2 else data[:10])
        written.append(path)
        if len(written) > 2:
            raise OSError("disk full")

    monkeypatch.setattr(LocalFileIO, "write_bytes", fail_later)
    with pytest.raises(OSError, match="disk full"):
        _write(tmp_path, [_entry(i) for i in range(4500)], manifest__target_file_size="1 kb")
    assert len(written) == 3
    assert list((tmp_path / "manifest").iterdir()) == []


def test_entries_that_are_not_wanted_are_not_built(tmp_path: Path) -> None:
    entries = [_entry(i, partition=_day(f"d{i % 3}"), level=i % 6) for i in range(100)]
    (meta,) = _write(tmp_path, entries, BY_DAY)
    path = f"{tmp_path}/manifest/{meta.file_name}"
    found = read_manifest(
        IO,
        path,
        keep=lambda partition, bucket, level: (partition, bucket, level) == (_day("d1"), 0, 4),
    )
    assert found == [
        e for e in entries if (e.partition, e.bucket, e.file.level) == (_day("d1"), 0, 4)
    ]
    assert found


def test_equal_partitions_are_one_object(tmp_path: Path) -> None:
    entries = [_entry(i, partition=_day("same day")) for i in range(10)]
    (meta,) = _write(tmp_path, entries, BY_DAY)
    assert len({id(e.partition) for e in _read(tmp_path, meta)}) == 1


# --- what cannot be read ------------------------------------------------------------------------


def _damaged() -> Iterator[tuple[str, bytes]]:
    good = next(
        GOLDEN.glob("1.4.2/dedup/warehouse/db.db/t/manifest/manifest-[0-9a-f]*")
    ).read_bytes()
    yield "empty", b""
    yield "text", b"not a manifest"
    yield "cut off", good[:-20]
    yield "cut in the header", good[:100]
    yield "a flipped byte", good[:-40] + bytes([good[-40] ^ 0xFF]) + good[-39:]
    yield "a cut ORC file", b"ORC" + good[:50]
    plain = RecordWriter(file_schema(MANIFEST_ENTRY), codec="null", level=1)
    record = encode_entry(FULL)
    plain.add(record[: len(record) // 2])
    yield "half an entry", plain.finish()
    longer = RecordWriter(file_schema(MANIFEST_ENTRY), codec="null", level=1)
    longer.add(record + b"more")
    yield "bytes after the entry", longer.finish()
    huge = RecordWriter(file_schema(MANIFEST_ENTRY), codec="null", level=1)
    huge.add(record[:2] + zigzag(2**60) + record[3:])
    yield "an enormous length", huge.finish()


@pytest.mark.parametrize(
    ("what", "data"), list(_damaged()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_damaged_manifests_name_themselves(tmp_path: Path, what: str, data: bytes) -> None:
    path = tmp_path / "manifest-x-0"
    path.write_bytes(data)
    with pytest.raises(CorruptTable) as broken:
        read_manifest(IO, str(path))
    assert broken.value.file == str(path)
    for read in (read_manifest_list, read_index_manifest):
        with pytest.raises((CorruptTable, UnsupportedFeature)) as refused:
            read(IO, str(path))
        assert refused.value.file == str(path)
    assert "caretaker verify" in str(broken.value)


def test_a_missing_manifest_is_missing(tmp_path: Path) -> None:
    for read in (read_manifest, read_manifest_list, read_index_manifest):
        with pytest.raises(FileNotFoundError):
            read(IO, str(tmp_path / "none"))


def test_other_versions_are_refused_by_name(tmp_path: Path) -> None:
    writer = RecordWriter(file_schema(MANIFEST_ENTRY), codec="null", level=1)
    writer.add(zigzag(3) + encode_entry(FULL)[1:])
    path = tmp_path / "manifest-x-0"
    path.write_bytes(writer.finish())
    with pytest.raises(UnsupportedFeature, match="version 3") as refused:
        read_manifest(IO, str(path))
    assert refused.value.file == str(path)


def _rewritten(path: Path, change: object) -> bytes:
    """The manifest at `path` with another schema, written by fastavro."""
    from io import BytesIO

    with path.open("rb") as f:
        from paimon_core.format.avro.container import Container
        from paimon_core.manifest.avro_codec import read_records

        container = Container(f)
        schema, records = deepcopy(container.schema), list(read_records(container))
    change(schema, records)  # type: ignore[operator]
    out = BytesIO()
    fastavro.writer(out, schema, records, codec="deflate")
    return out.getvalue()


def test_older_files_lack_some_fields(tmp_path: Path) -> None:
    (meta,) = _write(tmp_path, [_entry(0, write_cols=("a",)), _entry(1)])

    def older(schema: dict, records: list) -> None:  # type: ignore[type-arg]
        file = next(f for f in schema["fields"] if f["name"] == "_FILE")["type"]
        file["fields"] = [
            f
            for f in file["fields"]
            if f["name"] not in ("_WRITE_COLS", "_FIRST_ROW_ID", "_EXTERNAL_PATH", "_FILE_SOURCE")
        ]

    path = tmp_path / "manifest" / meta.file_name
    (tmp_path / "older").write_bytes(_rewritten(path, older))
    assert read_manifest(IO, str(tmp_path / "older")) == [_entry(0), _entry(1)]


# --- index manifests ----------------------------------------------------------------------------

INDEX = [
    IndexManifestEntry(
        FileKind.ADD,
        EMPTY_ROW,
        3,
        IndexFileMeta(
            index_type="DELETION_VECTORS",
            file_name="index-1",
            file_size=99,
            row_count=2,
            dv_ranges=(
                DeletionVectorRange("data-1", 1, 20, 5),
                DeletionVectorRange("data-2", 21, 20, None),
            ),
        ),
    ),
    IndexManifestEntry(
        FileKind.DELETE,
        _day("x"),
        0,
        IndexFileMeta(
            index_type="btree",
            file_name="index-2",
            file_size=8,
            row_count=2,
            external_path="/x/index-2",
            global_index={
                "_ROW_RANGE_START": 0,
                "_ROW_RANGE_END": 9,
                "_INDEX_FIELD_ID": 3,
                "_EXTRA_FIELD_IDS": [4, 5],
                "_INDEX_META": b"m",
                "_SOURCE_META": None,
            },
        ),
    ),
    IndexManifestEntry(
        FileKind.ADD,
        EMPTY_ROW,
        0,
        IndexFileMeta(index_type="HASH", file_name="index-3", file_size=8, row_count=2),
    ),
]


@pytest.mark.parametrize("file_format", ["avro", "orc", "parquet"])
def test_index_files_survive(tmp_path: Path, file_format: str) -> None:
    paths = TablePaths(root=str(tmp_path))
    options = Options({"manifest.format": file_format})
    name = write_index_manifest(IO, paths, INDEX, options=options, new_uuid=lambda: "u")
    assert name == "index-manifest-u-0"
    assert read_index_manifest(IO, paths.manifest(name)) == INDEX


@pytest.mark.parametrize("entries", [1, 150, 300, 600, 1000])
def test_an_index_manifest_may_be_cut_where_it_ends_with_a_full_block(
    tmp_path: Path, entries: int
) -> None:
    """A whole one rarely ends with a full block, however large it is."""
    paths = TablePaths(root=str(tmp_path))
    index = [
        IndexManifestEntry(
            FileKind.ADD,
            EMPTY_ROW,
            i,
            IndexFileMeta(index_type="HASH", file_name=f"index-{i:036}", file_size=4, row_count=1),
        )
        for i in range(entries)
    ]
    name = write_index_manifest(IO, paths, index, options=Options({}), new_uuid=lambda: "u")
    path = Path(paths.manifest(name))
    assert not read_index_manifest(IO, str(path)).may_be_cut
    data = path.read_bytes()
    container = Container(BytesIO(data))
    source = container._source
    lefts = [source.left, *(source.left for _ in container.blocks())][:-1]
    for left in lefts:
        path.write_bytes(data[:-left])
        found = read_index_manifest(IO, str(path))
        assert found.may_be_cut
        assert found == index[: len(found)]
