"""How many rows a data file holds, from its footer or block headers, without decoding a row."""

from __future__ import annotations

import struct
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from paimon_core.errors import CorruptTable
from paimon_core.format.data_format import open_data_file
from paimon_core.io.file_io import FileIO

_AVRO_MAGIC = b"Obj\x01"
_SYNC_SIZE = 16


def count_rows(io: FileIO, path: str) -> int | None:
    """The rows in the file; None for a format that has no cheap count.

    CorruptTable if the file is no file of its format.
    """
    extension = path.rpartition(".")[2].removeprefix("cc-")
    try:
        with open_data_file(io, path) as source:
            if extension == "parquet":
                return int(pq.read_metadata(source).num_rows)
            if extension == "orc":
                return int(orc.ORCFile(source).nrows)
            if extension == "avro":
                return _count_avro(source)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, struct.error) as e:
        raise CorruptTable(f"{path} is no readable {extension} file: {e}", file=path) from e
    return None


def _count_avro(source: BinaryIO) -> int:
    """The sum of the block headers' counts; blocks themselves are skipped."""
    if source.read(4) != _AVRO_MAGIC:
        raise ValueError("it does not start like an Avro file")
    while (entries := _read_long(source)) != 0:  # the metadata map, block by block
        if entries < 0:
            _read_long(source)
        for _ in range(abs(entries) * 2):
            source.seek(_read_long(source), 1)
    source.seek(_SYNC_SIZE, 1)
    rows = 0
    while first := source.read(1):
        rows += _read_long(source, first)
        source.seek(_read_long(source) + _SYNC_SIZE, 1)
    return rows


def _read_long(source: BinaryIO, first: bytes = b"") -> int:
    value, shift = 0, 0
    while byte := first or source.read(1):
        first = b""
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
    raise ValueError("it ends in the middle of a block")
