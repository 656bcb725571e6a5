"""Reads Iceberg metadata as other programs do: with pyiceberg, and with plain Avro."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest

from paimon_core.format.avro.container import Container
from paimon_core.manifest.avro_codec import read_records


def newest(folder: Path) -> Path:
    """The metadata file that the hint names."""
    version = (folder / "version-hint.text").read_text()
    return folder / f"v{version}.metadata.json"


def local(path: str) -> Path:
    """The file of a path in metadata, which may be a URL."""
    return Path(path.removeprefix("file:"))


def metadata(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(newest(folder).read_text())
    return found


def iceberg_rows(
    folder: Path, *, snapshot: int | None = None, where: str | None = None
) -> list[tuple[Any, ...]]:
    """The rows that pyiceberg reads, sorted by their text."""
    table = pytest.importorskip("pyiceberg.table")
    opened = table.StaticTable.from_metadata(str(newest(folder)))
    scan = opened.scan(snapshot_id=snapshot)
    if where is not None:
        scan = scan.filter(where)
    rows = [tuple(row.values()) for row in scan.to_arrow().to_pylist()]
    return sorted(rows, key=repr)


def schema_text(path: Path) -> Any:
    """The Avro schema of a file as it is stored."""
    return json.loads(Container(BytesIO(path.read_bytes())).metadata["avro.schema"])


def records(path: Path) -> list[dict[str, Any]]:
    """The records of an Avro file, which also have to be readable with the schema as it is."""
    fastavro.parse_schema(schema_text(path))
    return list(read_records(Container(BytesIO(path.read_bytes()))))


def manifests(folder: Path) -> list[dict[str, Any]]:
    """The records of the current manifest list."""
    found = metadata(folder)
    current = next(
        s for s in found["snapshots"] if s["snapshot-id"] == found["current-snapshot-id"]
    )
    return records(local(current["manifest-list"]))


def entries(folder: Path, *, content: int = 0) -> list[dict[str, Any]]:
    """The live entries of the current manifests: of data files (0), or deletion vectors (1)."""
    paths = [local(m["manifest_path"]) for m in manifests(folder) if m["content"] == content]
    return [e for path in paths for e in records(path) if e["status"] != 2]


def unreferenced(folder: Path) -> set[str]:
    """The Avro files that no snapshot of the newest version needs."""
    needed: set[str] = set()
    for snapshot in metadata(folder)["snapshots"]:
        path = local(snapshot["manifest-list"])
        needed |= {path.name, *(Path(m["manifest_path"]).name for m in records(path))}
    return {p.name for p in folder.glob("*.avro")} - needed
