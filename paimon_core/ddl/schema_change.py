"""Changes of a schema as values (Java: `schema/SchemaChange`).

A nested column is named by its path, ("address", "street"); the element of an array and the value
of a map take one step each, with any name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from paimon_core.errors import InvalidArgument
from paimon_core.types.data_types import DataType
from paimon_core.types.sql import parse_type

Path = tuple[str, ...]


class Place(StrEnum):
    FIRST = "first"
    LAST = "last"
    AFTER = "after"
    BEFORE = "before"


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a column; `reference` is the adjacent column for AFTER and BEFORE."""

    place: Place
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class SetOption:
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveOption:
    key: str


@dataclass(frozen=True, slots=True)
class UpdateTableComment:
    comment: str | None


@dataclass(frozen=True, slots=True)
class AddColumn:
    path: Path
    type: DataType
    description: str | None = None
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class RenameColumn:
    path: Path
    new_name: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    path: Path


@dataclass(frozen=True, slots=True)
class UpdateColumnType:
    """With `keep_nullability`, only the type itself changes, not its nullability."""

    path: Path
    type: DataType
    keep_nullability: bool = True


@dataclass(frozen=True, slots=True)
class UpdateColumnNullability:
    path: Path
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateColumnComment:
    path: Path
    description: str | None


@dataclass(frozen=True, slots=True)
class UpdateColumnDefault:
    path: Path
    default_value: str | None


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Move a column, or a field among those of the struct at the path `parent`.

    Java moves columns of the table only: its `Move` has one name.
    """

    name: str
    position: Position
    parent: Path = ()


@dataclass(frozen=True, slots=True)
class DropPrimaryKey:
    """Make it a table without primary key; only while it is empty."""


SchemaChange = (
    SetOption
    | RemoveOption
    | UpdateTableComment
    | AddColumn
    | RenameColumn
    | DropColumn
    | UpdateColumnType
    | UpdateColumnNullability
    | UpdateColumnComment
    | UpdateColumnDefault
    | MoveColumn
    | DropPrimaryKey
)


def change_from_object(obj: Mapping[str, object]) -> SchemaChange:
    """Build the change of a JSON object: {"change": "add_column", "name": "a.b", ...}.

    The change kinds are those of the conformance tests (set_option, remove_option, add_column,
    drop_column, rename_column, update_type, update_nullability, update_comment, update_default,
    update_position, update_table_comment, drop_primary_key).  Raises InvalidArgument for any other.
    """
    kind = obj.get("change")
    try:
        return _read(str(kind), obj)
    except KeyError as e:
        raise InvalidArgument(f"the schema change {kind!r} needs {e}") from e


def _read(kind: str, obj: Mapping[str, object]) -> SchemaChange:
    path = tuple(str(obj.get("name", "")).split("."))
    match kind:
        case "set_option":
            return SetOption(str(obj["key"]), str(obj["value"]))
        case "remove_option":
            return RemoveOption(str(obj["key"]))
        case "update_table_comment":
            return UpdateTableComment(_text(obj["comment"]))
        case "add_column":
            data_type = parse_type(str(obj["type"]))
            return AddColumn(path, data_type, _text(obj.get("comment")), _position(obj))
        case "drop_column":
            return DropColumn(path)
        case "rename_column":
            return RenameColumn(path, str(obj["to"]))
        case "update_type":
            keep = bool(obj.get("keep_nullability", True))
            return UpdateColumnType(path, parse_type(str(obj["type"])), keep)
        case "update_nullability":
            return UpdateColumnNullability(path, bool(obj["nullable"]))
        case "update_comment":
            return UpdateColumnComment(path, _text(obj["comment"]))
        case "update_default":
            return UpdateColumnDefault(path, _text(obj["default"]))
        case "update_position":
            position = _position(obj)
            if position is None:
                raise KeyError("first, last, after or before")
            return MoveColumn(path[-1], position, path[:-1])
        case "drop_primary_key":
            return DropPrimaryKey()
    raise InvalidArgument(f"unknown schema change {kind!r}")


def _position(obj: Mapping[str, object]) -> Position | None:
    for place in (Place.FIRST, Place.LAST):
        if obj.get(place.value):
            return Position(place)
    for place in (Place.AFTER, Place.BEFORE):
        if obj.get(place.value) is not None:
            return Position(place, str(obj[place.value]))
    return None


def _text(value: object) -> str | None:
    return None if value is None else str(value)
