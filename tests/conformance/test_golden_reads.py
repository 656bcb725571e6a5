"""Tables that Java wrote, read here: every row of every snapshot, tag and branch, or a refusal.

`expected.json` holds what Java itself reads.  `REFUSED` may only hold what is not built yet; a
table that is refused must be refused by that name, and one that is not must be read exactly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from replay import run_step

GOLDEN = Path(__file__).parent.parent / "golden"

LOST_CHANGELOG = ("2.0.0", "changelog_decoupled")

REFUSED: dict[str, str] = {}


def tables() -> list[Any]:
    return [
        pytest.param(path.parent, id=f"{path.parent.parent.name}-{path.parent.name}")
        for path in sorted(GOLDEN.glob("*/*/expected.json"))
    ]


def read_step(folder: Path, name: str) -> dict[str, Any]:
    step: dict[str, Any] = {
        "op": "read",
        "warehouse": str(folder / "warehouse"),
        "database": "db",
        "table": "t",
    }
    what, _, which = name.partition("-")
    if what == "snapshot":
        step["snapshot"] = int(which)
    elif what in ("tag", "branch"):
        step[what] = which
    return step


def compare(folder: Path, name: str, ours: dict[str, Any], java: dict[str, Any]) -> None:
    refused = REFUSED.get(folder.name)
    if refused is not None:
        assert ours.get("type") == "UnsupportedFeature", f"{name}: not refused"
        assert refused in ours["error"]
        return
    assert "error" not in ours, f"{name}: {ours}"
    for part in ("plans",) if "plans" in java else ("columns", "types", "rows"):
        assert ours[part] == java[part], f"{name}: {part}"


@pytest.mark.sampled
@pytest.mark.one_java
@pytest.mark.parametrize("folder", tables())
def test_every_read_is_java_s(folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text())
    reads = expected["reads"]
    assert reads
    for name, java in reads.items():
        ours = run_step(read_step(folder, name))
        compare(folder, name, ours, java)


@pytest.mark.sampled
@pytest.mark.one_java
@pytest.mark.parametrize("folder", tables())
def test_every_change_is_java_s(folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text())
    at = read_step(folder, "latest")
    for span, java in (expected.get("incremental") or {}).items():
        start, end = map(int, span.split(","))
        compare(folder, span, run_step({**at, "incremental_between": [start, end]}), java)
    for name, java in (expected.get("audit_log") or {}).items():
        compare(folder, name, run_step({**at, "system": "audit_log"}), java)
    for name, java in (expected.get("stream") or {}).items():
        if folder.parts[-2:] == LOST_CHANGELOG:
            # Java 2.0 lost changelog 6 of this table and waits for it for ever; here that is said.
            lost = run_step({**at, "op": "stream_read", "from": 1})
            assert lost["type"] == "NotFound"
            continue
        first = int(name.removeprefix("from-"))
        compare(folder, name, run_step({**at, "op": "stream_read", "from": first}), java)


@pytest.mark.one_java
@pytest.mark.parametrize("folder", tables())
def test_every_file_is_as_java_says(folder: Path) -> None:
    """Keys, statistics and all: of a column that is NOT NULL, too, and has no minimum."""
    told = json.loads((folder / "expected.json").read_text())["files"]
    for name, java in told.items():
        ours = run_step({**read_step(folder, name), "op": "files"})
        for part in ("files", "index_files"):
            assert by_name(ours[part]) == by_name(java[part]), f"{name}: {part}"


def by_name(files: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What the oracle tells of each file; it leaves out where a file lies elsewhere."""
    return {f["file"]: {k: v for k, v in f.items() if k != "external_path"} for f in files}
