"""Fields of newer versions in metadata files survive a rewrite, or are refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from avro_fields import add_fields, values_of

from paimon_core.errors import UnsupportedFeature
from paimon_core.io.local import LocalFileIO
from paimon_core.manifest.data_file import (
    EMPTY_ROW,
    DataFileMeta,
    DeletionVectorRange,
    FileKind,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_core.manifest.entries.encoding import encode_entry
from paimon_core.manifest.entries.records import file_kind, unknown_of
from paimon_core.manifest.index_manifest import read_index_manifest, write_index_manifest
from paimon_core.manifest.manifest_file import read_manifest, write_manifests
from paimon_core.manifest.manifest_list import read_manifest_list, write_manifest_list
from paimon_core.manifest.unknown_fields import valued
from paimon_core.options import Options
from paimon_core.paths import TablePaths
from paimon_core.types.data_types import RowType

IO = LocalFileIO()
AVRO = Options()
LONGS = ["null", {"type": "array", "items": "long"}]
NESTED = {
    "type": "record",
    "name": "future",
    "fields": [
        {"name": "a", "type": {"type": "map", "values": ["null", "double", "string"]}},
        {"name": "b", "type": {"type": "fixed", "name": "f8", "size": 8}},
        {"name": "c", "type": {"type": "enum", "name": "e", "symbols": ["X", "Y"]}},
        {"name": "d", "type": ["null", {"type": "array", "items": "boolean"}]},
    ],
}
NESTED_VALUE = {"a": {"x": 1.5, "y": "z", "n": None}, "b": b"12345678", "c": "Y", "d": [True]}


def _entry(name: str, **fields: Any) -> ManifestEntry:
    file = DataFileMeta(file_name=name, file_size=10, row_count=3, **fields)
    return ManifestEntry(FileKind.ADD, EMPTY_ROW, 0, 2, file)


def _written(root: Path, entries: Sequence[ManifestEntry], options: Options = AVRO) -> Path:
    (meta,) = write_manifests(
        IO,
        TablePaths(root=str(root)),
        entries,
        options=options,
        partition_type=RowType(),
        new_uuid=lambda: "u",
    )
    return root / "manifest" / meta.file_name


def _rewritten(root: Path, data: bytes, more: Sequence[ManifestEntry] = ()) -> Path:
    """A manifest with what is read from `data`, and more entries."""
    root.mkdir(exist_ok=True)
    (root / "newer").write_bytes(data)
    return _written(root, [*read_manifest(IO, str(root / "newer")), *more])


@pytest.mark.parametrize("first", [False, True], ids=["last", "first"])
@pytest.mark.parametrize(
    "record", [(), ("_FILE",), ("_FILE", "_VALUE_STATS")], ids=lambda r: ".".join(r) or "entry"
)
def test_fields_of_entries_survive(tmp_path: Path, record: tuple[str, ...], first: bool) -> None:  # noqa: FBT001
    source = _written(tmp_path / "old", [_entry("a", write_cols=("x",)), _entry("b")])
    fields = {
        "_WRITE_COLS_SEQUENCES": (LONGS, [7, -8]),
        "_PLAIN": ("long", 2**62),
        "_NESTED": (NESTED, NESTED_VALUE),
        "_EMPTY": (["null", "string"], None),
    }
    again = _rewritten(tmp_path / "new", add_fields(source, fields, record=record, first=first))
    for name, (_, value) in fields.items():
        assert values_of(again, *record, name) == [value, value]
    read = read_manifest(IO, str(again))
    assert [replace(e, unknown=(), file=replace(e.file, unknown=())) for e in read] == (
        read_manifest(IO, str(source))
    )
    names = {".".join((*record, name)) for name in fields if name != "_EMPTY"}
    assert set(valued(unknown_of(read[0]))) == names


def test_entries_without_the_field_get_null(tmp_path: Path) -> None:
    source = _written(tmp_path / "old", [_entry("a"), _entry("b")])
    fields = {"_OPTIONAL": (LONGS, [1]), "_REQUIRED": ("string", "text")}
    data = add_fields(source, fields, record=("_FILE",))
    again = _rewritten(tmp_path / "new", data, [_entry("c")])
    assert values_of(again, "_FILE", "_OPTIONAL") == [[1], [1], None]
    assert values_of(again, "_FILE", "_REQUIRED") == ["text", "text", None]
    assert [e.file.file_name for e in read_manifest(IO, str(again))] == ["a", "b", "c"]
    once_more = _rewritten(tmp_path / "newer", again.read_bytes())
    assert values_of(once_more, "_FILE", "_REQUIRED") == ["text", "text", None]


def test_deletes_and_upgrades_keep_the_fields_of_the_file(tmp_path: Path) -> None:
    source = _written(tmp_path / "old", [_entry("a")])
    (tmp_path / "x").write_bytes(add_fields(source, {"_NEW": ("int", 5)}, record=("_FILE",)))
    (entry,) = read_manifest(IO, str(tmp_path / "x"))
    moved = replace(entry, file=entry.file.upgraded(5))
    again = _written(tmp_path / "new", [entry.as_delete(), moved])
    assert values_of(again, "_FILE", "_NEW") == [5, 5]


def test_one_name_with_two_types_is_refused(tmp_path: Path) -> None:
    source = _written(tmp_path / "old", [_entry("a")])
    entries = []
    for i, kind in enumerate(("long", "string")):
        path = tmp_path / str(i)
        value = 1 if kind == "long" else "1"
        path.write_bytes(add_fields(source, {"_NEW": (kind, value)}, record=("_FILE",)))
        entries += read_manifest(IO, str(path))
    with pytest.raises(UnsupportedFeature, match=r"_FILE\._NEW"):
        _written(tmp_path / "new", entries)


def test_manifests_without_new_fields_stay_byte_for_byte(tmp_path: Path) -> None:
    source = _written(tmp_path / "old", [_entry("a")])
    assert _rewritten(tmp_path / "new", source.read_bytes()).read_bytes() == source.read_bytes()
    assert encode_entry(_entry("a")) in source.read_bytes() or source.stat().st_size


def test_fields_of_manifest_lists_survive(tmp_path: Path) -> None:
    paths = TablePaths(root=str(tmp_path))
    metas = write_manifests(
        IO, paths, [_entry("a")], options=AVRO, partition_type=RowType(), new_uuid=lambda: "m"
    )
    name, _ = write_manifest_list(IO, paths, metas, options=AVRO, new_uuid=lambda: "l")
    newer = tmp_path / "manifest" / "newer"
    fields = {"_TOTAL_BUCKETS": (["null", "int"], 4), "_PLAIN": ("long", 9)}
    newer.write_bytes(add_fields(Path(paths.manifest(name)), fields))
    read = read_manifest_list(IO, str(newer))
    assert [replace(m, unknown=()) for m in read] == metas
    again, _ = write_manifest_list(
        IO, paths, [*read, *metas], options=AVRO, new_uuid=lambda: "again"
    )
    assert values_of(Path(paths.manifest(again)), "_TOTAL_BUCKETS") == [4, None]
    assert values_of(Path(paths.manifest(again)), "_PLAIN") == [9, None]


def _index_entry(**fields: Any) -> IndexManifestEntry:
    file = IndexFileMeta(file_name="i", file_size=8, row_count=2, **fields)
    return IndexManifestEntry(FileKind.ADD, EMPTY_ROW, 0, file)


GLOBAL = {
    "_ROW_RANGE_START": 0,
    "_ROW_RANGE_END": 9,
    "_INDEX_FIELD_ID": 3,
    "_EXTRA_FIELD_IDS": None,
    "_INDEX_META": b"m",
    "_SOURCE_META": b"s",
}


def test_fields_of_index_entries_survive(tmp_path: Path) -> None:
    paths = TablePaths(root=str(tmp_path))
    entries = [
        _index_entry(index_type="btree", global_index=GLOBAL),
        _index_entry(index_type="HASH"),
    ]
    name = write_index_manifest(IO, paths, entries, options=AVRO, new_uuid=lambda: "a")
    newer = tmp_path / "newer"
    newer_meta = {"_NEWER_META": (["null", "bytes"], b"newer")}
    newer.write_bytes(add_fields(Path(paths.manifest(name)), newer_meta, record=("_GLOBAL_INDEX",)))
    newer.write_bytes(add_fields(newer, {"_EXTRA_FILES": (LONGS, [3])}))
    read = read_index_manifest(IO, str(newer))
    assert [replace(e, unknown=()) for e in read] == entries
    again = write_index_manifest(IO, paths, read, options=AVRO, new_uuid=lambda: "b")
    path = Path(paths.manifest(again))
    assert values_of(path, "_GLOBAL_INDEX", "_NEWER_META") == [b"newer", None]
    assert values_of(path, "_EXTRA_FILES") == [[3], [3]]
    assert values_of(path, "_GLOBAL_INDEX")[0] == {**GLOBAL, "_NEWER_META": b"newer"}


def test_a_field_of_a_deletion_vector_range_is_refused(tmp_path: Path) -> None:
    from io import BytesIO

    import fastavro

    from paimon_core.format.avro.container import Container
    from paimon_core.manifest.avro_codec import read_records

    paths = TablePaths(root=str(tmp_path))
    ranges = (DeletionVectorRange("data-1", 1, 20, 5),)
    entry = _index_entry(index_type="DELETION_VECTORS", dv_ranges=ranges)
    name = write_index_manifest(IO, paths, [entry], options=AVRO, new_uuid=lambda: "a")
    with Path(paths.manifest(name)).open("rb") as f:
        container = Container(f)
        schema, (record,) = deepcopy(container.schema), read_records(container)
    field = next(f for f in schema["fields"] if f["name"] == "_DELETIONS_VECTORS_RANGES")
    element = next(t for t in field["type"] if t != "null")["items"]
    element = element if isinstance(element, dict) else element[1]
    element = {**element, "fields": [*element["fields"], {"name": "_SHIFT", "type": "int"}]}
    field = {**field, "type": ["null", {"type": "array", "items": element}]}
    fields = [field if f["name"] == field["name"] else f for f in schema["fields"]]
    record["_DELETIONS_VECTORS_RANGES"][0]["_SHIFT"] = 3
    out = BytesIO()
    fastavro.writer(out, {**schema, "fields": fields}, [record])
    (tmp_path / "newer").write_bytes(out.getvalue())
    with pytest.raises(UnsupportedFeature, match=r"_DELETIONS_VECTORS_RANGES\._SHIFT"):
        read_index_manifest(IO, str(tmp_path / "newer"))


def test_values_in_unknown_columns_of_parquet_are_refused(tmp_path: Path) -> None:
    import pyarrow as pa

    options = Options({"manifest.format": "parquet"})
    path = _written(tmp_path, [_entry("a")], options)
    table = pq.read_table(path)
    pq.write_table(table.append_column("_NEW", pa.array([None], pa.int64())), tmp_path / "empty")
    assert read_manifest(IO, str(tmp_path / "empty")) == [_entry("a")]
    pq.write_table(table.append_column("_NEW", pa.array([4])), tmp_path / "full")
    with pytest.raises(UnsupportedFeature, match="_NEW"):
        read_manifest(IO, str(tmp_path / "full"))


def test_fields_of_avro_manifests_are_not_lost_in_parquet(tmp_path: Path) -> None:
    source = _written(tmp_path / "old", [_entry("a")])
    (tmp_path / "x").write_bytes(add_fields(source, {"_NEW": ("int", 5)}))
    with pytest.raises(UnsupportedFeature, match="_NEW"):
        _written(
            tmp_path / "new",
            read_manifest(IO, str(tmp_path / "x")),
            Options({"manifest.format": "parquet"}),
        )
    assert not list((tmp_path / "new").rglob("manifest-*"))


def test_kinds_of_entries_that_are_unknown_are_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="kind 2"):
        file_kind(2)
