"""Fields of metadata records that this version does not know, carried from file to file.

Paimon adds nullable fields to manifests, manifest lists and index manifests without a new version
number: older readers skip them (Java: `manifest/ManifestSchemaUtils`).  A rewrite must not lose
them, so each value keeps its name, its Avro type and its encoded bytes, and is written again
unchanged at the end of the same record.  Where only some entries of a file have a field, its type
becomes a union with null.

Not carried: fields inside arrays of records, and fields in metadata files that are not Avro.  They
raise UnsupportedFeature instead of being lost.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.format.avro.schema import without_null
from paimon_core.types.data_types import ArrayType, RowType

Path = tuple[str, ...]
"""The names of the records around a field, from the outermost; empty for the record itself."""
Skip = Callable[[bytes, int], int]
"""Returns the position after a value that starts at the given position."""

_NULL: Final = "null"
_FIXED_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


@dataclass(frozen=True, slots=True)
class UnknownField:
    """An unknown field of one record: its declaration in the Avro schema (JSON) and its bytes."""

    path: Path
    name: str
    declaration: str
    data: bytes

    @property
    def has_value(self) -> bool:
        """Return whether the value is not null."""
        branch = _null_branch(_type(self.declaration))
        return branch is None or self.data != branch

    @property
    def full_name(self) -> str:
        return ".".join((*self.path, self.name))

    def below(self, path: Path) -> UnknownField:
        """Return the same field with its record inside the record at `path`."""
        return replace(self, path=(*path, *self.path))


UnknownFields = tuple[UnknownField, ...]


def valued(fields: UnknownFields) -> tuple[str, ...]:
    """Return the full names of the fields with a value."""
    return tuple(f.full_name for f in fields if f.has_value)


def split(fields: UnknownFields, record: str) -> tuple[UnknownFields, UnknownFields]:
    """Return the fields of the nested record with this name, relative to it, and all others."""
    inner = tuple(replace(f, path=f.path[1:]) for f in fields if f.path[:1] == (record,))
    return inner, tuple(f for f in fields if f.path[:1] != (record,))


# --- reading ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnknownReader:
    """Finds the unknown fields of encoded records with one schema."""

    steps: tuple[_Step, ...]

    def read(self, data: bytes, at: int) -> UnknownFields:
        """Return the unknown fields of the record at this position."""
        found: list[UnknownField] = []
        _walk(self.steps, data, at, (), found)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class _Step:
    """A field of a record: its values are skipped, kept, or looked into (`inner`)."""

    name: str
    skip: Skip
    declaration: str | None = None
    inner: tuple[_Step, ...] | None = None
    null: bytes | None = None


def unknown_reader(schema: Any, known: RowType) -> UnknownReader | None:
    """Return a reader for records of this Avro schema; None if all its fields are known.

    Raises UnsupportedFeature for an unknown field in an array of records.
    """
    steps = _steps(schema, known, ())
    return UnknownReader(steps) if _finds_something(steps) else None


def _finds_something(steps: Iterable[_Step]) -> bool:
    return any(
        s.declaration is not None or (s.inner is not None and _finds_something(s.inner))
        for s in steps
    )


def _steps(schema: Any, known: RowType, path: Path) -> tuple[_Step, ...]:
    types = {f.name: f.type for f in known.fields}
    steps = []
    for field in schema["fields"]:
        name, declared = field["name"], field["type"]
        skip = skipper(declared)
        if name not in types:
            steps.append(_Step(name, skip, declaration=json.dumps(field)))
            continue
        match types[name]:
            case RowType() as row:
                record = without_null(declared)
                inner = _steps(record, row, (*path, name)) if _is_record(record) else None
                steps.append(_Step(name, skip, inner=inner, null=_null_branch(declared)))
            case ArrayType(element=RowType() as row):
                _check_elements(declared, row, (*path, name))
                steps.append(_Step(name, skip))
            case _:
                steps.append(_Step(name, skip))
    return tuple(steps)


def _is_record(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "record"


def _check_elements(declared: Any, known: RowType, path: Path) -> None:
    array = without_null(declared)
    element: Any = without_null(array["items"]) if isinstance(array, dict) else {}
    if _is_record(element):
        for name in (f["name"] for f in element["fields"]):
            if name not in known.names:
                raise UnsupportedFeature(f"the metadata field {'.'.join((*path, name))}")


def _walk(
    steps: Sequence[_Step], data: bytes, at: int, path: Path, found: list[UnknownField]
) -> int:
    for step in steps:
        if step.inner is not None:
            if step.null is not None:
                if data.startswith(step.null, at):
                    at += len(step.null)
                    continue
                at = _skip_long(data, at)
            at = _walk(step.inner, data, at, (*path, step.name), found)
            continue
        end = step.skip(data, at)
        if step.declaration is not None:
            found.append(UnknownField(path, step.name, step.declaration, data[at:end]))
        at = end
    return at


# --- writing ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnknownLayout:
    """The unknown fields that a new file declares, and how each entry's values go into it.

    `fields` maps path and name of a field to its declaration there.  `known` is the schema of the
    file without them.
    """

    fields: dict[tuple[Path, str], dict[str, Any]]
    known: Any

    def schema(self) -> Any:
        """Return the Avro schema of the file."""
        extended = copy.deepcopy(self.known)
        for (path, _), declaration in self.fields.items():
            record = extended
            for name in path:
                (field,) = (f for f in record["fields"] if f["name"] == name)
                record = without_null(field["type"])
            record["fields"].append(declaration)
        return extended

    def extended(self, encoded: bytes, fields: UnknownFields) -> bytes:
        """Return an encoded record of the known fields, with the values of the unknown ones."""
        values = {(f.path, f.name): f for f in fields}
        tails: dict[Path, bytes] = {}
        for (path, name), declaration in self.fields.items():
            value = _converted(values.get((path, name)), declaration["type"])
            tails[path] = tails.get(path, b"") + value
        parts: list[bytes] = []
        end = _splice(self.known, encoded, 0, (), tails, parts)
        if end != len(encoded):
            raise ValueError(f"{len(encoded) - end} bytes are left after a metadata record")
        return b"".join(parts)


def unknown_layout(entries: Iterable[UnknownFields], known: Any) -> UnknownLayout | None:
    """Return the layout of a file with these entries; None if no entry has an unknown field.

    Raises UnsupportedFeature for a field that has different types in different entries.
    """
    declared: dict[tuple[Path, str], list[str]] = {}
    count = 0
    counts: dict[tuple[Path, str], int] = {}
    for fields in entries:
        count += 1
        for f in fields:
            key = (f.path, f.name)
            counts[key] = counts.get(key, 0) + 1
            seen = declared.setdefault(key, [])
            if f.declaration not in seen:
                seen.append(f.declaration)
    if not declared:
        return None
    layout: dict[tuple[Path, str], dict[str, Any]] = {}
    for key, texts in declared.items():
        options = [json.loads(t) for t in texts]
        types = [o["type"] for o in options]
        plain = {json.dumps(without_null(t), sort_keys=True) for t in types}
        if len(plain) > 1:
            name = ".".join((*key[0], key[1]))
            raise UnsupportedFeature(f"the metadata field {name} with different types")
        nullable = [o for o in options if _null_branch(o["type"]) is not None]
        if nullable:
            layout[key] = nullable[0]
        elif counts[key] == count:
            layout[key] = options[0]
        else:
            branches = types[0] if isinstance(types[0], list) else [types[0]]
            layout[key] = {**options[0], "type": [_NULL, *branches], "default": None}
    return UnknownLayout(layout, known)


def _converted(field: UnknownField | None, wanted: Any) -> bytes:
    """Return the bytes of the value in the type of the new file."""
    null = _null_branch(wanted)
    if field is None:
        if null is None:
            raise ValueError("a metadata record lacks a field that all others have")
        return null
    has = _type(field.declaration)
    if has == wanted:
        return field.data
    if null is None:
        raise ValueError(f"the metadata field {field.full_name} cannot change its type")
    if not field.has_value:
        return null
    if not isinstance(has, list):
        return _zigzag(wanted.index(has)) + field.data
    start = _skip_long(field.data, 0)
    branch = has[_read_long(field.data, 0)]
    return _zigzag(wanted.index(branch)) + field.data[start:]


def _splice(
    schema: Any, data: bytes, at: int, path: Path, tails: dict[Path, bytes], parts: list[bytes]
) -> int:
    for field in schema["fields"]:
        inner = (*path, field["name"])
        end = skipper(field["type"])(data, at)
        if any(p[: len(inner)] == inner for p in tails):
            null = _null_branch(field["type"])
            if null is None or not data.startswith(null, at):
                start = at if null is None else _skip_long(data, at)
                parts.append(data[at:start])
                _splice(without_null(field["type"]), data, start, inner, tails, parts)
                at = end
                continue
        parts.append(data[at:end])
        at = end
    parts.append(tails.get(path, b""))
    return at


# --- Avro's binary form -------------------------------------------------------------------------


def skipper(schema: Any) -> Skip:
    """Return a function that skips a value of the type (one that `check_schema` accepts)."""
    return _skipper(json.dumps(schema))


@lru_cache(maxsize=1024)
def _skipper(text: str) -> Skip:
    schema = json.loads(text)
    match schema:
        case "int" | "long":
            return _skip_long
        case "bytes" | "string":
            return _skip_bytes
        case str() if schema in _FIXED_SIZES:
            return _skip_fixed(_FIXED_SIZES[schema])
        case list():
            return _skip_branch([skipper(branch) for branch in schema])
        case {"type": "record", "fields": fields}:
            return _skip_all([skipper(f["type"]) for f in fields])
        case {"type": "array", "items": items}:
            return _skip_items(skipper(items))
        case {"type": "map", "values": values}:
            return _skip_items(_skip_all([_skip_bytes, skipper(values)]))
        case {"type": "fixed", "size": size}:
            return _skip_fixed(size)
        case {"type": "enum"}:
            return _skip_long
        case {"type": inner}:
            return skipper(inner)
    raise UnsupportedFeature(f"the Avro type {text} in metadata")


def _skip_long(data: bytes, at: int) -> int:
    while data[at] & 0x80:
        at += 1
    return at + 1


def _read_long(data: bytes, at: int) -> int:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)
        at += 1
        shift += 7


def _skip_bytes(data: bytes, at: int) -> int:
    size = _read_long(data, at)
    end = _skip_long(data, at) + size
    if size < 0 or end > len(data):
        raise IndexError(f"a value of {size} bytes at {at} of {len(data)} bytes")
    return end


def _skip_fixed(size: int) -> Skip:
    def skip(data: bytes, at: int) -> int:
        if at + size > len(data):
            raise IndexError(f"a value of {size} bytes at {at} of {len(data)} bytes")
        return at + size

    return skip


def _skip_all(skips: Sequence[Skip]) -> Skip:
    def skip(data: bytes, at: int) -> int:
        for each in skips:
            at = each(data, at)
        return at

    return skip


def _skip_branch(branches: Sequence[Skip]) -> Skip:
    def skip(data: bytes, at: int) -> int:
        branch = _read_long(data, at)
        if not 0 <= branch < len(branches):
            raise IndexError(f"branch {branch} of a union of {len(branches)} types")
        return branches[branch](data, _skip_long(data, at))

    return skip


def _skip_items(item: Skip) -> Skip:
    def skip(data: bytes, at: int) -> int:
        while True:
            count = _read_long(data, at)
            at = _skip_long(data, at)
            if count == 0:
                return at
            if count < 0:  # the size in bytes follows
                at = _skip_long(data, at)
            for _ in range(abs(count)):
                at = item(data, at)

    return skip


def _zigzag(value: int) -> bytes:
    return bytes((value << 1,))  # unions have less than 64 branches


@lru_cache(maxsize=1024)
def _type(declaration: str) -> Any:
    return json.loads(declaration)["type"]


def _null_branch(schema: Any) -> bytes | None:
    """Return the encoded null of a type; None if it has no null."""
    if schema == _NULL:
        return b""
    if isinstance(schema, list) and _NULL in schema:
        return _zigzag(schema.index(_NULL))
    return None


def tail_of(schema: Any, known: Any, path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the fields after the known ones at the end of the last record of each level.

    With path and declaration, in the order of their bytes.  Raises ValueError if the schemas differ
    in anything else.
    """
    if not (_is_record(schema) and _is_record(known)):
        raise ValueError("not a record")
    expected, found = known["fields"], schema["fields"]
    *first, last = expected
    if found[: len(first)] != first or len(found) < len(expected):
        raise ValueError("another layout")
    if found[len(first)] != last:
        if not _is_record(last["type"]) or found[len(first)]["name"] != last["name"]:
            raise ValueError("another layout")
        yield from tail_of(found[len(first)]["type"], last["type"], (*path, last["name"]))
    for field in found[len(expected) :]:
        yield path, field
