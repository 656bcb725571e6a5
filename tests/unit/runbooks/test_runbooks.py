"""Every command of every runbook, on a table in the state that the runbook is about."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from command_line import Ran, caretaker
from lakes import Lake

RUNBOOKS = Path(__file__).resolve().parents[3] / "docs" / "runbooks"
FENCE = re.compile(r"^( *)```sh\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
ROWS = 20
TABLE = "db.orders"


def commands(name: str) -> list[str]:
    """The runbook's commands, in order."""
    text = (RUNBOOKS / f"{name}.md").read_text()
    lines = [line.strip() for block in FENCE.finditer(text) for line in block[2].splitlines()]
    assert all(line.startswith("./caretaker ") for line in lines), lines
    return [line.removeprefix("./caretaker ") for line in lines]


@dataclass
class Shell:
    """Runs commands as an operator would, but in this process and without Spark."""

    lake: Lake
    placeholders: dict[str, str] = field(default_factory=dict)

    def __call__(self, command: str, *, code: int = 0) -> Ran:
        words = [self.placeholders.get(word, word) for word in shlex.split(command)]
        if words[0] == "run":
            words += ["--engine", "local"]
        result = caretaker(*words, "-w", self.lake.warehouse, "--json")
        assert result.code == code, (command, result.out[-2000:], result.err)
        return result

    def rows(self, *more: object) -> set[tuple[Any, ...]]:
        result = caretaker("read", TABLE, "-w", self.lake.warehouse, *more)
        assert result.code == 0, result.err
        return {tuple(row[1:]) for row in result.rows}

    def follow(
        self,
        name: str,
        codes: Mapping[int, int] | None = None,
        *,
        before: Callable[[str], None] = lambda command: None,
        after: Callable[[str, Ran], None] = lambda command, ran: None,
    ) -> list[Ran]:
        """What all commands of the runbook said; `codes` are the exit codes other than 0."""
        assert commands(name)[0] == f"verify {TABLE}"
        found = []
        for number, command in enumerate(commands(name)):
            before(command)
            found.append(self(command, code=(codes or {}).get(number, 0)))
            after(command, found[-1])
        return found


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "lake")
    made.primary_key(
        TABLE,
        partitioned=True,
        buckets=5,
        snapshot_num__retained_min="1",
        snapshot_num__retained_max="3",
    )
    made.fill(6, rows=ROWS, name=TABLE)
    return made


@pytest.fixture
def shell(lake: Lake) -> Shell:
    return Shell(lake)


def root(lake: Lake) -> Path:
    return Path(lake.table(TABLE).root)


def age(file: Path, *, days: int) -> None:
    moment = file.stat().st_mtime - days * 86_400
    os.utime(file, (moment, moment))


def data_bytes(lake: Lake) -> int:
    return sum(file.stat().st_size for file in root(lake).rglob("bucket-*/*"))


def snapshots(lake: Lake) -> list[int]:
    return [snapshot.id for snapshot in lake.table(TABLE).snapshots.all()]


def test_every_runbook_is_listed_and_followed_here():
    files = {file.stem for file in RUNBOOKS.glob("*.md")} - {"README"}
    listed = set(re.findall(r"\]\(([\w-]+)\.md\)", (RUNBOOKS / "README.md").read_text()))
    followed = set(re.findall(r'follow\(\s*"([\w-]+)"', Path(__file__).read_text()))
    assert files == listed == followed


def test_links_between_documents_lead_somewhere():
    for file in RUNBOOKS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+\.md)\)", file.read_text()):
            assert (file.parent / target).is_file(), (file.name, target)


def test_an_alert(shell, lake, tmp_path, monkeypatch):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    consumer_of(lake)

    def measure(command: str) -> None:
        if command == "alerts" and not (tmp_path / "history.db").exists():
            shell("schedule 'db.*' --dry-run")

    # No alert is open, nothing ran before, and nothing is left to do in the end: exit code 3.
    results = shell.follow("alerts", {1: 3, 4: 3, 6: 3, 7: 3}, before=measure)
    assert results[2].json["score"] < 100
    assert results[3].json["decisions"][0]["action"] == "run"
    assert results[6].json["decisions"]


def test_a_run_that_failed(shell, lake, tmp_path, monkeypatch):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    shell(f"plan drop_partition {TABLE}", code=2)
    before = shell.rows()

    # No job holds a lease: exit code 3.
    results = shell.follow("failed-run", {2: 3})
    (failed,) = results[1].json["entries"]
    assert (failed["job"], failed["error_type"]) == ("drop_partition", "InvalidArgument")
    assert results[4].json["status"] == "success"
    assert shell.rows() == before


def test_rescale(shell, lake):
    before = shell.rows()
    numbers: list[set[int]] = []

    def look(command: str, ran: Ran) -> None:
        if command.startswith("run rescale"):
            files = caretaker("files", TABLE, "-w", lake.warehouse, "--json").json["files"]
            numbers.append({file["total_buckets"] for file in files})

    shell.follow("rescale", after=look)
    assert numbers == [{10}, {5}]
    assert shell.rows() == before


