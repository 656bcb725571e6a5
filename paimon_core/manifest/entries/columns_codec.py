"""Decodes manifests into columns (`EntryColumns`), many of them together.

Files of another layout than that of Java 1.x and 2.x, and any file with something unusual in it, go
through the decoder of objects (`decoding`): it knows every layout and raises the exact error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.avro.container import MAGIC, Block, Container
from paimon_core.format.avro.schema import file_schema
from paimon_core.format.damage import DAMAGE_OF_STREAMS
from paimon_core.manifest.avro_codec import metadata_blocks
from paimon_core.manifest.data_file import FileSource, ManifestEntry
from paimon_core.manifest.entries.columns import (
    KEYS,
    NULL,
    Column,
    ColumnsBuilder,
    EntryColumns,
    Partitions,
    Rare,
    columns_of,
)
from paimon_core.manifest.entries.decoding import decode_blocks, rare_of
from paimon_core.manifest.entries.encoding import zigzag
from paimon_core.manifest.entries.records import ENTRY_VERSION
from paimon_core.manifest.entries.walk import EncodedBlocks, Longs, Positions, walk
from paimon_core.manifest.layouts import MANIFEST_ENTRY
from paimon_core.types.buffers import index_array

_LAYOUT: Final = file_schema(MANIFEST_ENTRY)
_VERSION_BYTE: Final = zigzag(ENTRY_VERSION)[0]
_TOGETHER_BYTES: Final = 8 * 1024**2
"""Decompressed bytes that are walked side by side: more is faster, but takes more memory."""
_PIECE_BYTES: Final = 4 * 1024**2
_LEAST_LANES: Final = 12
"""With fewer blocks side by side, objects are as fast."""
_LONGEST_NAME: Final = 1024
_NOT_ASCII: Final = 0x80
_NOT_IN_NAMES: Final = tuple(b"/\\\x00")


class _UnusualError(Exception):
    """The blocks hold something that the decoder of objects must look at."""


_REFUSED: Final[tuple[type[Exception], ...]] = (
    CorruptTable,
    UnsupportedFeature,
    *DAMAGE_OF_STREAMS,
)
"""The errors of bytes that cannot be decoded; none names the file, as the
decoder of objects does."""
_UNDECODED: Final[tuple[type[Exception], ...]] = (_UnusualError, *_REFUSED)


@dataclass(frozen=True, slots=True)
class RawManifest:
    """A manifest's bytes, and the decoder of objects for it, which raises the exact errors."""

    data: bytes
    objects: Callable[[], list[ManifestEntry]]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some blocks of a manifest, decompressed; none if the whole must be decoded as objects."""

    number: int
    manifest: RawManifest
    blocks: Sequence[Block] = ()

    @property
    def size(self) -> int:
        return sum(len(block.data) for block in self.blocks)


@dataclass(frozen=True, slots=True)
class Decoded:
    """Some ten thousand entries as columns; `entries` makes objects of those at some positions."""

    columns: EntryColumns
    entries: Callable[[Column], list[ManifestEntry]]


def decode_columns(
    manifests: Iterable[RawManifest], partitions: Partitions, numbers: Iterable[str]
) -> Iterator[Decoded]:
    """Yield the entries of the manifests in order.  Errors are those of `RawManifest.objects`."""
    wanted = tuple(numbers)
    group: list[_Piece] = []
    size = 0
    for piece in (p for i, manifest in enumerate(manifests) for p in _pieces(i, manifest)):
        if group and (size + piece.size > _TOGETHER_BYTES or not piece.blocks):
            yield _columns(group, partitions, wanted)
            group, size = [], 0
        if piece.blocks:
            group.append(piece)
            size += piece.size
        else:
            entries = piece.manifest.objects()
            yield _of_objects(entries, columns_of(entries, partitions, wanted, piece.number))
    if group:
        yield _columns(group, partitions, wanted)


def _of_objects(entries: list[ManifestEntry], columns: EntryColumns) -> Decoded:
    return Decoded(columns, lambda positions: [entries[i] for i in positions.tolist()])


def _pieces(number: int, manifest: RawManifest) -> Iterator[_Piece]:
    if not _is_known(manifest.data):
        yield _Piece(number, manifest)
        return
    blocks: list[Block] = []
    size = 0
    try:
        for block in metadata_blocks(Container(BytesIO(manifest.data))):
            blocks.append(block)
            size += len(block.data)
            if size >= _PIECE_BYTES:
                yield _Piece(number, manifest, tuple(blocks))
                blocks, size = [], 0
    except _REFUSED:
        manifest.objects()
        raise
    if blocks:
        yield _Piece(number, manifest, tuple(blocks))


def _is_known(data: bytes) -> bool:
    """Return whether the file is Avro of the known layout."""
    if not data.startswith(MAGIC):
        return False
    try:
        return bool(Container(BytesIO(data)).schema == _LAYOUT)
    except _REFUSED:
        return False


def _columns(pieces: Sequence[_Piece], partitions: Partitions, wanted: Sequence[str]) -> Decoded:
    blocks = [block for piece in pieces for block in piece.blocks]
    manifests = [piece.number for piece in pieces for _ in piece.blocks]
    if len(blocks) >= _LEAST_LANES:
        try:
            return _checked(_walked(blocks, manifests, partitions, wanted), pieces)
        except _UNDECODED:
            pass  # decided by the decoder of objects
    builder = ColumnsBuilder(partitions)
    found: list[ManifestEntry] = []
    for piece in pieces:
        try:
            entries = decode_blocks(piece.blocks)
        except _REFUSED:
            piece.manifest.objects()
            raise
        builder.add(columns_of(entries, partitions, wanted, piece.number))
        found += entries
    return _of_objects(found, builder.columns())


def _checked(decoded: Decoded, pieces: Sequence[_Piece]) -> Decoded:
    """Return the same, with the errors of whole manifests for fields that are no columns."""

    def entries(positions: Column) -> list[ManifestEntry]:
        try:
            return decoded.entries(positions)
        except _REFUSED:
            for piece in pieces:
                piece.manifest.objects()
            raise

    return Decoded(decoded.columns, entries)


# --- from bytes to columns ------------------------------------------------------------------------


def _walked(
    found: Sequence[Block],
    manifests: Sequence[int],
    partitions: Partitions,
    wanted: Sequence[str],
) -> Decoded:
    blocks = EncodedBlocks([block.data for block in found])
    sizes = np.array([len(block.data) for block in found], np.int64)
    counts = np.array([block.rows for block in found], np.int64)
    at = walk(blocks, np.cumsum(sizes) - sizes, sizes, counts)
    data = blocks.data
    kinds = data[at["start"] + 1]
    if (data[at["start"]] != _VERSION_BYTE).any() or (kinds & 0xFD).any():
        raise _UnusualError
    levels = blocks.longs(blocks.skip(at["sequence"], 3))
    if (levels < 0).any():
        raise _UnusualError
    columns = EntryColumns(
        partitions=partitions,
        manifest=np.repeat(np.array(manifests, np.int32), counts),
        partition=_partitions(blocks, at, partitions),
        kind=(kinds >> 1).astype(np.int8),
        bucket=_ints(blocks.longs(at["bucket"])),
        total_buckets=_ints(blocks.longs(blocks.skip(at["bucket"]))),
        level=_ints(levels),
        names=_names(blocks, at),
        numbers={name: _number(blocks, at, name) for name in wanted if name not in KEYS},
        keys={name: _key(blocks, at, name) for name in wanted if name in KEYS},
        rare=_rare(blocks, at),
    )

    def entries(positions: Column) -> list[ManifestEntry]:
        starts, ends = at["start"][positions].tolist(), at["end"][positions].tolist()
        chosen = b"".join(
            blocks.content[start:end] for start, end in zip(starts, ends, strict=True)
        )
        return decode_blocks([Block(len(starts), chosen)])

    return Decoded(columns, entries)


def _number(blocks: EncodedBlocks, at: Mapping[str, Positions], name: str) -> Longs:
    match name:
        case "file_size":
            return blocks.longs(at["size"])
        case "row_count":
            return blocks.longs(blocks.skip(at["size"]))
        case "min_sequence_number":
            return blocks.longs(at["sequence"])
        case "max_sequence_number":
            return blocks.longs(blocks.skip(at["sequence"]))
        case "schema_id":
            return blocks.longs(blocks.skip(at["sequence"], 2))
        case "creation_time":
            return blocks.optional_longs(at["created"], NULL)
        case "delete_row_count":
            return blocks.optional_longs(at["deleted_rows"], NULL)
        case "first_row_id":
            return blocks.optional_longs(at["first_row_id"], NULL)
        case "file_source":
            found = blocks.optional_longs(at["source"], NULL)
            if not np.isin(found, (NULL, *FileSource)).all():
                raise _UnusualError
            return found
    raise KeyError(name)


def _key(blocks: EncodedBlocks, at: Mapping[str, Positions], name: str) -> pa.Array:
    start, end = ("min_key", "max_key") if name == "min_key" else ("max_key", "key_stats")
    return _binary(blocks, at[start], at[end])


def _ints(values: Longs) -> Column:
    small = values.astype(np.int32)
    if (small != values).any():
        raise _UnusualError
    return small


def _partitions(
    blocks: EncodedBlocks, at: Mapping[str, Positions], partitions: Partitions
) -> Column:
    found = _binary(blocks, at["partition"], at["bucket"]).dictionary_encode()
    codes = [partitions.code(row) for row in found.dictionary.to_pylist()]
    places = np.frombuffer(found.indices.buffers()[1], np.int32, len(found))
    return np.array(codes, np.int32)[places]


def _names(blocks: EncodedBlocks, at: Mapping[str, Positions]) -> pa.Array:
    """Return the names; those that may not be file names are left to the decoder of objects."""
    names = _binary(blocks, at["name"], at["size"])
    offsets = np.frombuffer(names.buffers()[1], np.int64, len(names) + 1)
    content = np.frombuffer(names.buffers()[2], np.uint8)
    sizes = np.diff(offsets)
    if len(names) and (sizes.min() <= len("..") or sizes.max() > _LONGEST_NAME):
        raise _UnusualError
    if (content >= _NOT_ASCII).any() or any((content == byte).any() for byte in _NOT_IN_NAMES):
        raise _UnusualError
    return names


def _binary(blocks: EncodedBlocks, at: Positions, end: Positions) -> pa.Array:
    """Return the byte strings at these positions, which end at `end`."""
    # Each string and the gap after it are a value of an array over all bytes;
    # Arrow copies the strings.
    offsets = np.empty(2 * len(at), np.int64)
    offsets[::2] = blocks.skip(at)
    offsets[1::2] = end
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(blocks.content)]
    strings_and_gaps = pa.Array.from_buffers(pa.large_binary(), max(len(offsets) - 1, 0), buffers)
    return strings_and_gaps.take(index_array(np.arange(0, 2 * len(at), 2)))


def _rare(blocks: EncodedBlocks, at: Mapping[str, Positions]) -> dict[int, Rare]:
    data = blocks.data
    has = data[at["extra_files"]] | data[at["index"]] | data[at["external_path"]]
    return {
        i: Rare(
            *rare_of(
                blocks.content,
                int(at["extra_files"][i]),
                int(at["index"][i]),
                int(at["external_path"][i]),
            )
        )
        for i in np.flatnonzero(has).tolist()
    }
