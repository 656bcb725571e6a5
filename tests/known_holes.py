"""Helpers of the tests for known holes of upstream: one table, ours or Java as the other party.

Each test does its work with our jobs.  The *other* party writes, tags and expires meanwhile, and
reads afterwards: our own code, or the oracle of either version, where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from failing_io import FailingFileIO, Trigger
from replay import run_step
from without_lease import without_lease

import paimon_maintenance.run.request
from oracle import Oracle, OracleError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.open import open_table, open_table_at
from paimon_maintenance.job.report import Report
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table

COLUMNS = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}]
MOST_CALLS = 400
T = TypeVar("T")


@dataclass
class Party:
    """The other party at the table db.t of a warehouse: Java if there is an oracle, else ours."""

    warehouse: Path
    oracle: Oracle | None = None

    def __call__(self, op: str, **fields: Any) -> dict[str, Any]:
        """What it answers; AssertionError if it fails."""
        at = {"warehouse": str(self.warehouse), "database": "db", "table": "t"}
        if self.oracle is not None:
            if op == "write":
                fields.setdefault("compact", False)
            return self.oracle.one(op, **at, **fields)
        result = run_step({"op": op, **at, **fields})
        assert "error" not in result, result
        return result

    def attempt(self, op: str, **fields: Any) -> bool:
        """Whether it works."""
        try:
            self(op, **fields)
        except (AssertionError, OracleError):
            return False
        return True

    def rows(self, **fields: Any) -> list[list[Any]]:
        """The values of the rows it reads, sorted."""
        return sorted((row[1:] for row in self("read", **fields)["rows"]), key=str)

    @property
    def table(self) -> FileStoreTable:
        return open_table(str(self.warehouse), "db.t")

    @property
    def root(self) -> Path:
        return self.warehouse / "db.db" / "t"


def run(
    warehouse: Path,
    name: str,
    *,
    meanwhile: Trigger | None = None,
    services: RunServices | None = None,
    branch: str | None = None,
    **arguments: object,
) -> Report:
    """The report of one of our jobs, with something happening before one of its calls.

    The holes are about what holds without a lease, since Java does not know ours.
    """
    job = job_named(name)
    request = RunRequest(
        job=job,
        warehouse=str(warehouse),
        table="db.t",
        branch=branch,
        arguments=job.read_arguments(arguments),
        force=True,
    )

    def opened(warehouse: str, name: str, **options: Any) -> FileStoreTable:
        assert meanwhile is not None
        root = open_table(warehouse, name).root
        return open_table_at(
            FailingFileIO(meanwhile),
            root,
            name,
            branch=options.get("branch"),
            dynamic_options=options.get("dynamic_options"),
        )

    if meanwhile is None:
        with without_lease():
            return run_table(request, services)
    with without_lease(), patch.object(paimon_maintenance.run.request, "open_table_of", opened):
        return run_table(request, services)


def each_call(
    warehouse: Path,
    other: Callable[[], object],
    job: Callable[[Trigger], T],
    *,
    reads: bool,
) -> Iterator[T]:
    """What the job returns, such as its report, with the other thing done before its first, second, ... call.

    The warehouse is as it was before each of them.
    """
    before = {p: p.read_bytes() for p in warehouse.rglob("*") if p.is_file()}
    for at in range(MOST_CALLS):
        trigger = Trigger(at=at, reads=reads, action=other)
        report = job(trigger)
        if not trigger.fired:
            return
        yield report
        _put_back(warehouse, before)
    raise AssertionError(f"the job makes more than {MOST_CALLS} calls")


def _put_back(warehouse: Path, files: Mapping[Path, bytes]) -> None:
    for path in warehouse.rglob("*"):
        if path.is_file() and path not in files:
            path.unlink()
    for path, content in files.items():
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
