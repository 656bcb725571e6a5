"""Structs survive a round trip with all fields that they do not declare."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.transport.TTransport import TMemoryBuffer

from paimon_core.remote.thrift_struct import (
    BOOL,
    I16,
    I32,
    I64,
    TEXT,
    ListOf,
    MapOf,
    Struct,
    StructOf,
    thrift,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner(Struct):
    text: str | None = thrift(1, TEXT)
    flag: bool | None = thrift(2, BOOL)


_INNER = StructOf(Inner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Newer(Struct):
    """What a newer server knows."""

    name: str | None = thrift(1, TEXT)
    number: int | None = thrift(2, I64)
    small: int | None = thrift(3, I16)
    inner: Inner | None = thrift(4, _INNER)  # noqa: RUF009 - a field
    inners: tuple[Inner, ...] | None = thrift(5, ListOf(_INNER))
    by_name: dict[str, Any] | None = thrift(6, MapOf(TEXT, ListOf(I32)))  # noqa: RUF009
    nested: dict[int, Any] | None = thrift(7, MapOf(I32, MapOf(TEXT, _INNER)))  # noqa: RUF009


@dataclass(frozen=True, slots=True, kw_only=True)
class Older(Struct):
    """What is declared here: two fields, one of them with an older type."""

    name: str | None = thrift(1, TEXT)
    small: str | None = thrift(3, TEXT)


NEWER = Newer(
    name="ä\U0001f600",
    number=-(2**63),
    small=-3,
    inner=Inner(text="", flag=True),
    inners=(Inner(flag=False), Inner()),
    by_name={"a": (1, 2), "": ()},
    nested={7: {"k": Inner(text="deep")}},
)


@pytest.mark.parametrize("protocol", [TBinaryProtocol, TCompactProtocol])
def test_unknown_fields_survive_a_rewrite(protocol: Any) -> None:
    older = Older.read(protocol(TMemoryBuffer(_written(NEWER, protocol))))
    assert older.name == "ä\U0001f600"
    assert older.small is None
    assert {number for number, _, _ in older.unknown} == {2, 3, 4, 5, 6, 7}
    rewritten = _written(replace(older, name="renamed"), protocol)
    assert Newer.read(protocol(TMemoryBuffer(rewritten))) == replace(NEWER, name="renamed")


def test_an_unknown_type_is_an_error() -> None:
    data = b"\x05\x00\x01"
    with pytest.raises(ValueError, match="unknown Thrift type 5"):
        Older.read(TBinaryProtocol(TMemoryBuffer(data)))


def _written(struct: Struct, protocol: Any) -> bytes:
    buffer = TMemoryBuffer()
    struct.write(protocol(buffer))
    return bytes(buffer.getvalue())
