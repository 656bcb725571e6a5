"""Whatever a metadata file may hold comes back from it, byte for byte where bytes are identity."""

from __future__ import annotations

import string
import uuid

from hypothesis import given, settings
from hypothesis import strategies as st
from long_run import examples
from metadata_strategies import (
    EXTERNAL,
    FILE_NAME,
    FILES,
    INT,
    LONG,
    MILLIS,
    ROW,
    STATS,
    TEXT,
    maybe,
)

from paimon_core.io.fsspec_io import FsspecFileIO
from paimon_core.manifest.data_file import (
    EMPTY_ROW,
    DataFileMeta,
    DeletionVectorRange,
    FileKind,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
)
from paimon_core.manifest.entries import decoding as entry_decoding
from paimon_core.manifest.entries.decoding import read_zigzag
from paimon_core.manifest.entries.encoding import zigzag
from paimon_core.manifest.index_manifest import read_index_manifest, write_index_manifest
from paimon_core.manifest.manifest_file import read_manifest, write_manifests
from paimon_core.manifest.manifest_list import read_manifest_list, write_manifest_list
from paimon_core.options import Options
from paimon_core.paths import TablePaths, escape_path_name, unescape_path_name
from paimon_core.refs.tags import Tag, tag_from_json, tag_to_json
from paimon_core.schema.schema_json import schema_from_json, schema_to_json
from paimon_core.schema.table_schema import TableSchema
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.snapshot.snapshot_json import snapshot_from_json, snapshot_to_json
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.sql import parse_type

IO = FsspecFileIO("memory")
ENTRIES = st.builds(ManifestEntry, st.sampled_from(FileKind), st.just(EMPTY_ROW), INT, INT, FILES)
MANIFESTS = st.builds(
    ManifestFileMeta,
    file_name=FILE_NAME,
    file_size=LONG,
    num_added_files=LONG,
    num_deleted_files=LONG,
    partition_stats=STATS,
    schema_id=LONG,
    min_bucket=maybe(INT),
    max_bucket=maybe(INT),
    min_level=maybe(INT),
    max_level=maybe(INT),
    min_row_id=maybe(LONG),
    max_row_id=maybe(LONG),
)
INDEX_ENTRIES = st.builds(
    IndexManifestEntry,
    st.sampled_from(FileKind),
    ROW,
    INT,
    st.builds(
        IndexFileMeta,
        index_type=TEXT,
        file_name=FILE_NAME,
        file_size=LONG,
        row_count=LONG,
        dv_ranges=maybe(
            st.lists(
                st.builds(DeletionVectorRange, FILE_NAME, INT, INT, maybe(LONG)), max_size=3
            ).map(tuple)
        ),
        external_path=maybe(EXTERNAL),
    ),
)
CODECS = st.sampled_from(["zstd", "null", "deflate", "snappy"])


def _paths() -> TablePaths:
    return TablePaths(root=f"memory://{uuid.uuid4()}")


@given(LONG)
def test_integers(value: int) -> None:
    data = b"x" + zigzag(value) + b"y"
    assert read_zigzag(data, 1) == (value, len(data) - 1)


@given(st.lists(ENTRIES, min_size=1, max_size=6), CODECS)
def test_manifests(entries: list[ManifestEntry], codec: str) -> None:
    paths = _paths()
    metas = write_manifests(
        IO,
        paths,
        entries,
        options=Options({"manifest.compression": codec}),
        partition_type=RowType(),
        new_uuid=lambda: "u",
    )
    (meta,) = metas
    path = paths.manifest(meta.file_name)
    assert read_manifest(IO, path) == entries
    assert meta.file_size == IO.stat(path).size
    assert (meta.min_bucket, meta.max_bucket) == (
        min(e.bucket for e in entries),
        max(e.bucket for e in entries),
    )
    layout = entry_decoding._ENTRY_LAYOUT
    try:
        entry_decoding._ENTRY_LAYOUT = None  # the general way, over dicts
        assert read_manifest(IO, path) == entries
    finally:
        entry_decoding._ENTRY_LAYOUT = layout


@given(st.lists(MANIFESTS, max_size=5), CODECS)
def test_manifest_lists(metas: list[ManifestFileMeta], codec: str) -> None:
    paths = _paths()
    name, size = write_manifest_list(
        IO,
        paths,
        metas,
        options=Options({"manifest.compression": codec}),
        new_uuid=lambda: "u",
    )
    assert read_manifest_list(IO, paths.manifest(name)) == metas
    assert IO.stat(paths.manifest(name)).size == size


@given(st.lists(INDEX_ENTRIES, max_size=5))
def test_index_manifests(entries: list[IndexManifestEntry]) -> None:
    paths = _paths()
    name = write_index_manifest(IO, paths, entries, options=Options(), new_uuid=lambda: "u")
    assert read_index_manifest(IO, paths.manifest(name)) == entries