def test_rollback_after_wrong_data(shell, lake):
    right, wrong = shell.rows("--snapshot", 3), shell.rows()
    assert right != wrong

    def look(command: str, ran: Ran) -> None:
        if command.startswith("run rollback"):
            assert shell.rows() == right
            as_latest = "as_latest" in command
            assert snapshots(lake) == ([1, 2, 3, 4, 5, 6, 7] if as_latest else [1, 2, 3])

    shell.follow("rollback-wrong-data", after=look)
    (safety,) = [tag for tag in lake.table(TABLE).tags.names() if tag.startswith("before-rollback")]
    assert shell.rows("--tag", safety) == right  # what rollback_to_as_latest had made of it


def consumer_of(lake: Lake) -> Path:
    file = root(lake) / "consumer" / "consumer-report"
    file.parent.mkdir()
    file.write_text(json.dumps({"nextSnapshot": 2}))
    return file


def test_expiry_stuck_behind_a_dead_consumer(shell, lake):
    consumer = consumer_of(lake)

    def be_silent(command: str) -> None:
        if "expire_consumers" in command:
            age(consumer, days=10)

    results = shell.follow("expiry-stuck", before=be_silent)
    stuck = results[2].json
    assert any("consumer report" in kept["why"] for kept in stuck["kept"])
    assert not consumer.exists()
    assert snapshots(lake) == [4, 5, 6]


def test_expiry_stuck_behind_a_consumer_that_lives(shell, lake):
    consumer = consumer_of(lake)
    # It was heard of a moment ago, so that no consumer expires: exit code 3.
    shell.follow("expiry-stuck", {5: 3, 6: 3})
    assert json.loads(consumer.read_text())["nextSnapshot"] == 5
    assert snapshots(lake) == [4, 5, 6]


def test_storage_grows(shell, lake):
    shell(f"run create_tag {TABLE} --tag before-migration --snapshot 1")
    before, size = shell.rows(), data_bytes(lake)
    results = shell.follow("storage-grows")
    assert {step["job"] for step in results[2].json["steps"]} >= {
        "expire_snapshots",
        "remove_orphan_files",
    }
    assert shell.rows() == before
    assert lake.table(TABLE).tags.names() == []
    assert data_bytes(lake) < size / 1.4
    assert snapshots(lake) == [7]


def test_a_reader_that_was_slower_than_expiry(shell, lake):
    held = shell.rows()
    lake.fill(1, rows=ROWS, name=TABLE)
    results = shell.follow("reader-file-not-found")
    (number,) = [
        i
        for i, c in enumerate(commands("reader-file-not-found"))
        if "--tag long-report --limit" in c
    ]
    assert len(results[number].rows) == 3
    assert snapshots(lake) == [7]
    assert lake.table(TABLE).tags.names() == []
    assert len(held) == ROWS


def test_orphan_files(shell, lake):
    orphan = next(root(lake).rglob("bucket-*")) / "data-left-behind-0.parquet"
    orphan.write_bytes(b"left behind")
    age(orphan, days=3)
    before = shell.rows()
    names = iter(["QUARANTINE", "QUARANTINE2"])

    def look(command: str, ran: Ran) -> None:
        if command.startswith("run remove_orphan_files"):
            assert not orphan.exists()
            shell.placeholders[next(names)] = ran.json["details"]["quarantine"]
        if command.startswith("run restore"):
            assert orphan.read_bytes() == b"left behind"
            age(orphan, days=3)

    shell.follow("orphan-files", after=look)
    assert next(names, None) is None
    assert shell.rows() == before
    assert not [f for f in root(lake).rglob("*left-behind*") if f.is_file()]


def lose_a_file(lake: Lake) -> None:
    """Delete one data file that only the newest snapshot needs."""
    table = lake.table(TABLE)
    from paimon_core.scan.scan import scan_files

    before = {e.file.file_name for e in scan_files(table, table.snapshots.get(3))}
    newest = {e.file.file_name for e in scan_files(table, table.latest_or_not_found())}
    name = min(newest - before)
    next(root(lake).rglob(name)).unlink()


def test_a_broken_table(shell, lake):
    right = shell.rows("--snapshot", 3)
    lose_a_file(lake)
    hint = root(lake) / "snapshot" / "LATEST"
    hint.write_text("2")

    def look(command: str, ran: Ran) -> None:
        if command.startswith("run repair") and "remove_unexisting_files" in command:
            assert len(shell.rows()) == ROWS  # older values of the lost rows show again

    results = shell.follow("broken-table", {0: 7}, after=look)
    assert {f["problem"] for f in results[0].json["findings"]} == {
        "missing_data_file",
        "wrong_hint",
    }
    assert hint.read_text() != "2"
    assert shell.rows() == right
