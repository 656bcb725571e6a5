"""The time zone that TIMESTAMP LTZ columns of an ORC file are bound to.

By default (`orc.timestamp-ltz.legacy.type`) Java Paimon takes the UTC wall clock of a value for
one of the JVM's own zone, and stores *that* instant; reading, it does the reverse.  A JVM in
another zone reads other values.  Java leaves its zone in each stripe's footer, so the values can
be had back here whatever the zone; files made here say in their footer for which zone they were
made: `caretaker.orc-time-zone`, the zone of the JVMs that use the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import CorruptTable
from paimon_core.format.conform import with_children
from paimon_core.format.orc_streams import decompressed
from paimon_core.format.protobuf import read_fields
from paimon_core.types.data_types import DataType, RowType, TypeRoot

ZONE_KEY: Final = b"caretaker.orc-time-zone"
UTC: Final = "UTC"
_SAME_AS_UTC: Final = frozenset({"", "UTC", "GMT", "Z", "Etc/UTC", "Etc/GMT", "Zulu", "UCT"})
_TAIL: Final = 16 * 1024


def file_zone(source: Any) -> str:
    """The zone that LTZ columns of the file are bound to; "UTC" if they are plain instants."""
    tail = _Tail(source)
    zone = tail.own_zone()
    if zone is None:
        zone = tail.writer_zone()
    return UTC if zone in _SAME_AS_UTC else zone


def to_wall_clock(instants: pa.Array, zone: str) -> pa.Array:
    """The zone's wall clock at these instants, as if it were UTC: what Java reads.

    Applies to every TIMESTAMP LTZ in the array, at any depth.
    """
    if pa.types.is_nested(instants.type):
        return _deep(instants, lambda a: to_wall_clock(a, zone))
    if not _is_ltz(instants.type):
        return instants
    local = instants.view(pa.timestamp(instants.type.unit, zone))
    return pc.local_timestamp(local).view(instants.type)


def to_instants(values: pa.Array, zone: str) -> pa.Array:
    """The instants at which the zone's wall clock shows these values: what Java stores."""
    if pa.types.is_nested(values.type):
        return _deep(values, lambda a: to_instants(a, zone))
    if not _is_ltz(values.type):
        return values
    naive = values.view(pa.timestamp(values.type.unit))
    instants = pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="earliest")
    return instants.view(values.type)


def has_ltz(t: DataType) -> bool:
    """Whether the type is TIMESTAMP LTZ or holds one."""
    if isinstance(t, RowType):
        return any(has_ltz(f) for f in t.types)
    parts = (getattr(t, name, None) for name in ("element", "key", "value"))
    return t.root is TypeRoot.TIMESTAMP_LTZ or any(has_ltz(p) for p in parts if p is not None)


def _is_ltz(t: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(t) and t.tz is not None)


def _deep(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    t = array.type
    if pa.types.is_struct(t):
        children = [change(array.field(i)) for i in range(t.num_fields)]
    elif pa.types.is_map(t):
        children = [change(array.keys), change(array.items)]
    else:
        children = [change(array.values)]
    return with_children(array, t, children)


class _Tail:
    """The footer of an ORC file and that of its first stripe."""

    def __init__(self, source: Any) -> None:
        self._source = source
        size = source.size()
        tail = self._read(max(0, size - _TAIL), min(size, _TAIL))
        if not tail:
            raise CorruptTable("an empty ORC file")
        length = tail[-1]
        end = 1 + length
        if end > len(tail):
            raise CorruptTable("an ORC file is shorter than its postscript")
        postscript = dict(read_fields(tail[-1 - length : -1]))
        self._codec = _number(postscript, 2)
        footer_length = _number(postscript, 1)
        if footer_length > size - end:
            raise CorruptTable(f"an ORC footer of {footer_length:,} bytes in a file of {size:,}")
        if footer_length + end > len(tail):
            tail = self._read(size - footer_length - end, footer_length + end)
        footer = tail[len(tail) - end - footer_length : len(tail) - end]
        self._fields = list(read_fields(decompressed(footer, self._codec)))

    def own_zone(self) -> str | None:
        for item in self._messages(5):
            entry = dict(read_fields(item))
            if entry.get(1) == ZONE_KEY:
                return _text(entry, 2)
        return None

    def writer_zone(self) -> str:
        for message in self._messages(3):
            stripe = dict(read_fields(message))
            start = sum(_number(stripe, field) for field in (1, 2, 3))
            length = _number(stripe, 4)
            if start + length > self._source.size():
                raise CorruptTable("a stripe of an ORC file ends behind the file")
            footer = decompressed(self._read(start, length), self._codec)
            return _text(dict(read_fields(footer)), 3)
        return UTC

    def _messages(self, number: int) -> Iterator[bytes]:
        return (v for field, v in self._fields if field == number and isinstance(v, bytes))

    def _read(self, start: int, size: int) -> bytes:
        self._source.seek(start)
        return bytes(self._source.read(size))


def _number(fields: dict[int, int | bytes], number: int) -> int:
    value = fields.get(number, 0)
    return value if isinstance(value, int) else 0


def _text(fields: dict[int, int | bytes], number: int) -> str:
    value = fields.get(number, b"")
    return value.decode() if isinstance(value, bytes) else ""
