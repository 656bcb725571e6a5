"""The updates that bring a table of an Iceberg REST catalog to a version."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paimon_core.iceberg.metadata import IcebergMetadata, IcebergSnapshot
from paimon_core.iceberg.rest_updates import TableChange, change_to, is_new, new_table


def field(number: int, name: str, kind: Any = "int") -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": kind}


def schema(number: int, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "schema-id": number, "fields": list(fields)}


def snapshot(number: int, schema_id: int = 0, *, of: str = "s") -> IcebergSnapshot:
    return IcebergSnapshot(
        id=number,
        parent_id=number - 1 or None,
        time_millis=number,
        summary={"operation": "append"},
        manifest_list=f"/lake/metadata/snap-1-{of}{number}.avro",
        schema_id=schema_id,
    )


def version(*snapshots: IcebergSnapshot, keys: tuple[int, ...] = ()) -> IcebergMetadata:
    """Of a table (k, f1, p) that is partitioned by the columns of these ids."""
    first = schema(0, field(0, "k"), field(1, "f1"), field(2, "p", "decimal(10, 2)"))
    partition = [
        {"name": "x", "transform": "identity", "source-id": k, "field-id": 1000 + i}
        for i, k in enumerate(keys)
    ]
    return IcebergMetadata(
        format_version=2,
        table_uuid="u",
        location="/lake",
        updated_millis=1,
        last_column_id=2,
        schemas=(first,),
        schema_id=0,
        partition_specs=({"spec-id": 0, "fields": partition},),
        last_partition_id=999 + len(keys),
        snapshots=snapshots,
        snapshot_id=snapshots[-1].id,
        tags={},
    )


def table(wanted: IcebergMetadata) -> dict[str, Any]:
    """What a catalog makes of the request for a new table."""
    made: Any = new_table(wanted)
    spec = made.get("partition-spec", {"spec-id": 0, "fields": []})
    return {
        "table-uuid": "t",
        "schemas": [made["schema"]],
        "current-schema-id": 0,
        "last-column-id": len(made["schema"]["fields"]),
        "partition-specs": [spec],
        "last-sequence-number": 0,
        "current-snapshot-id": -1,
        "snapshots": [],
        "refs": {},
    }


def after(current: dict[str, Any], change: TableChange | None) -> dict[str, Any]:
    """The table after the change, as a catalog that gives out ids makes it."""
    assert change is not None
    found = {**current, "schemas": [*current["schemas"]], "snapshots": [*current["snapshots"]]}
    found["refs"] = dict(current["refs"])
    for u in change.updates:
        update: Any = u
        match update["action"]:
            case "add-schema":
                found["schemas"].append(update["schema"])
                found["last-column-id"] = update["last-column-id"]
            case "set-current-schema":
                assert update["schema-id"] in {s["schema-id"] for s in found["schemas"]}
                found["current-schema-id"] = update["schema-id"]
            case "add-snapshot":
                assert update["snapshot"]["sequence-number"] > found["last-sequence-number"]
                found["snapshots"].append(update["snapshot"])
                found["last-sequence-number"] = update["snapshot"]["sequence-number"]
            case "set-snapshot-ref":
                found["refs"][update["ref-name"]] = update
                if update["ref-name"] == "main":
                    found["current-snapshot-id"] = update["snapshot-id"]
            case "remove-snapshot-ref":
                del found["refs"][update["ref-name"]]
            case "remove-snapshots":
                (gone,) = update["snapshot-ids"]
                found["snapshots"] = [s for s in found["snapshots"] if s["snapshot-id"] != gone]
    return found


@pytest.mark.parametrize("keys", [(), (0,), (2,), (2, 1), (0, 2)])
def test_a_new_table_has_a_placeholder(keys: tuple[int, ...]) -> None:
    wanted = version(snapshot(1), keys=keys)
    made: Any = new_table(wanted)
    fields = made["schema"]["fields"]
    assert [f["id"] for f in fields] == list(range(1, len(fields) + 1))
    assert len({f["name"] for f in fields}) == len(fields)
    sources = [] if 0 in keys else [*keys]
    assert [f["source-id"] for f in made.get("partition-spec", {"fields": []})["fields"]] == sources
    current = table(wanted)
    assert is_new(current, wanted)
    shown = after(current, change_to(current, wanted, {}))
    assert (shown["current-schema-id"], shown["current-snapshot-id"]) == (1, 1)
    assert not is_new(shown, wanted)
    assert change_to(shown, wanted, {}) == TableChange()


def test_schemas_have_javas_ids() -> None:
    """Equal ones are one in the catalog, as after a change of options."""
    wanted = version(snapshot(1), snapshot(2, 3))
    (first,) = wanted.schemas
    later = schema(
        0,
        *first["fields"],
        field(
            3, "m", {"type": "list", "element-id": 9, "element-required": True, "element": "int"}
        ),
    )
    schemas = (
        first,
        {**first, "schema-id": 1},
        {**later, "schema-id": 2},
        {**first, "schema-id": 3},
    )
    wanted = replace(wanted, schemas=schemas, schema_id=3)
    current = table(wanted)
    shown = after(current, change_to(current, wanted, {}))
    assert [s["schema-id"] for s in shown["schemas"]] == [0, 1, 2]
    assert shown["current-schema-id"] == 1
    assert [s["schema-id"] for s in shown["snapshots"]] == [1, 1]
    assert shown["last-column-id"] == 9
    spelled = [
        {
            **s,
            "fields": [
                {**f, "type": "decimal(10,2)"} if f["name"] == "p" else f for f in s["fields"]
            ],
        }
        for s in shown["schemas"]
    ]
    assert change_to({**shown, "schemas": spelled}, wanted, {}) == TableChange()
    foreign = [*shown["schemas"], schema(3, field(1, "other"))]
    assert change_to({**shown, "schemas": foreign}, wanted, {}) is None


def test_snapshots_after_a_gap_and_before_the_retention() -> None:
    """Whatever is newer than the catalog's is added; what Paimon has expired goes."""
    current = table(version(snapshot(1)))
    shown = after(current, change_to(current, version(snapshot(1), snapshot(2)), {}))
    later = version(snapshot(2), snapshot(5), snapshot(6))
    shown = after(shown, change_to(shown, later, {}))
    assert [s["snapshot-id"] for s in shown["snapshots"]] == [2, 5, 6]
    scratch = version(snapshot(9))
    shown = after(shown, change_to(shown, scratch, {}))
    assert [s["snapshot-id"] for s in shown["snapshots"]] == [9]


