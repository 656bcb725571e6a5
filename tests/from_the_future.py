"""Makes a table look as if a newer version of Paimon wrote it: unknown fields everywhere.

`add_everywhere` changes the metadata files of a table in place, with the sizes that other metadata
holds of them.  `check_everywhere` looks for the fields in what a job left or made.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from avro_fields import add_fields, values_of

JSON_FIELD = "futureField"
JSON_VALUE = {"list": [1, 2.50, None, "x"], "text": "äöü"}
FIELD = "_FUTURE"
NULLABLE = ["null", {"type": "array", "items": "long"}]
VALUE = [1, -(2**40)]
_JSON_FILES = ("snapshot-", "changelog-", "schema-", "tag-", "consumer-", "stat-")


def add_everywhere(
    root: Path, *, lists: bool = True, entries: bool = True, value: list[int] | None = VALUE
) -> None:
    """Add an unknown field to each structure; `lists` and `entries` are those of manifests.

    `value` is that of the fields in manifests and lists.
    """
    manifests = root / "manifest"
    sizes: dict[str, int] = {}
    for path in manifests.iterdir():
        if path.name.startswith("index-manifest-"):
            path.write_bytes(_with_field(path))
        elif not path.name.startswith("manifest-list-"):
            if entries:
                path.write_bytes(_with_field(path, "_FILE", value=value))
                path.write_bytes(_with_field(path, value=value))
            sizes[path.name] = path.stat().st_size
    for path in manifests.glob("manifest-list-*"):
        _set_sizes(path, sizes)
        if lists:
            path.write_bytes(_with_field(path, value=value))
        sizes[path.name] = path.stat().st_size
    for path in json_files(root):
        content = json.loads(path.read_text())
        for kind in ("base", "delta", "changelog"):
            name = content.get(f"{kind}ManifestList")
            if name and f"{kind}ManifestListSize" in content:
                content[f"{kind}ManifestListSize"] = sizes[name]
        content[JSON_FIELD] = JSON_VALUE
        for field in content.get("fields", []):
            field[JSON_FIELD] = JSON_VALUE
        path.write_text(json.dumps(content))


def json_files(root: Path) -> list[Path]:
    """The snapshots, schemas, tags, changelogs, consumers and statistics of all branches."""
    folders = ("snapshot", "changelog", "schema", "tag", "consumer", "statistics")
    return [
        p
        for p in root.rglob("*")
        if p.is_file() and p.parent.name in folders and p.name.startswith(_JSON_FILES)
    ]


def check_everywhere(root: Path, *, lists: bool, entries: bool, old: set[str]) -> None:
    """AssertionError if a field was lost.

    `old` are the names that had the fields: data files, index files, manifests and statistics.
    """
    for path in json_files(root):
        if path.parent.name == "statistics" and path.name not in old:
            continue  # of a snapshot that the job made
        content = json.loads(path.read_text())
        assert content.get(JSON_FIELD) == JSON_VALUE, path
        for field in content.get("fields", []):
            assert field.get(JSON_FIELD) == JSON_VALUE, (path, field)
    for path in (root / "manifest").iterdir():
        if path.name.startswith("index-manifest-"):
            _check(path, ("_FILE_NAME",), (FIELD,), old)
        elif path.name.startswith("manifest-list-"):
            if lists:
                _check(path, ("_FILE_NAME",), (FIELD,), old)
        elif entries:
            _check(path, ("_FILE", "_FILE_NAME"), (FIELD,), old)
            _check(path, ("_FILE", "_FILE_NAME"), ("_FILE", FIELD), old)


def names_in_metadata(root: Path) -> set[str]:
    """The names of data files, index files and manifests that metadata mentions, and of statistics."""
    found = {path.name for path in root.glob("statistics/stat-*")}
    for path in (root / "manifest").iterdir():
        plain = path.name.startswith(("index-manifest-", "manifest-list-"))
        found.update(values_of(path, *(("_FILE_NAME",) if plain else ("_FILE", "_FILE_NAME"))))
    return found


def _check(path: Path, name: tuple[str, ...], field: tuple[str, ...], old: set[str]) -> None:
    for file, value in zip(values_of(path, *name), values_of(path, *field), strict=True):
        assert file not in old or value == VALUE, (path, file, field)


def _with_field(path: Path, *record: str, value: list[int] | None = VALUE) -> bytes:
    return add_fields(path, {FIELD: (NULLABLE, value)}, record=record)


def _set_sizes(path: Path, sizes: dict[str, int]) -> None:
    def change(records: list[dict[str, Any]]) -> None:
        for record in records:
            record["_FILE_SIZE"] = sizes[record["_FILE_NAME"]]

    path.write_bytes(add_fields(path, {}, change=change))
