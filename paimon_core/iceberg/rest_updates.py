"""The updates that make an Iceberg REST catalog show a version (Iceberg: `TableMetadata`).

Field ids of Paimon begin at 0, and a catalog gives new tables ids from 1.  So a table is created
with a placeholder schema of id 0, as Java does, and gets Paimon's schemas by updates, with ids from
1.  The partition spec needs its columns at creation: the placeholder has them where their ids come
out right.  That is impossible for the column of id 0: a table with such a key is unpartitioned in
the catalog.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from paimon_core.iceberg.metadata import IcebergMetadata, IcebergSnapshot, snapshot_to_object
from paimon_core.iceberg.schema import SPEC_ID
from paimon_core.names import LARGEST_LONG, location

Update = Mapping[str, object]

_MAIN: Final = "main"
_PLACEHOLDER_ID: Final = 0
_IDS: Final = frozenset({"id", "element-id", "key-id", "value-id"})


@dataclass(frozen=True, slots=True)
class TableChange:
    """A commit to the catalog: what must still hold, and the changes; none if nothing differs."""

    requirements: tuple[Update, ...] = ()
    updates: tuple[Update, ...] = ()


# --- new tables -----------------------------------------------------------------------------------


def new_table(wanted: IcebergMetadata) -> dict[str, object]:
    """Return the request for a table that can get the version by updates."""
    body: dict[str, object] = {"schema": _placeholder(wanted), "properties": {}}
    fields = _spec_fields(wanted)
    if fields:
        body["partition-spec"] = {"spec-id": SPEC_ID, "fields": fields}
    return body


def is_new(current: Mapping[str, Any], wanted: IcebergMetadata) -> bool:
    """Return whether the table has no snapshot and is as `new_table` makes it."""
    schemas = current["schemas"]
    return (
        not current.get("snapshots")
        and len(schemas) == 1
        and _struct(schemas[0]) == _struct(_placeholder(wanted))
        and _has_spec(current, wanted)
    )


def _spec_fields(wanted: IcebergMetadata) -> list[Mapping[str, Any]]:
    """Return the partition fields that the catalog can have."""
    fields: list[Mapping[str, Any]] = list(wanted.partition_specs[0]["fields"])
    return [] if any(f["source-id"] == 0 for f in fields) else fields


def _placeholder(wanted: IcebergMetadata) -> dict[str, Any]:
    sources = {f["source-id"] for f in _spec_fields(wanted)}
    newest = next(s for s in wanted.schemas if s["schema-id"] == wanted.schema_id)
    keys = {f["id"]: f for f in newest["fields"] if f["id"] in sources}
    names = {f["name"] for f in keys.values()}
    fields = [keys.get(i) or _filler(i, names) for i in range(1, max(keys, default=0) + 1)]
    return {"type": "struct", "schema-id": _PLACEHOLDER_ID, "fields": fields}


def _filler(number: int, names: Collection[str]) -> dict[str, object]:
    name = f"f{number}"
    while name in names:
        name = f"_{name}"
    return {"id": number, "name": name, "required": False, "type": "boolean"}


# --- changes --------------------------------------------------------------------------------------


def change_to(
    current: Mapping[str, Any], wanted: IcebergMetadata, properties: Mapping[str, str]
) -> TableChange | None:
    """Return the change that makes a table show the version; None if only a new table can.

    That is so after a rollback, because sequence numbers only rise, and for a table with other
    columns, partitions or snapshots than those that Paimon's table ever had.
    """
    known = {s["snapshot-id"]: s for s in current.get("snapshots") or ()}
    head = head_of(current)
    last = current.get("last-sequence-number", 0)
    if (head or 0) > wanted.snapshot_id or not _has_spec(current, wanted):
        return None
    if any(s.id in known and not _is_same(known[s.id], s) for s in wanted.snapshots):
        return None
    missing = [s for s in wanted.snapshots if s.id not in known and s.id > last]
    if wanted.snapshot_id not in {*known, *(s.id for s in missing)}:
        return None
    schemas = _schemas(current, wanted)
    if schemas is None:
        return None
    updates = [
        *schemas.updates,
        *_snapshot_updates(missing, schemas.ids),
        *_ref_updates(current, wanted),
    ]
    gone = sorted(set(known) - {s.id for s in wanted.snapshots})
    # Iceberg's own server takes one id in each.
    updates += [{"action": "remove-snapshots", "snapshot-ids": [number]} for number in gone]
    had = current.get("properties") or {}
    changed = {k: v for k, v in properties.items() if had.get(k) != v}
    if changed:
        updates.append({"action": "set-properties", "updates": changed})
    if not updates:
        return TableChange()
    requirements: list[Update] = [
        {"type": "assert-table-uuid", "uuid": current["table-uuid"]},
        {"type": "assert-ref-snapshot-id", "ref": _MAIN, "snapshot-id": head},
    ]
    if schemas.updates:
        requirements += [
            {
                "type": "assert-current-schema-id",
                "current-schema-id": current["current-schema-id"],
            },
            {
                "type": "assert-last-assigned-field-id",
                "last-assigned-field-id": current["last-column-id"],
            },
        ]
    return TableChange(tuple(requirements), tuple(updates))


def head_of(current: Mapping[str, Any]) -> int | None:
    """Return the table's current snapshot; None if there is none."""
    found = current.get("current-snapshot-id")
    return None if found in (None, -1) else int(str(found))


