"""Adds fields to the records of an Avro metadata file, as a newer version of Paimon would."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro

from paimon_core.format.avro.container import Container
from paimon_core.manifest.avro_codec import read_records


def add_fields(
    path: Path,
    fields: dict[str, tuple[Any, Any]],
    *,
    record: tuple[str, ...] = (),
    first: bool = False,
    change: Callable[[list[dict[str, Any]]], None] | None = None,
) -> bytes:
    """The content of the file with more fields in each record, or in a record inside it.

    `fields` maps a name to its Avro type and its value.  They come last, or `first`.  `change` may
    change the records first.
    """
    with path.open("rb") as f:
        container = Container(f)
        schema, records = copy.deepcopy(container.schema), list(read_records(container))
    if change is not None:
        change(records)
    target, places = schema, records
    for name in record:
        target = next(f for f in target["fields"] if f["name"] == name)["type"]
        target = next(t for t in target if t != "null") if isinstance(target, list) else target
        places = [p[name] for p in places if p[name] is not None]
    new = [{"name": name, "type": t} for name, (t, _) in fields.items()]
    target["fields"] = [*new, *target["fields"]] if first else [*target["fields"], *new]
    for place in places:
        place |= {name: value for name, (_, value) in fields.items()}
    out = BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), records, codec="deflate")
    return out.getvalue()


def tell_sizes(root: Path) -> None:
    """Make the manifest lists and snapshots of a table say the sizes that their files have now."""
    folder = root / "manifest"

    def with_sizes(records: list[dict[str, Any]]) -> None:
        for record in records:
            record["_FILE_SIZE"] = (folder / record["_FILE_NAME"]).stat().st_size

    for path in folder.glob("manifest-list-*"):
        path.write_bytes(add_fields(path, {}, change=with_sizes))
    for path in root.rglob("snapshot-*"):
        told = json.loads(path.read_text())
        named = {k: v for k, v in told.items() if k.endswith("ManifestList")}
        sizes = {f"{k}Size": (folder / name).stat().st_size for k, name in named.items()}
        path.write_text(json.dumps({**told, **sizes}))


def values_of(path: Path, *names: str) -> list[Any]:
    """The values of a field, reached through records, in all records of the file."""
    with path.open("rb") as f:
        found: list[Any] = list(read_records(Container(f)))
    for name in names:
        found = [None if r is None else r.get(name) for r in found]
    return found
