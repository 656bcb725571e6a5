"""Counts the rows of a data file from its footer or block headers."""

from __future__ import annotations

from pyarrow import orc

from paimon_core.format.avro.container import Container
from paimon_core.format.blob.reader import read_index
from paimon_core.format.data_format import decoding, open_data_file
from paimon_core.format.orc.footer import check_footer
from paimon_core.format.parquet.footer import read_footer
from paimon_core.io.file_io import FileIO


def count_rows(io: FileIO, path: str) -> int | None:
    """The number of rows in the file; None for a format without a cheap count.

    FileNotFoundError if it does not exist, CorruptTable if it is not valid in its format.
    """
    extension = path.rpartition(".")[2].removeprefix("cc-")
    if extension not in ("parquet", "orc", "avro", "blob"):
        return None
    with decoding(path), open_data_file(io, path) as source:
        if extension == "parquet":
            return int(read_footer(source).num_rows)
        if extension == "avro":
            return Container(source).row_count()
        if extension == "blob":
            return len(read_index(source).lengths)
        check_footer(source)
        return int(orc.ORCFile(source).nrows)