def _is_same(known: Mapping[str, Any], wanted: IcebergSnapshot) -> bool:
    """Return whether two snapshots of one id are one: manifest lists have unique names."""
    return location(str(known.get("manifest-list"))) == location(wanted.manifest_list)


def _has_spec(current: Mapping[str, Any], wanted: IcebergMetadata) -> bool:
    specs = [s["fields"] for s in current["partition-specs"] if s["spec-id"] == SPEC_ID]
    expected = [(f["source-id"], f["transform"]) for f in _spec_fields(wanted)]
    return [[(f["source-id"], f["transform"]) for f in fields] for fields in specs] == [expected]


def _snapshot_updates(
    missing: Sequence[IcebergSnapshot], schema_ids: Mapping[int, int]
) -> list[Update]:
    return [
        {
            "action": "add-snapshot",
            "snapshot": snapshot_to_object(replace(s, schema_id=schema_ids[s.schema_id])),
        }
        for s in missing
    ]


def _ref_updates(current: Mapping[str, Any], wanted: IcebergMetadata) -> list[Update]:
    """Return the updates of the main branch, and of tags, which become Paimon's."""
    updates: list[Update] = []
    if head_of(current) != wanted.snapshot_id:
        updates.append(_ref(_MAIN, wanted.snapshot_id, "branch"))
    refs = current.get("refs") or {}
    had = {name: ref["snapshot-id"] for name, ref in refs.items() if ref.get("type") == "tag"}
    tags = {n: i for n, i in wanted.tags.items() if n not in refs.keys() - had.keys() | {_MAIN}}
    updates += [
        _ref(name, number, "tag", **{"max-ref-age-ms": LARGEST_LONG})
        for name, number in sorted(tags.items())
        if had.get(name) != number
    ]
    updates += [
        {"action": "remove-snapshot-ref", "ref-name": name} for name in sorted(had.keys() - tags)
    ]
    return updates


def _ref(name: str, snapshot: int, kind: str, **more: object) -> Update:
    found = {"ref-name": name, "type": kind, "snapshot-id": snapshot}
    return {"action": "set-snapshot-ref", **found, **more}


# --- schemas --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Schemas:
    """The catalog's ids of Paimon's schemas, and the updates that add the missing ones."""

    ids: Mapping[int, int]
    updates: tuple[Update, ...]


def _schemas(current: Mapping[str, Any], wanted: IcebergMetadata) -> _Schemas | None:
    """Return how Paimon's schemas get into the table; None if it has schemas of another table.

    A catalog keeps equal schemas once, and gives a new one the next id.
    """
    known = {s["schema-id"]: _struct(s) for s in current["schemas"]}
    by_struct = {text: number for number, text in sorted(known.items(), reverse=True)}
    ids: dict[int, int] = {}
    updates: list[Update] = []
    last = max(int(current["last-column-id"]), wanted.last_column_id)
    for schema in wanted.schemas:
        struct = _struct(schema)
        if struct not in by_struct:
            by_struct[struct] = number = max(by_struct.values(), default=0) + 1
            last = max(last, _highest_id(schema))
            added = {**schema, "schema-id": number}
            updates.append({"action": "add-schema", "schema": added, "last-column-id": last})
        ids[schema["schema-id"]] = by_struct[struct]
    if known.keys() - {_PLACEHOLDER_ID, *ids.values()}:
        return None
    if ids[wanted.schema_id] != current["current-schema-id"]:
        updates.append({"action": "set-current-schema", "schema-id": ids[wanted.schema_id]})
    return _Schemas(ids, tuple(updates))


def _struct(schema: Mapping[str, Any]) -> str:
    """Return a text that is equal for equal fields, however the catalog writes them."""
    return repr([_field(f) for f in schema["fields"]])


def _field(f: Mapping[str, Any]) -> tuple[object, ...]:
    return f["id"], f["name"], f["required"], _type(f["type"]), f.get("doc")


def _type(found: Any) -> object:
    if isinstance(found, str):
        return found.replace(" ", "")
    match found["type"]:
        case "struct":
            return [_field(f) for f in found["fields"]]
        case "list":
            return found["element-id"], found["element-required"], _type(found["element"])
    return (
        found["key-id"],
        _type(found["key"]),
        found["value-id"],
        found["value-required"],
        _type(found["value"]),
    )


def _highest_id(found: object) -> int:
    """Return the greatest field id in a schema, also in nested types."""
    match found:
        case Mapping():
            own = [v for k, v in found.items() if k in _IDS and isinstance(v, int)]
            return max([0, *own, *(_highest_id(v) for v in found.values())])
        case list() | tuple():
            return max([0, *(_highest_id(v) for v in found)])
    return 0
