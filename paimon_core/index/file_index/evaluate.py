"""Evaluates a predicate with the indexes of a file.

Java: `FileIndexPredicate`, `FileIndexReader`.  The result is the rows that may match, or None if
the indexes give no answer: it may include rows that do not match, but never lacks one that does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any, Final

from pyroaring import BitMap

from paimon_core.errors import UNREADABLE, CorruptTable, PaimonError
from paimon_core.index.file_index.bitmap import BitmapReader
from paimon_core.index.file_index.bloom import BloomReader
from paimon_core.index.file_index.bsi import BsiReader
from paimon_core.index.file_index.container import decode_indexes
from paimon_core.index.file_index.range_bitmap import RangeBitmapReader
from paimon_core.index.file_index.values import (
    is_exact,
    literal,
)
from paimon_core.predicate.nodes import And, Leaf, Op, Or, Predicate
from paimon_core.types.data_types import (
    FLOAT_TYPES,
    AtomicType,
    RowType,
)

Rows = BitMap | None
_Test = Callable[[bytes, AtomicType, Leaf], Rows]

_EQUALITIES: Final = (Op.EQ, Op.IN)
_INEQUALITIES: Final = (Op.NE, Op.NOT_IN)


def rows_that_may_match(index: bytes, predicate: Predicate, file_type: RowType) -> Rows:
    """Return the rows of the file that may match; None for "any", empty to skip the file.

    Raises CorruptTable if an index cannot be decoded.

    `index` is the embedded index or the content of the index file; the predicate uses the fields of
    `file_type`, the schema that the file was written with.
    """
    indexes = decode_indexes(index)

    def of(p: Predicate) -> Rows:
        match p:
            case And(children):
                known = [r for r in map(of, children) if r is not None]
                return reduce(lambda a, b: a & b, known) if known else None
            case Or(children):
                parts = [of(c) for c in children]
                if any(r is None for r in parts):
                    return None
                return reduce(or_, (r for r in parts if r is not None), BitMap())
            case Leaf():
                field = file_type.get(p.field)
                if field is None or not isinstance(field.type, AtomicType):
                    return None
                return _leaf(indexes.get(p.field, {}), field.type, p)

    try:
        return of(predicate)
    except (struct.error, *UNREADABLE) as e:
        if isinstance(e, PaimonError):
            raise
        raise CorruptTable(f"a file index cannot be decoded: {type(e).__name__}: {e}") from e


def _leaf(kinds: dict[str, bytes | None], t: AtomicType, leaf: Leaf) -> Rows:
    result: Rows = None
    for kind, data in kinds.items():
        if data is None:
            return BitMap()  # an index over no rows
        test = _TESTS.get(kind)
        rows = None if test is None else test(data, t, leaf)
        if rows is not None:
            result = rows if result is None else result & rows
    return result


def _bloom(data: bytes, t: AtomicType, leaf: Leaf) -> Rows:
    if leaf.op not in _EQUALITIES:
        return None
    reader = BloomReader(data, t)
    present = any(v is not None and reader.may_contain(v) for v in leaf.literals)
    return None if present else BitMap()


def _bitmap(data: bytes, t: AtomicType, leaf: Leaf) -> Rows:
    reader = BitmapReader(data, t)
    everything = BitMap(range(reader.rows))
    if leaf.op is Op.IS_NULL:
        return reader.null_rows()
    if leaf.op is Op.IS_NOT_NULL:
        return everything - reader.null_rows()
    values = _literals(leaf, t)
    if values is None or leaf.op not in (*_EQUALITIES, *_INEQUALITIES):
        return None
    if leaf.op in _INEQUALITIES and not is_exact(t):
        return None
    rows = reduce(or_, (reader.rows_with(reader.codec.key(v)) for v in values), BitMap())
    return rows if leaf.op in _EQUALITIES else everything - rows - reader.null_rows()


def _bsi(data: bytes, t: AtomicType, leaf: Leaf) -> Rows:
    reader = BsiReader(data, t)
    return _ordered(reader, t, leaf, lambda v: reader.equal([v]), reader.less)


def _range_bitmap(data: bytes, t: AtomicType, leaf: Leaf) -> Rows:
    reader = RangeBitmapReader(data, t)
    key = reader.codec.key
    return _ordered(reader, t, leaf, lambda v: reader.equal(key(v)), lambda v: reader.less(key(v)))


def _ordered(
    reader: BsiReader | RangeBitmapReader,
    t: AtomicType,
    leaf: Leaf,
    equal: Callable[[Any], BitMap],
    less: Callable[[Any], BitMap],
) -> Rows:
    present = reader.present()
    if leaf.op is Op.IS_NULL:
        return BitMap(range(reader.rows)) - present
    if leaf.op is Op.IS_NOT_NULL:
        return present
    values = _literals(leaf, t)
    if values is None or (leaf.op not in _EQUALITIES and not is_exact(t)):
        return None
    match leaf.op:
        case Op.EQ | Op.IN:
            return reduce(or_, map(equal, values), BitMap())
        case Op.NE | Op.NOT_IN:
            return present - reduce(or_, map(equal, values), BitMap())
        case Op.LT:
            return less(values[0])
        case Op.LE:
            return less(values[0]) | equal(values[0])
        case Op.GT:
            return present - less(values[0]) - equal(values[0])
        case Op.GE:
            return present - less(values[0])
        case Op.BETWEEN:
            return (less(values[1]) | equal(values[1])) - less(values[0])
    return None


def _literals(leaf: Leaf, t: AtomicType) -> list[Any] | None:
    """Return the literals in index form; None if one has no such form or is hard to compare."""
    values = []
    for value in leaf.literals:
        if value is None:
            if leaf.op is Op.IN:
                continue
            return None
        if t.kind in FLOAT_TYPES and (value == 0 or value != value):  # noqa: PLR0124 - NaN
            return None
        held = literal(value, t)
        if held is None:
            return None
        values.append(held)
    return values


_TESTS: Final[dict[str, _Test]] = {
    "bloom-filter": _bloom,
    "bitmap": _bitmap,
    "bsi": _bsi,
    "range-bitmap": _range_bitmap,
}
