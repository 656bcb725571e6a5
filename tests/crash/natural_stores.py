"""Where the table of a natural round lies, and who writes beside the processes.

- `Local`: a folder; Java writes.
- `SlowS3`: an S3 server behind a proxy that adds 30 ms to each request, which opens every window by
  itself.  Java cannot reach it: a writer of ours takes its place, to main or to the branch, and
  one of the processes works without the lease, as Java does.

`fetch` gives the table to Java, and to the checks.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from disk import on_disk, referenced
from harness import remove_orphans
from replay import run_step
from s3_store import download, drop, environment_of, s3_server, upload
from slow_store import SlowStore, slow_store

from oracle import Oracle
from paimon_core.reachability.mentioned import Mentioned
from paimon_core.reachability.name_set import NameSet
from paimon_core.reachability.references import RefKind, all_references
from paimon_core.table.open import open_table
from paimon_maintenance.verify.check import check_table
from paimon_maintenance.verify.findings import Severity

DELAY_MILLIS = 30
DAY = "2999-01-01"
"""The partition of what is written beside the processes."""


class Store(Protocol):
    """A place for tables; `warehouse` is what `place` returned."""

    environment: Mapping[str, str]
    """What the processes need in theirs."""
    branches: Sequence[str | None]
    """Where the writer beside them may write; one is chosen."""
    leaseless: bool
    """Whether a process may work without the lease."""

    def place(self, folder: Path) -> str:
        """Move the warehouse in this folder there; the warehouse from now on."""

    def write(self, warehouse: str, step: Mapping[str, Any]) -> dict[str, Any]:
        """Commit; the answer, with `error` if nobody was told that it is committed."""

    def fetch(self, warehouse: str, folder: Path) -> Path:
        """The warehouse as a local folder, the given one if it is not local already."""


@dataclass(frozen=True, slots=True)
class Local:
    """The local file system, where the tables are made."""

    oracle: Oracle
    environment: Mapping[str, str] = field(default_factory=dict)
    branches: Sequence[str | None] = (None,)
    leaseless: bool = False

    def place(self, folder: Path) -> str:
        return str(folder)

    def write(self, warehouse: str, step: Mapping[str, Any]) -> dict[str, Any]:
        (answer,) = self.oracle([{"op": "write", **at(warehouse), **step}], check=False)
        return answer

    def fetch(self, warehouse: str, folder: Path) -> Path:
        return Path(warehouse)


@dataclass(frozen=True, slots=True)
class SlowS3:
    """A slow S3 server; see `slow_s3`."""

    store: SlowStore
    branches: Sequence[str | None] = (None, None, "b")
    leaseless: bool = True

    @property
    def environment(self) -> Mapping[str, str]:
        return environment_of(self.store.options)

    def place(self, folder: Path) -> str:
        warehouse = self.store.new_root()
        upload(folder, warehouse)
        shutil.rmtree(folder)
        return warehouse

    def write(self, warehouse: str, step: Mapping[str, Any]) -> dict[str, Any]:
        return run_step({"op": "write", **at(warehouse), **step, "storage": self.store.options})

    def fetch(self, warehouse: str, folder: Path) -> Path:
        download(warehouse, folder)
        drop(warehouse)
        return folder


@contextmanager
def slow_s3() -> Iterator[SlowS3]:
    """A server and its proxy in threads of this process."""
    with s3_server() as server, slow_store(server, delay_millis=DELAY_MILLIS) as store:
        yield SlowS3(store)


def at(warehouse: str) -> dict[str, str]:
    """The table of a round, in the oracle's language."""
    return {"warehouse": warehouse, "database": "db", "table": "t"}


def broken(warehouse: Path) -> list[str]:
    """The first errors of verification, or else the versions that we cannot read completely."""
    table = open_table(str(warehouse), "db.t")
    found = [f.line() for f in check_table(table).findings if f.severity is Severity.ERROR]
    if found:
        return [f"verify: {line}" for line in found[:3]]
    problems = []
    for reference in all_references(table):
        if reference.kind is RefKind.CHANGELOG:
            continue
        version = (
            {"tag": reference.name}
            if reference.kind is RefKind.TAG
            else {"snapshot": reference.snapshot.id}
        )
        step = {**version, "branch": reference.table.branch, "sorted": False}
        answer = run_step({"op": "read", **at(str(warehouse)), **step})
        if "error" in answer:
            problems.append(f"ours: {reference.label}: {answer['error'][:200]}")
    return problems


def misplaced(warehouse: Path, *, leased: bool) -> list[str]:
    """Files that are missing, or that the orphan job leaves behind.

    Of two jobs without a lease, each may leave a file to the other that both let go.  The orphan job
    keeps it for as long as a manifest mentions it, though as deleted.
    """
    remove_orphans(warehouse)
    table = open_table(str(warehouse), "db.t")
    there, wanted = on_disk(Path(table.root)), referenced(warehouse)
    left = there - wanted
    if not leased:
        mentioned = Mentioned(table, NameSet.of(Path(path).name for path in left))
        mentioned.look()
        left = {path for path in left if Path(path).name in mentioned.candidates}
    if not left and wanted <= there:
        return []
    return [f"files missing {wanted - there}, left over {left}"]


def missing(acknowledged: Sequence[int], seen: set[int], *, dropped: bool) -> list[str]:
    """Acknowledged commits that are lost.

    `dropped`: whether a job was asked to drop commits.  Those that were there when it was planned
    may be gone, so the oldest.
    """
    lost = [key for key in acknowledged if key not in seen]
    if not lost or (dropped and lost == list(acknowledged[: len(lost)])):
        return []
    return [f"acknowledged commits are missing: {lost} of {list(acknowledged)}"]