def test_only_a_new_table_can_go_back() -> None:
    wanted = version(snapshot(1), snapshot(2))
    current = table(wanted)
    shown = after(current, change_to(current, wanted, {}))
    assert change_to(shown, version(snapshot(1)), {}) is None
    other = version(snapshot(1), snapshot(2, of="other"), snapshot(3))
    assert change_to(shown, other, {}) is None
    assert change_to(shown, version(snapshot(3), keys=(2,)), {}) is None
    removed = {**shown, "last-sequence-number": 5}
    assert change_to(removed, version(snapshot(2), snapshot(4)), {}) is None


def test_a_commit_requires_what_was_read() -> None:
    wanted = version(snapshot(1))
    current = table(wanted)
    change = change_to(current, wanted, {"p": "1"})
    assert change is not None
    required = {str(r["type"]): r for r in change.requirements}
    assert required["assert-table-uuid"]["uuid"] == "t"
    assert required["assert-ref-snapshot-id"] == {
        "type": "assert-ref-snapshot-id",
        "ref": "main",
        "snapshot-id": None,
    }
    assert required["assert-current-schema-id"]["current-schema-id"] == 0
    assert required["assert-last-assigned-field-id"]["last-assigned-field-id"] == 0
    assert {"action": "set-properties", "updates": {"p": "1"}} in change.updates


def test_tags_become_paimons_and_branches_stay() -> None:
    wanted = version(snapshot(1), snapshot(2))
    current = table(wanted)
    shown = after(current, change_to(current, replace(wanted, tags={"a": 1, "main": 1}), {}))
    assert {n: r["snapshot-id"] for n, r in shown["refs"].items()} == {"a": 1, "main": 2}
    shown["refs"]["b"] = {"type": "branch", "snapshot-id": 1}
    shown = after(shown, change_to(shown, replace(wanted, tags={"b": 2, "c": 2}), {}))
    assert {n: r["snapshot-id"] for n, r in shown["refs"].items()} == {"b": 1, "c": 2, "main": 2}
