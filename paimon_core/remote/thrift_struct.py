"""Thrift structs as frozen dataclasses, which keep the fields that they do not declare.

A struct that is read from a newer server and written back, as Hive's `alter_table` does with a
whole table, must not lose what this version does not know.  Generated code drops such fields.
Thrift's protocols carry the type of each field, so they can be read and written without a
declaration.

::

    class FieldSchema(Struct):
        name: str | None = thrift(1, TEXT)

The protocol is one of Apache Thrift's (`thrift.protocol`).  Values that are None are not written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Protocol, Self

_STOP: Final = 0
_BOOL: Final = 2
_I16: Final = 6
_I32: Final = 8
_I64: Final = 10
_STRING: Final = 11
_STRUCT: Final = 12
_MAP: Final = 13
_SET: Final = 14
_LIST: Final = 15
_PLAIN: Final[Mapping[int, str]] = {
    _BOOL: "Bool",
    3: "Byte",
    4: "Double",
    _I16: "I16",
    _I32: "I32",
    _I64: "I64",
    _STRING: "Binary",
}
"""Protocol methods by type code: `readBool`, `writeBool`, ..."""


class Wire(Protocol):
    """How a value is read and written."""

    @property
    def code(self) -> int:
        """The type code of Thrift."""

    def read(self, protocol: Any) -> Any:
        """The next value."""

    def write(self, protocol: Any, value: Any) -> None:
        """Write the value."""


@dataclass(frozen=True, slots=True)
class _Plain:
    code: int
    name: str

    def read(self, protocol: Any) -> Any:
        return getattr(protocol, f"read{self.name}")()

    def write(self, protocol: Any, value: Any) -> None:
        getattr(protocol, f"write{self.name}")(value)


BOOL: Final[Wire] = _Plain(_BOOL, "Bool")
I16: Final[Wire] = _Plain(_I16, "I16")
I32: Final[Wire] = _Plain(_I32, "I32")
I64: Final[Wire] = _Plain(_I64, "I64")
TEXT: Final[Wire] = _Plain(_STRING, "String")


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list, as a tuple."""

    element: Wire
    code: int = _LIST

    def read(self, protocol: Any) -> tuple[Any, ...]:
        _, size = protocol.readListBegin()
        found = tuple(self.element.read(protocol) for _ in range(size))
        protocol.readListEnd()
        return found

    def write(self, protocol: Any, value: Sequence[Any]) -> None:
        protocol.writeListBegin(self.element.code, len(value))
        for element in value:
            self.element.write(protocol, element)
        protocol.writeListEnd()


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map, as a dict."""

    key: Wire
    value: Wire
    code: int = _MAP

    def read(self, protocol: Any) -> dict[Any, Any]:
        _, _, size = protocol.readMapBegin()
        found = {}
        for _ in range(size):
            key = self.key.read(protocol)
            found[key] = self.value.read(protocol)
        protocol.readMapEnd()
        return found

    def write(self, protocol: Any, value: Mapping[Any, Any]) -> None:
        protocol.writeMapBegin(self.key.code, self.value.code, len(value))
        for key, element in value.items():
            self.key.write(protocol, key)
            self.value.write(protocol, element)
        protocol.writeMapEnd()


@dataclass(frozen=True, slots=True)
class StructOf:
    """A struct of this class."""

    cls: type[Struct]
    code: int = _STRUCT

    def read(self, protocol: Any) -> Struct:
        return self.cls.read(protocol)

    def write(self, protocol: Any, value: Struct) -> None:
        value.write(protocol)


def thrift(number: int, wire: Wire) -> Any:
    """A dataclass field with its number in the interface definition; None if it is not set."""
    return field(default=None, metadata={"thrift": (number, wire)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    """Base of all structs; `unknown` holds undeclared fields as (number, type code, value)."""

    unknown: tuple[tuple[int, int, Any], ...] = field(default=(), repr=False)

    @classmethod
    def read(cls, protocol: Any) -> Self:
        """The next struct."""
        declared = _declared(cls)
        values: dict[str, Any] = {}
        unknown = []
        protocol.readStructBegin()
        while True:
            _, code, number = protocol.readFieldBegin()
            if code == _STOP:
                break
            name, wire = declared.get(number, ("", None))
            if wire is not None and wire.code == code:
                values[name] = wire.read(protocol)
            else:
                unknown.append((number, code, _read_any(protocol, code)))
            protocol.readFieldEnd()
        protocol.readStructEnd()
        return cls(unknown=tuple(unknown), **values)

    def write(self, protocol: Any) -> None:
        """Write the struct with its unknown fields."""
        protocol.writeStructBegin(type(self).__name__)
        for number, (name, wire) in _declared(type(self)).items():
            value = getattr(self, name)
            if value is not None:
                protocol.writeFieldBegin(name, wire.code, number)
                wire.write(protocol, value)
                protocol.writeFieldEnd()
        for number, code, value in self.unknown:
            protocol.writeFieldBegin("", code, number)
            _write_any(protocol, code, value)
            protocol.writeFieldEnd()
        protocol.writeFieldStop()
        protocol.writeStructEnd()


_DECLARED: Final[dict[Any, dict[int, tuple[str, Wire]]]] = {}


def _declared(cls: type[Struct]) -> dict[int, tuple[str, Wire]]:
    known = _DECLARED.get(cls)
    if known is not None:
        return known
    found: dict[int, tuple[str, Wire]] = {}
    for declared in fields(cls):
        if "thrift" in declared.metadata:
            number, wire = declared.metadata["thrift"]
            found[number] = (declared.name, wire)
    _DECLARED[cls] = found
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Undeclared(Struct):
    pass


def _read_any(protocol: Any, code: int) -> Any:
    """A value by its type code alone, in the form that `_write_any` takes."""
    if code in _PLAIN:
        return getattr(protocol, f"read{_PLAIN[code]}")()
    if code == _STRUCT:
        return _Undeclared.read(protocol)
    if code == _MAP:
        key, value, size = protocol.readMapBegin()
        pairs = [(_read_any(protocol, key), _read_any(protocol, value)) for _ in range(size)]
        protocol.readMapEnd()
        return key, value, pairs
    if code in (_SET, _LIST):
        kind = "Set" if code == _SET else "List"
        element, size = getattr(protocol, f"read{kind}Begin")()
        elements = [_read_any(protocol, element) for _ in range(size)]
        getattr(protocol, f"read{kind}End")()
        return element, elements
    raise ValueError(f"unknown Thrift type {code}")


def _write_any(protocol: Any, code: int, value: Any) -> None:
    if code in _PLAIN:
        getattr(protocol, f"write{_PLAIN[code]}")(value)
    elif code == _STRUCT:
        value.write(protocol)
    elif code == _MAP:
        key_code, value_code, pairs = value
        protocol.writeMapBegin(key_code, value_code, len(pairs))
        for key, element in pairs:
            _write_any(protocol, key_code, key)
            _write_any(protocol, value_code, element)
        protocol.writeMapEnd()
    else:
        kind = "Set" if code == _SET else "List"
        element_code, elements = value
        getattr(protocol, f"write{kind}Begin")(element_code, len(elements))
        for element in elements:
            _write_any(protocol, element_code, element)
        getattr(protocol, f"write{kind}End")()
