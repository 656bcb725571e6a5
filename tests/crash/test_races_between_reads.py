"""A statement or job stops before one of its reads of metadata, another one runs, the first goes on.

What is left is what one after the other leaves, in either order; a first one that fails leaves what
the second does.  In CI, some pairs meet at some reads; CARETAKER_LONG=1 tries all.
"""

from __future__ import annotations

import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from harness import run_job
from long_run import LONG
from sql_sessions import Sql
from without_lease import without_lease

from paimon_core.errors import PaimonError
from paimon_core.io.local import LocalFileIO
from paimon_core.schema.table_schema import VALUE_KIND
from paimon_core.table.open import open_table
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch
from paimon_maintenance.verify.check import check_table
from paimon_maintenance.verify.findings import Severity

pytestmark = [pytest.mark.crash, pytest.mark.slow]
READS = ("read_bytes", "open_input", "exists", "stat", "list_dir", "list_names", "list_below")
CHANGING = ("/snapshot", "/schema", "/tag", "/branch", "/consumer", "/changelog")
"""Parts of paths of files that others change; the content of all others stays what it is."""
TABLES = {
    "keyed": "'primary-key' = 'k', 'bucket' = '1'",
    "dynamic": "'primary-key' = 'k'",
    "append": "'compaction.min.file-num' = '2'",
    "vectors": "'deletion-vectors.enabled' = 'true', 'compaction.min.file-num' = '2'",
}
STATEMENTS = {
    "insert": "INSERT INTO t (k, v) VALUES (9, 'new')",
    "upsert": "INSERT INTO t (k, v) VALUES (2, 'again')",
    "update": "UPDATE t SET v = 'mine' WHERE k = 2",
    "update n": "UPDATE t SET n = 5 WHERE k >= 1",
    "delete": "DELETE FROM t WHERE v = 'v2'",
    "truncate": "TRUNCATE TABLE t",
    "overwrite": "INSERT OVERWRITE t (k, v) VALUES (7, 'over')",
    "add column": "ALTER TABLE t ADD COLUMN extra INT",
    "add and write": "ALTER TABLE t ADD COLUMN extra INT; INSERT INTO t (k, extra) VALUES (2, 7)",
    "set option": "ALTER TABLE t SET TBLPROPERTIES ('write-only' = 'true')",
}
JOBS: dict[str, tuple[str, dict[str, object]]] = {
    "compact": ("compact", {"strategy": "full"}),
    "expire": ("expire_snapshots", {"retain_max": 1, "retain_min": 1}),
    "rollback": ("rollback", {"snapshot": 2, "safety_tag": "0 s"}),
    "as latest": ("rollback_to_as_latest", {"snapshot": 2}),
    "create tag": ("create_tag", {"tag": "mine"}),
    "analyze": ("analyze", {}),
}
PAIRS, EACH = 3, 10
"""In CI, one of so many pairs meets, at every so many reads."""
FIRST = ("insert", "update", "delete", "add column", "compact", "expire", "as latest", "analyze")
State = dict[str, Any]


@dataclass(slots=True)
class Gate:
    """Runs `action` before the read of this number (from 0) of a file that may change."""

    at: int = -1
    action: Callable[[], None] = lambda: None
    count: int = 0
    is_shut: bool = True

    def pass_by(self, path: str) -> None:
        if self.is_shut or "/caretaker/" in path or not any(part in path for part in CHANGING):
            return
        self.count += 1
        if self.count == self.at + 1:
            self.is_shut = True
            self.action()
            self.is_shut = False

    @contextmanager
    def opened(self) -> Iterator[None]:
        self.is_shut = False
        try:
            yield
        finally:
            self.is_shut = True


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    for name in READS:
        plain = getattr(LocalFileIO, name)

        def read(self: LocalFileIO, path: str, *rest: Any, plain: Any = plain, **more: Any) -> Any:
            gate.pass_by(path)
            return plain(self, path, *rest, **more)

        monkeypatch.setattr(LocalFileIO, name, read)
    return gate


@dataclass(slots=True)
class Table:
    """A table, made once; each round works on a copy in `lake`."""

    place: Path
    results: dict[tuple[str, ...], State] = field(default_factory=dict)

    @property
    def lake(self) -> Path:
        return self.place / "lake"

    def make(self, options: str) -> None:
        sql = Sql(self.lake)
        sql(f"CREATE TABLE t (k INT, v STRING, n INT) TBLPROPERTIES ({options})")
        for k in range(4):
            sql(f"INSERT INTO t (k, v) VALUES ({k}, 'v{k}')")
        old = time.time() - 2 * 86_400
        for path in self.lake.rglob("*"):
            if path.is_file():
                os.utime(path, (old, old))
        self.lake.rename(self.place / "pristine")

    def renew(self) -> None:
        shutil.rmtree(self.lake, ignore_errors=True)
        shutil.copytree(self.place / "pristine", self.lake)

    def run(self, name: str) -> PaimonError | None:
        """The error of a statement or job; jobs run without the lease, as those of Java do."""
        try:
            if name in STATEMENTS:
                Sql(self.lake)(STATEMENTS[name])
            else:
                with without_lease():
                    error = run_job(self.lake, *JOBS[name], table="default.t").error
                assert error is None or isinstance(error, PaimonError)
                return error
        except PaimonError as e:
            return e
        return None

    def state(self) -> State:
        table = open_table(str(self.lake), "default.t")
        found = check_table(table).findings
        assert [f.line() for f in found if f.severity is Severity.ERROR] == []
        batches = (b.drop_columns([VALUE_KIND]) for b in read_batch(batch_scan_of(table)))
        rows = (row for batch in batches for row in batch.to_pylist())
        return {
            "rows": sorted(str(r) for r in rows),
            "options": {k: v for k, v in table.options.items() if k != "path"},
            # Whether there is a safety tag depends on the compaction after an insert.
            "tags": [name for name in table.tags.names() if name == "mine"],
        }

    def after(self, *names: str) -> State:
        """What these leave, one after the other."""
        if names not in self.results:
            self.renew()
            for name in names:
                self.run(name)
            self.results[names] = self.state()
        return self.results[names]


@pytest.mark.sampled(one_of=20)
@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("kind", TABLES)
def test_nobody_sees_half_of_another(kind: str, first: str, tmp_path: Path, gate: Gate) -> None:
    table = Table(tmp_path)
    table.make(TABLES[kind])
    table.renew()
    with gate.opened():
        assert table.run(first) is None
    reads, rounds = gate.count, 0
    for second in (*STATEMENTS, *JOBS):
        turn = zlib.crc32(f"{kind} {first} {second}".encode())
        for at in range(reads):
            if LONG or (turn % PAIRS == 0 and at % EACH == turn % EACH):
                _round(table, gate, first, second, at)
                rounds += 1
    assert rounds


def _round(table: Table, gate: Gate, first: str, second: str, at: int) -> None:
    table.renew()
    errors: list[PaimonError | None] = []
    gate.at, gate.count, gate.action = at, 0, lambda: errors.append(table.run(second))
    with gate.opened():
        error = table.run(first)
    assert errors, "it made fewer reads than before"
    what, found = (second, at, error, errors), table.state()
    done = [name for name, e in ((first, error), (second, errors[0])) if e is None]
    orders = [done, done[::-1]] if len(done) > 1 else [done, [first, second], [second, first]]
    assert found in [table.after(*names) for names in orders], what
