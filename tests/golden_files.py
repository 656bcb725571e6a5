"""The data files of the golden tables, taken from `expected.json` and the schema files alone.

Nothing of the metadata code takes part, so tests of data files stand by themselves.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from paimon_core.manifest.data_file import DataFileMeta, FileSource
from paimon_core.options import Options
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.sql import field_from_json

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = ("1.4.2", "2.0.0")


@dataclass(frozen=True)
class GoldenFile:
    """One live data file of the last snapshot: where it is, and what Java says about it."""

    path: Path
    info: dict[str, Any]
    meta: DataFileMeta
    schema: TableSchema


@dataclass(frozen=True)
class GoldenTable:
    version: str
    name: str
    root: Path
    expected: dict[str, Any]
    schemas: dict[int, TableSchema]

    @property
    def schema(self) -> TableSchema:
        return self.schemas[max(self.schemas)]

    @property
    def key_value(self) -> bool:
        return bool(self.schema.primary_keys)

    def files(self) -> list[GoldenFile]:
        """The live files of the last snapshot of the main branch."""
        snapshots = [k for k in self.expected["files"] if k.startswith("snapshot-")]
        last = max(snapshots, key=lambda k: int(k.removeprefix("snapshot-")))
        return [self._file(info) for info in self.expected["files"][last]["files"]]

    def all_files(self) -> list[GoldenFile]:
        """The files of every snapshot and tag, each once."""
        infos = {
            info["file"]: info for of in self.expected["files"].values() for info in of["files"]
        }
        return [self._file(info) for info in infos.values()]

    def _file(self, info: dict[str, Any]) -> GoldenFile:
        schema = self.schemas[info["schema_id"]]
        (path,) = self.root.rglob(info["file"])
        meta = DataFileMeta(
            file_name=info["file"],
            file_size=info["size"],
            row_count=info["rows"],
            min_sequence_number=info["min_seq"],
            max_sequence_number=info["max_seq"],
            schema_id=info["schema_id"],
            level=info["level"],
            delete_row_count=info["delete_rows"],
            extra_files=tuple(info["extra_files"]),
            embedded_index=info["embedded_index"] and bytes.fromhex(info["embedded_index"]),
            file_source=FileSource[info["source"]] if info["source"] else None,
            value_stats_cols=None
            if info["value_stats_cols"] is None
            else tuple(info["value_stats_cols"]),
        )
        return GoldenFile(path, info, meta, schema)


def table_names(version: str) -> list[str]:
    return sorted(p.name for p in (GOLDEN / version).iterdir() if (p / "expected.json").exists())


@cache
def golden_table(version: str, name: str) -> GoldenTable:
    folder = GOLDEN / version / name
    root = folder / "warehouse/db.db/t"
    schemas = {
        int(p.name.split("-")[1]): read_schema(p) for p in (root / "schema").glob("schema-*")
    }
    expected = json.loads((folder / "expected.json").read_text())
    return GoldenTable(version, name, root, expected, schemas)


def read_schema(path: Path) -> TableSchema:
    obj = json.loads(path.read_text())
    return TableSchema(
        id=obj["id"],
        fields=tuple(field_from_json(f) for f in obj["fields"]),
        highest_field_id=obj["highestFieldId"],
        partition_keys=tuple(obj["partitionKeys"]),
        primary_keys=tuple(obj["primaryKeys"]),
        options=Options(obj["options"]),
    )
