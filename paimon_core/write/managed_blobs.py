"""Puts the BLOBs of new rows of a primary-key table into packs.

Java: `blob/PrimaryKeyBlobExternalizer`, `ManagedBlobReferenceCollector`.  A pack has the layout of
a BLOB file.  Rows hold descriptors of their ranges, so that merges do not move the BLOBs; beside
each data file, a sidecar names the packs of its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import pyarrow as pa

from paimon_core.environment import Environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.blob.descriptor import BlobDescriptor, dedicated_columns
from paimon_core.format.blob.elements import with_blobs
from paimon_core.format.blob.pack_references import PACK_SUFFIX
from paimon_core.format.blob.reader import MAGIC
from paimon_core.format.blob.writer import BlobFileWriter
from paimon_core.io.file_io import delete_abandoned, named_in_errors
from paimon_core.lsm.merge_engine import is_retract
from paimon_core.options import DATA_FILE_PREFIX, Options
from paimon_core.types.arrow import arrow_type
from paimon_core.write.blob_writer import blob_content, blob_target, check_inline
from paimon_core.write.incoming_rows import Kinds

_LOCAL: Final = "file:"


class BlobPacks:
    """The packs of one bucket; only for tables with a primary key."""

    def __init__(
        self, table: FileStoreTable, partition: bytes, bucket: int, *, env: Environment
    ) -> None:
        schema = table.schema
        managed = dedicated_columns(schema.row_type, schema.options)
        self._options = schema.options
        self._types = {f.name: f.type for f in schema.fields if f.name in managed}
        self._described = dedicated_columns(schema.row_type, Options({})) - managed
        self._packs = {name: _Pack(table, partition, bucket, env=env) for name in self._types}

    def externalized(self, rows: pa.RecordBatch, kinds: Kinds) -> pa.RecordBatch:
        """Return the rows with descriptors in place of BLOBs; those of deletes are null.

        InvalidArgument for a value of `blob-descriptor-field` that is no descriptor.
        """
        for name in self._described:
            check_inline(rows.column(name), name, self._options)
        retract = is_retract(kinds).tolist()
        for name, data_type in self._types.items():
            write = self._packs[name].write
            values = [
                None if gone else with_blobs(_without_repeats(value), write)
                for value, gone in zip(rows.column(name).to_pylist(), retract, strict=True)
            ]
            at = rows.schema.get_field_index(name)
            array = pa.array(values, arrow_type(data_type))
            rows = rows.set_column(at, rows.schema.field(at), array)
        return rows

    def close(self) -> None:
        """Close the packs; `abort` still deletes them."""
        for pack in self._packs.values():
            pack.close()

    def abort(self) -> None:
        """Delete the packs."""
        for pack in self._packs.values():
            pack.abort()


def _without_repeats(value: Any) -> Any:
    """The value; of a map the last value of each key, as in Java."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return list(dict(value).items())
    return value


class _Pack:
    """Writes one pack after the other."""

    def __init__(
        self, table: FileStoreTable, partition: bytes, bucket: int, *, env: Environment
    ) -> None:
        self._io = table.io
        self._content: Callable[[bytes], bytes] = partial(
            blob_content, table.io, table.root, table.schema.options
        )
        self._target = blob_target(table.schema.options, primary_key=True)
        prefix = table.options.value(DATA_FILE_PREFIX)
        self._stem = f"{table.paths.bucket_dir(partition, bucket)}/{prefix}{env.new_uuid()}"
        self._paths: list[str] = []
        self._writer: BlobFileWriter | None = None

    def write(self, value: bytes) -> bytes:
        """Return the descriptor of the bytes in the pack."""
        if self._writer is None:
            path = f"{self._stem}-{len(self._paths)}{PACK_SUFFIX}"
            self._paths.append(path)
            self._writer = BlobFileWriter(self._io.open_output(path), self._content)
        writer = self._writer
        begin = writer.bytes_written() + len(MAGIC)
        with named_in_errors(self._paths[-1]):
            length = writer.add(value)
        descriptor = BlobDescriptor(_uri(self._paths[-1]), begin, length)
        if writer.bytes_written() >= self._target:
            self.close()
        return descriptor.to_bytes()

    def abort(self) -> None:
        if self._writer is not None:
            with suppress(OSError):
                self._writer.abort()
            self._writer = None
        delete_abandoned(self._io, self._paths)
        self._paths = []

    def close(self) -> None:
        if self._writer is not None:
            with named_in_errors(self._paths[-1]):
                self._writer.close()
            self._writer = None


def _uri(path: str) -> str:
    """The path as Java stores it."""
    return path if "://" in path else _LOCAL + path
