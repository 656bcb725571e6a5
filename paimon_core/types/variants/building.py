"""Builds VARIANT values: of JSON, of others, of shredded parts (Java: `GenericVariantBuilder`).

A value is two byte strings: `metadata` holds the dictionary of the keys of all objects, `value` the
data, whose first byte is a type of two bits and a header of six::

    0 primitive   header: kind            fixed bytes, or a length and bytes
    1 short text  header: length          UTF-8
    2 object      header: widths          count, key ids in the order of the keys, offsets, values
    3 array       header: widths          count, offsets, values

Integers are little endian.  Internally a value is the pair `(value, metadata)`, in Arrow a struct
of these two binary fields.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from paimon_core.errors import CorruptTable
from paimon_core.types.variants.parts import METADATA, TYPED_VALUE, VALUE

_VERSION: Final = 1
_LONGEST_SHORT_TEXT: Final = 63
_LARGE: Final = 255
_MOST_BYTES: Final = 128 * 1024**2
_PRIMITIVE, _SHORT_TEXT, _OBJECT, _ARRAY = range(4)
_NULL, _TRUE, _FALSE, _INT1, _INT2, _INT4, _INT8, _DOUBLE = range(8)
_DECIMAL4, _DECIMAL8, _DECIMAL16, _DATE, _TIMESTAMP, _TIMESTAMP_NTZ = range(8, 14)
_FLOAT, _BINARY, _TEXT, _UUID = 14, 15, 16, 20
_WIDTHS: Final = {
    **dict.fromkeys((_NULL, _TRUE, _FALSE), 1),
    _INT1: 2,
    _INT2: 3,
    _INT4: 5,
    _INT8: 9,
    _DATE: 5,
    _FLOAT: 5,
    _DOUBLE: 9,
    _TIMESTAMP: 9,
    _TIMESTAMP_NTZ: 9,
    _DECIMAL4: 6,
    _DECIMAL8: 10,
    _DECIMAL16: 18,
    _UUID: 17,
}
_DECIMALS: Final = ((_DECIMAL4, 9, 4), (_DECIMAL8, 18, 8), (_DECIMAL16, 38, 16))

Variant = tuple[bytes, bytes]
"""`value` and `metadata`."""


def corrupt(reason: str) -> CorruptTable:
    """Return the error for a value that is not a valid VARIANT."""
    return CorruptTable(f"a VARIANT value is damaged: {reason}")


# --- building -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Keys:
    """The keys of the objects of one value, in the order in which they were added."""

    ids: dict[str, int] = field(default_factory=dict)

    def add(self, key: str) -> int:
        """Return the id of a key."""
        return self.ids.setdefault(key, len(self.ids))

    def metadata(self) -> bytes:
        """Return the dictionary as stored."""
        texts = [key.encode() for key in self.ids]
        size = sum(map(len, texts))
        if size > _MOST_BYTES:
            raise corrupt("its keys are longer than 128 MiB")
        width = _width(max(size, len(texts)))
        offsets = [0]
        for text in texts:
            offsets.append(offsets[-1] + len(text))
        parts = [bytes([_VERSION | (width - 1) << 6]), len(texts).to_bytes(width, "little")]
        parts += [o.to_bytes(width, "little") for o in offsets]
        return b"".join(parts + texts)


def primitive(kind: int, content: bytes = b"") -> bytes:
    """Return a primitive value."""
    return bytes([kind << 2 | _PRIMITIVE]) + content


def null_value() -> bytes:
    return primitive(_NULL)


def boolean_value(value: bool) -> bytes:  # noqa: FBT001 - the one thing it takes
    return primitive(_TRUE if value else _FALSE)


def integer_value(value: int) -> bytes:
    """Return an integer in the fewest bytes."""
    for kind, size in ((_INT1, 1), (_INT2, 2), (_INT4, 4), (_INT8, 8)):
        if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1:
            return primitive(kind, value.to_bytes(size, "little", signed=True))
    raise ValueError(f"{value} does not fit 64 bits")


def float_value(value: float) -> bytes:
    return primitive(_FLOAT, struct.pack("<f", value))


def double_value(value: float) -> bytes:
    return primitive(_DOUBLE, struct.pack("<d", value))


def decimal_value(value: Decimal) -> bytes:
    """Return a decimal with its own scale, in the fewest bytes."""
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    scale = -int(exponent)
    if scale < 0:
        unscaled, scale = unscaled * 10**-scale, 0
    for kind, precision, size in _DECIMALS:
        if scale <= precision and len(str(abs(unscaled))) <= precision:
            content = bytes([scale]) + unscaled.to_bytes(size, "little", signed=True)
            return primitive(kind, content)
    raise ValueError(f"{value} has more than 38 digits")


def date_value(days: int) -> bytes:
    return primitive(_DATE, days.to_bytes(4, "little", signed=True))


def binary_value(value: bytes) -> bytes:
    return primitive(_BINARY, len(value).to_bytes(4, "little") + value)


def text_value(value: str) -> bytes:
    content = value.encode()
    if len(content) > _LONGEST_SHORT_TEXT:
        return primitive(_TEXT, len(content).to_bytes(4, "little") + content)
    return bytes([len(content) << 2 | _SHORT_TEXT]) + content


def object_value(fields: Iterable[tuple[str, bytes]], keys: Keys) -> bytes:
    """Return an object; CorruptTable if a key comes twice."""
    named = [(key, keys.add(key), content) for key, content in fields]
    offsets: dict[str, int] = {}
    end = 0
    for key, _, content in named:
        if key in offsets:
            raise corrupt(f"an object has the key {key!r} twice")
        offsets[key] = end
        end += len(content)
    _check_size(end)
    ordered = sorted(named, key=lambda entry: entry[0].encode("utf-16-be", "surrogatepass"))
    id_width = _width(max((i for _, i, _ in named), default=0))
    width = _width(end)
    large = len(named) > _LARGE
    header = (large << 4 | (id_width - 1) << 2 | width - 1) << 2 | _OBJECT
    parts = [bytes([header]), len(named).to_bytes(4 if large else 1, "little")]
    parts += [i.to_bytes(id_width, "little") for _, i, _ in ordered]
    parts += [offsets[key].to_bytes(width, "little") for key, _, _ in ordered]
    parts.append(end.to_bytes(width, "little"))
    return b"".join(parts + [content for _, _, content in named])


def array_value(elements: Sequence[bytes]) -> bytes:
    offsets = [0]
    for element in elements:
        offsets.append(offsets[-1] + len(element))
    _check_size(offsets[-1])
    width = _width(offsets[-1])
    large = len(elements) > _LARGE
    parts = [bytes([(large << 2 | width - 1) << 2 | _ARRAY])]
    parts.append(len(elements).to_bytes(4 if large else 1, "little"))
    parts += [o.to_bytes(width, "little") for o in offsets]
    return b"".join([*parts, *elements])


def _check_size(size: int) -> None:
    if size > _MOST_BYTES:
        raise corrupt("it is larger than 128 MiB")


def _width(number: int) -> int:
    return max(1, (number.bit_length() + 7) // 8)


def variant_of_json(text: str) -> Variant:
    """Return the value of a JSON text; ValueError if it is not JSON.

    As in Java, a number with a fraction is a decimal if it fits 38 digits without an exponent.
    """
    keys = Keys()
    decoded = json.loads(text, parse_float=_Number, parse_constant=_no_constant)
    return _of_python(decoded, keys), keys.metadata()


class _Number(str):
    """The text of a number with a fraction or an exponent."""

    __slots__ = ()


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _of_python(value: Any, keys: Keys) -> bytes:
    if value is None:
        return null_value()
    if isinstance(value, bool):
        return boolean_value(value)
    if isinstance(value, int):
        if value.bit_length() < 64:
            return integer_value(value)
        return _number(_Number(value))
    if isinstance(value, _Number):
        return _number(value)
    if isinstance(value, str):
        return text_value(value)
    if isinstance(value, list):
        return array_value([_of_python(v, keys) for v in value])
    # Java adds a key before its value.
    fields = []
    for key, content in value.items():
        keys.add(key)
        fields.append((key, _of_python(content, keys)))
    return object_value(fields, keys)


def _number(text: _Number) -> bytes:
    if "e" not in text.lower():
        number = Decimal(text)
        try:
            return decimal_value(number)
        except ValueError:
            pass
    return double_value(float(text))


# --- reading ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Reader:
    """Reads one value.  Every method raises CorruptTable for a damaged one.

    Each part of a value takes at least one byte, so that more parts than bytes mean offsets that
    point to the same parts again and again.
    """

    value: bytes
    dictionary: bytes
    _left: int = 0

    def __post_init__(self) -> None:
        self._left = len(self.value)

    def key(self, key_id: int) -> str:
        """Return the key of this id."""
        data = self.dictionary
        if not data or data[0] & 15 != _VERSION:
            raise corrupt("its metadata has an unknown version")
        width = (data[0] >> 6) + 1
        count = self._integer(data, 1, width)
        if key_id >= count:
            raise corrupt("it has a key that is not in its metadata")
        start = self._integer(data, 1 + width * (1 + key_id), width)
        end = self._integer(data, 1 + width * (2 + key_id), width)
        first = 1 + width * (2 + count)
        if start > end or first + end > len(data):
            raise corrupt("a key is outside its metadata")
        return data[first + start : first + end].decode("utf-8", "replace")

    def fields(self, at: int) -> list[tuple[str, int]]:
        """Return the keys and positions of the fields of the object at this position."""
        header = self._byte(at) >> 2
        size_width = 4 if header >> 4 & 1 else 1
        count = self._integer(self.value, at + 1, size_width)
        id_width, width = (header >> 2 & 3) + 1, (header & 3) + 1
        ids = at + 1 + size_width
        offsets = ids + count * id_width
        data = offsets + (count + 1) * width
        self._check(data)
        return [
            (
                self.key(self._integer(self.value, ids + i * id_width, id_width)),
                data + self._integer(self.value, offsets + i * width, width),
            )
            for i in range(count)
        ]

    def elements(self, at: int) -> list[int]:
        """Return the positions of the elements of the array at this position."""
        header = self._byte(at) >> 2
        size_width = 4 if header >> 2 & 1 else 1
        count = self._integer(self.value, at + 1, size_width)
        width = (header & 3) + 1
        offsets = at + 1 + size_width
        data = offsets + (count + 1) * width
        self._check(data)
        return [data + self._integer(self.value, offsets + i * width, width) for i in range(count)]

    def is_object(self, at: int) -> bool:
        return self._byte(at) & 3 == _OBJECT

    def copied(self, at: int, keys: Keys) -> bytes:
        """Return the part at this position, with the ids of other keys."""
        self._visit()
        match self._byte(at) & 3:
            case 2:
                fields = []
                for key, position in self.fields(at):
                    keys.add(key)
                    fields.append((key, self.copied(position, keys)))
                return object_value(fields, keys)
            case 3:
                return array_value([self.copied(p, keys) for p in self.elements(at)])
            case _:
                return self._scalar(at)

    def _visit(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise corrupt("its offsets overlap")

    def _scalar(self, at: int) -> bytes:
        head = self._byte(at)
        if head & 3 == _SHORT_TEXT:
            size = 1 + (head >> 2)
        elif head >> 2 in (_BINARY, _TEXT):
            size = 5 + self._integer(self.value, at + 1, 4)
        else:
            width = _WIDTHS.get(head >> 2)
            if width is None:
                raise corrupt(f"it has a primitive of the unknown kind {head >> 2}")
            size = width
        self._check(at + size)
        return self.value[at : at + size]

    def _byte(self, at: int) -> int:
        self._check(at + 1)
        return self.value[at]

    def _check(self, end: int) -> None:
        if end > len(self.value):
            raise corrupt("a part is outside of it")

    @staticmethod
    def _integer(data: bytes, at: int, width: int) -> int:
        content = data[at : at + width]
        if len(content) < width:
            raise corrupt("it ends too early")
        return int.from_bytes(content, "little")


# --- shredded values ----------------------------------------------------------------------------


def assembled(row: Mapping[str, Any]) -> Variant:
    """Return the value of a shredded row: `metadata`, `value` and `typed_value`.

    Java: `ShreddingUtils.rebuild`.  `typed_value` has Python values as Arrow returns them: dicts of
    such rows for objects, lists of such rows for arrays.  CorruptTable if the parts do not fit.
    """
    metadata = row.get(METADATA)
    if metadata is None:
        raise corrupt("it has no metadata")
    if row.get(TYPED_VALUE) is None:
        value = row.get(VALUE)
        if value is None:
            raise corrupt("it has no value")
        return value, metadata
    keys = Keys()
    try:
        return _assembled(row, metadata, keys), keys.metadata()
    except RecursionError as e:
        raise corrupt("it is nested too deeply") from e


def _assembled(row: Mapping[str, Any] | None, metadata: bytes, keys: Keys) -> bytes:
    if row is None:
        raise corrupt("a shredded part is null")
    typed, value = row.get(TYPED_VALUE), row.get(VALUE)
    if typed is None:
        if value is None:
            raise corrupt("a shredded part is missing")
        return Reader(value, metadata).copied(0, keys)
    if isinstance(typed, dict):
        fields = []
        for key, part in typed.items():
            if part is None:
                raise corrupt("a shredded field is null")
            if part.get(TYPED_VALUE) is not None or part.get(VALUE) is not None:
                keys.add(key)
                fields.append((key, _assembled(part, metadata, keys)))
        if value is not None:
            rest = Reader(value, metadata)
            if not rest.is_object(0):
                raise corrupt("the rest of a shredded object is not an object")
            for key, at in rest.fields(0):
                if key in typed:
                    raise corrupt(f"the shredded field {key!r} is stored twice")
                keys.add(key)
                fields.append((key, rest.copied(at, keys)))
        return object_value(fields, keys)
    if isinstance(typed, list):
        return array_value([_assembled(part, metadata, keys) for part in typed])
    return _typed_scalar(typed)


@dataclass(frozen=True, slots=True)
class Float:
    """A FLOAT, which Python does not distinguish from a DOUBLE."""

    value: float


@dataclass(frozen=True, slots=True)
class Days:
    """A DATE, as days since 1970-01-01."""

    value: int


def _typed_scalar(typed: Any) -> bytes:
    match typed:
        case bool():
            return boolean_value(typed)
        case int():
            return integer_value(typed)
        case float():
            return double_value(typed)
        case Float():
            return float_value(typed.value)
        case Days():
            return date_value(typed.value)
        case Decimal():
            return decimal_value(typed)
        case str():
            return text_value(typed)
        case _:
            return binary_value(typed)
