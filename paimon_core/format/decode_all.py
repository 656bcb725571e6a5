"""Decodes every page of a data file to verify it.

What each format allows a reader to detect:

=========  =======================================================================================
parquet    a checksum for each page, if its writer made them (Java's does, and so does ours); the
           values that decompression and encodings yield
orc        no checksums; that every stripe can be decompressed and decoded
avro       the marker after each block, a checksum with snappy, that every row can be decoded
blob       a checksum for each value
=========  =======================================================================================
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.avro.reader import decode_all_rows
from paimon_core.format.blob.reader import check_elements
from paimon_core.format.data_format import decoding, format_of, open_data_file
from paimon_core.format.orc.footer import check_footer
from paimon_core.format.parquet.footer import open_parquet
from paimon_core.format.parquet.reader import WINDOW
from paimon_core.io.file_io import FileIO

_BATCH_ROWS = 8192


def decode_whole(io: FileIO, path: str) -> int:
    """Decode the file and return the row count of its pages.

    One batch of rows is in memory at a time.  Raises FileNotFoundError if the file is missing,
    CorruptTable if a part cannot be decoded or has a wrong checksum, UnsupportedFeature for an
    unknown format or values that Arrow cannot represent.
    """
    with decoding(path), open_data_file(io, path) as source:
        match format_of(path.rsplit("/", 1)[-1]):
            case "parquet":
                return _parquet(source)
            case "orc":
                return _orc(source)
            case "avro":
                return decode_all_rows(source)
            case "blob":
                return check_elements(source)
            case other:
                raise UnsupportedFeature(f"file format {other}", file=path)


def _parquet(source: Any) -> int:
    with open_parquet(
        source, pre_buffer=False, buffer_size=WINDOW, arrow_extensions_enabled=False
    ) as file:
        rows = sum(int(b.num_rows) for b in file.iter_batches(_BATCH_ROWS, use_threads=False))
        stated = file.metadata.num_rows
    if rows != stated:
        raise CorruptTable(f"the pages of a Parquet file hold {rows:,} rows, its footer {stated:,}")
    return rows


def _orc(source: Any) -> int:
    # Imported here: it imports pandas if installed, which takes longer than the rest.
    import pyarrow.dataset as ds  # noqa: PLC0415

    check_footer(source)
    fragment = ds.OrcFileFormat().make_fragment(source)
    scanner = fragment.scanner(batch_size=_BATCH_ROWS, batch_readahead=0, use_threads=False)
    try:
        return sum(int(batch.num_rows) for batch in scanner.to_batches())
    except pa.ArrowInvalid as e:
        if "out of range for nanosecond" in str(e):
            raise UnsupportedFeature("ORC timestamps outside the years 1678 to 2261") from e
        raise
