"""Manifests decoded into columns hold what the decoder of objects finds, for any manifest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from long_run import examples
from metadata_strategies import FILES, INT, LONG, ROW

from paimon_core.errors import CorruptTable, PaimonError
from paimon_core.format.avro.container import Container
from paimon_core.format.avro.schema import file_schema
from paimon_core.format.damage import DAMAGE_OF_STREAMS
from paimon_core.manifest import avro_codec
from paimon_core.manifest.avro_codec import RecordWriter
from paimon_core.manifest.data_file import DataFileMeta, FileKind, ManifestEntry
from paimon_core.manifest.entries import columns_codec as entry_columns_codec
from paimon_core.manifest.entries.columns import (
    NUMBERS,
    ColumnsBuilder,
    EntryColumns,
    Partitions,
    columns_of,
)
from paimon_core.manifest.entries.columns_codec import RawManifest, decode_columns
from paimon_core.manifest.entries.decoding import decode_entries
from paimon_core.manifest.entries.encoding import encode_entry, zigzag
from paimon_core.manifest.entries.records import ENTRY_KIND
from paimon_core.manifest.layouts import MANIFEST_ENTRY
from paimon_core.manifest.merge_columns import changed_partitions, live_columns
from paimon_core.manifest.merge_entries import live_entries
from paimon_core.manifest.metadata_file import layout_of
from paimon_core.manifest.unknown_fields import UnknownField

LAYOUT = file_schema(MANIFEST_ENTRY)
NAMES = st.from_regex(r"[a-z0-9.-]{3,20}", fullmatch=True)
USUAL_FILES = st.builds(
    replace,
    FILES,
    file_name=NAMES,
    extra_files=st.lists(NAMES, max_size=2).map(tuple),
)


def _entries(files: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[ManifestEntry]]]:
    partition = st.sampled_from((bytes(12), b"p" * 20)) | ROW
    entry = st.builds(ManifestEntry, st.sampled_from(FileKind), partition, INT, INT, files)
    return st.lists(st.lists(entry, min_size=1, max_size=8), max_size=4)


@pytest.fixture(autouse=True, scope="module")
def _small_pieces() -> Iterable[None]:
    """Walk even single blocks, and cut manifests into many blocks and pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry_columns_codec, "_LEAST_LANES", 1)
        patch.setattr(entry_columns_codec, "_PIECE_BYTES", 700)
        patch.setattr(entry_columns_codec, "_TOGETHER_BYTES", 2000)
        patch.setattr(avro_codec, "BLOCK_BYTES", 300)
        yield


def _written(entries: Sequence[ManifestEntry]) -> bytes:
    layout = layout_of(ENTRY_KIND, entries)
    writer = RecordWriter(layout.schema() if layout else LAYOUT, codec="null", level=1)
    for entry in entries:
        record = encode_entry(entry)
        writer.add(layout.extended(record, ENTRY_KIND.unknown(entry)) if layout else record)
    return writer.finish()


def _objects(data: bytes) -> list[ManifestEntry]:
    try:
        return decode_entries(Container(BytesIO(data)))
    except DAMAGE_OF_STREAMS as e:
        raise CorruptTable(str(e)) from e


def _decoded(manifests: Sequence[bytes]) -> EntryColumns:
    partitions = Partitions()
    builder = ColumnsBuilder(partitions)
    raw = [RawManifest(data, lambda data=data: _objects(data)) for data in manifests]  # type: ignore[misc]
    for part in decode_columns(raw, partitions, NUMBERS):
        builder.add(part.columns)
        some = np.arange(0, len(part.columns), 2)
        _check_same(part.columns.take(some), part.entries(some))
    return builder.columns()


def _check_same(found: EntryColumns, entries: Sequence[ManifestEntry]) -> None:
    wanted = columns_of(entries, Partitions(), NUMBERS)
    rows = found.partitions.rows
    assert [rows[code] for code in found.partition.tolist()] == [e.partition for e in entries]
    for name in ("kind", "bucket", "total_buckets", "level"):
        assert getattr(found, name).tolist() == getattr(wanted, name).tolist(), name
    if entries:
        for name in NUMBERS:
            assert found.numbers[name].tolist() == wanted.numbers[name].tolist(), name
    assert found.rare == wanted.rare
    assert found.unknown == wanted.unknown
    assert [found.identity(i) for i in range(len(found))] == [e.identity for e in entries]


@settings(max_examples=examples(25))
@given(_entries(FILES))
def test_columns_hold_what_objects_hold(manifests: list[list[ManifestEntry]]) -> None:
    found = _decoded([_written(entries) for entries in manifests])
    _check_same(found, [e for entries in manifests for e in entries])