@settings(max_examples=examples(30))
@given(
    st.lists(FILES.map(lambda f: f), min_size=1, max_size=4), st.sampled_from(["orc", "parquet"])
)
def test_manifests_in_other_formats(files: list[DataFileMeta], file_format: str) -> None:
    from dataclasses import replace

    # Arrow holds what a creation time can be, not every 64-bit number.
    entries = [
        ManifestEntry(
            FileKind.ADD, EMPTY_ROW, 0, 1, replace(f, creation_time=abs(f.file_size) % 2**42)
        )
        for f in files
    ]
    paths = _paths()
    (meta,) = write_manifests(
        IO,
        paths,
        entries,
        options=Options({"manifest.format": file_format}),
        partition_type=RowType(),
        new_uuid=lambda: "u",
    )
    assert read_manifest(IO, paths.manifest(meta.file_name)) == entries


# --- JSON ---------------------------------------------------------------------------------------

JSON = st.recursive(
    st.booleans() | LONG | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
UNKNOWN = st.dictionaries(
    st.text(string.ascii_uppercase, min_size=3, max_size=8) | st.just("uuid"), JSON, max_size=3
)
SNAPSHOTS = st.builds(
    Snapshot,
    id=st.integers(1, 2**63 - 1),
    schema_id=LONG,
    base_manifest_list=FILE_NAME,
    delta_manifest_list=FILE_NAME,
    commit_user=TEXT,
    commit_identifier=LONG,
    commit_kind=st.sampled_from(CommitKind),
    time_millis=MILLIS,
    base_manifest_list_size=maybe(LONG),
    delta_manifest_list_size=maybe(LONG),
    changelog_manifest_list=maybe(FILE_NAME),
    changelog_manifest_list_size=maybe(LONG),
    index_manifest=maybe(FILE_NAME),
    total_record_count=maybe(LONG),
    delta_record_count=maybe(LONG),
    changelog_record_count=maybe(LONG),
    watermark=maybe(LONG),
    statistics=maybe(FILE_NAME),
    properties=maybe(st.dictionaries(TEXT, TEXT, max_size=3)),
    next_row_id=maybe(LONG),
    extra=UNKNOWN,
)


@given(SNAPSHOTS)
def test_snapshots(snapshot: Snapshot) -> None:
    text = snapshot_to_json(snapshot)
    assert snapshot_from_json(text) == snapshot
    assert snapshot_to_json(snapshot_from_json(text.encode())) == text


NANOS = st.integers(-(2**62), 2**62)


@given(SNAPSHOTS, NANOS, st.integers(0, 2**60))
def test_tags(snapshot: Snapshot, created: int, retained: int) -> None:
    tag = Tag("t", snapshot, created, retained)
    text = tag_to_json(tag)
    assert tag_from_json("t", text) == tag
    assert tag_to_json(tag_from_json("t", text)) == text


FIELDS = st.builds(
    DataField,
    id=st.integers(0, 2**30),
    name=TEXT,
    type=st.sampled_from(
        [
            "INT",
            "STRING NOT NULL",
            "DECIMAL(10, 2)",
            "ROW<a INT, b ARRAY<STRING>>",
            "MAP<INT, DATE>",
        ]
    ).map(parse_type),
    description=maybe(TEXT),
    default_value=maybe(TEXT),
)


def _keys(fields: list[DataField]) -> st.SearchStrategy[tuple[str, ...]]:
    names = [f.name for f in fields]
    if not names:
        return st.just(())
    return st.lists(st.sampled_from(names), max_size=3, unique=True).map(tuple)


SCHEMAS = st.lists(FIELDS, max_size=4, unique_by=lambda f: f.name).flatmap(
    lambda fields: st.builds(
        TableSchema,
        id=LONG,
        fields=st.just(tuple(fields)),
        highest_field_id=INT,
        partition_keys=_keys(fields),
        primary_keys=_keys(fields),
        options=st.dictionaries(TEXT, TEXT, max_size=4).map(Options),
        comment=maybe(TEXT),
        time_millis=MILLIS,
        extra=st.dictionaries(
            st.text(string.ascii_uppercase, min_size=3, max_size=8), JSON, max_size=2
        ),
    )
)


@given(SCHEMAS)
def test_schemas(schema: TableSchema) -> None:
    text = schema_to_json(schema)
    assert schema_from_json(text) == schema
    assert list(schema_from_json(text).options) == list(schema.options)
    assert schema_to_json(schema_from_json(text)) == text


@given(TEXT)
def test_escaped_path_names(text: str) -> None:
    escaped = escape_path_name(text)
    assert "/" not in escaped
    assert "=" not in escaped
    assert unescape_path_name(escaped) == text
