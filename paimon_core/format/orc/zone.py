"""The time zone of TIMESTAMP LTZ columns in ORC files.

By default (`orc.timestamp-ltz.legacy.type`), Java Paimon interprets the UTC wall clock of a value
in the JVM's own zone and stores *that* instant; reading reverses this.  A JVM in another zone reads
other values.  Java records its zone in each stripe's footer, so the values can be recovered here
for any zone.  Files written here record their zone in the footer as `caretaker.orc-time-zone`, the
zone of the JVMs that use the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.format.arrow_conversion import with_children
from paimon_core.format.orc.footer import OrcTail, text_of
from paimon_core.types.data_types import DataType, RowType, TypeRoot

ZONE_KEY: Final = b"caretaker.orc-time-zone"
UTC: Final = "UTC"
_SAME_AS_UTC: Final = frozenset({"", "UTC", "GMT", "Z", "Etc/UTC", "Etc/GMT", "Zulu", "UCT"})
_WRITER_ZONE: Final = 3
"""The field of a stripe's footer with the zone of the JVM."""


def file_zone(source: Any) -> str:
    """Return the zone of the file's LTZ columns; "UTC" if they are plain instants."""
    tail = OrcTail(source)
    zone = tail.user_metadata(ZONE_KEY)
    if zone is None:
        first = next(tail.stripes(), None)
        zone = UTC if first is None else text_of(tail.stripe_footer(first), _WRITER_ZONE)
    return UTC if zone in _SAME_AS_UTC else zone


def to_wall_clock(instants: pa.Array, zone: str) -> pa.Array:
    """Convert instants to the zone's wall clock as if it were UTC, as Java reads them.

    Applies to every TIMESTAMP LTZ in the array, at any depth.
    """
    if pa.types.is_nested(instants.type):
        return _deep(instants, lambda a: to_wall_clock(a, zone))
    if not _is_ltz(instants.type):
        return instants
    local = instants.view(pa.timestamp(instants.type.unit, zone))
    return pc.local_timestamp(local).view(instants.type)


def to_instants(values: pa.Array, zone: str) -> pa.Array:
    """Convert values of the zone's wall clock to instants, as Java stores them."""
    if pa.types.is_nested(values.type):
        return _deep(values, lambda a: to_instants(a, zone))
    if not _is_ltz(values.type):
        return values
    naive = values.view(pa.timestamp(values.type.unit))
    instants = pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="earliest")
    return instants.view(values.type)


def has_ltz(t: DataType) -> bool:
    """Return whether the type is or contains TIMESTAMP LTZ."""
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