@settings(max_examples=examples(25))
@given(_entries(USUAL_FILES))
def test_usual_entries_are_never_decoded_as_objects(manifests: list[list[ManifestEntry]]) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("decoded as objects")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry_columns_codec, "_of_objects", refuse)
        found = _decoded([_written(entries) for entries in manifests])
    _check_same(found, [e for entries in manifests for e in entries])


@settings(max_examples=examples(25))
@given(_entries(USUAL_FILES), st.lists(LONG, min_size=1, max_size=3))
def test_fields_of_newer_versions_are_kept(
    manifests: list[list[ManifestEntry]], values: list[int]
) -> None:
    for entries, value in zip(manifests, values, strict=False):
        field = UnknownField((), "_NEW", '{"name": "_NEW", "type": "long"}', zigzag(value))
        entries[:] = [
            replace(e, file=replace(e.file, unknown=(field,)), unknown=(field,)) for e in entries
        ]
    found = _decoded([_written(entries) for entries in manifests])
    _check_same(found, [e for entries in manifests for e in entries])
    assert len(found.unknown) == sum(map(len, manifests[: len(values)]))


@settings(max_examples=examples(25))
@given(_entries(USUAL_FILES), st.data())
def test_damaged_manifests_are_refused_or_right(
    manifests: list[list[ManifestEntry]], data: st.DataObject
) -> None:
    """Columns that nobody asked for are not decoded, so damage may only be in those."""
    header = len(_written([]))
    for entries in manifests:
        content = bytearray(_written(entries))
        at = data.draw(st.integers(header, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
        damaged = bytes(content)
        try:
            wanted = _objects(damaged)
        except PaimonError as e:
            try:
                _check_same(_decoded([damaged]), entries)
            except type(e):
                continue
        else:
            _check_same(_decoded([damaged]), wanted)


@settings(max_examples=examples(80))
@given(st.data())
def test_live_files_are_those_of_objects(data: st.DataObject) -> None:
    files = st.builds(
        DataFileMeta,
        file_name=st.sampled_from(("one", "two", "three")),
        file_size=st.just(1),
        row_count=st.just(1),
        level=st.integers(0, 1),
        extra_files=st.sampled_from(((), (), ("x",))),
        embedded_index=st.sampled_from((None, None, b"i")),
        external_path=st.sampled_from((None, None, "/w/x")),
    )
    partition = st.sampled_from((bytes(12), b"p" * 20))
    any_kind = st.builds(
        ManifestEntry, st.sampled_from(FileKind), partition, st.integers(0, 1), st.just(2), files
    )
    entries: list[ManifestEntry] = []
    for action in data.draw(st.lists(st.sampled_from("aaddd?"), max_size=15)):
        present = [e for e in entries if e.kind is FileKind.ADD]
        if action == "d" and present:
            entries.append(data.draw(st.sampled_from(present)).as_delete())
        else:
            entry = data.draw(any_kind)
            entries.append(entry if action == "?" else replace(entry, kind=FileKind.ADD))
    partitions = Partitions()
    cut = data.draw(st.integers(0, len(entries)))
    parts = [columns_of(p, partitions, NUMBERS) for p in (entries[:cut], entries[cut:])]
    try:
        wanted = live_entries(entries)
    except CorruptTable:
        with pytest.raises(CorruptTable):
            live_columns(parts, partitions)
        return
    _check_same(live_columns(parts, partitions, expected=data.draw(st.integers(0, 20))), wanted)


@settings(max_examples=examples(60))
@given(st.lists(_entries(USUAL_FILES), min_size=2, max_size=2), st.randoms())
def test_changed_partitions_are_those_with_other_files(
    versions: list[list[list[ManifestEntry]]], random: Any
) -> None:
    first = {e.identity: e for entries in versions[0] for e in entries}
    second = {e.identity: e for entries in versions[1] for e in entries}
    for identity in random.sample(list(first), len(first) // 2):
        second[identity] = first[identity]
    places = random.sample(list(second), len(second))
    partitions = Partitions()
    before = columns_of(first.values(), partitions, ())
    after = columns_of((second[place] for place in places), partitions, ())
    both = (first.keys(), second.keys())
    rows = {i.partition for found in both for i in found}
    expected = {
        partitions.find(row)
        for row in rows
        if len({frozenset(i for i in found if i.partition == row) for found in both}) > 1
    }
    assert changed_partitions(before, after) == expected
