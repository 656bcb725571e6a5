"""The tables that the benchmarks of compaction are about; see the handbook's table of speeds.

A BIGINT key spread over the key space, 4 BIGINT, 3 STRING of about 20 bytes, 2 DOUBLE and a
TIMESTAMP(6): random values, hardly compressible.
"""

from __future__ import annotations

from dataclasses import dataclass

TABLE = "db.t"
COLUMNS = [
    {"name": "id", "type": "BIGINT NOT NULL"},
    *({"name": f"l{i}", "type": "BIGINT"} for i in range(1, 5)),
    *({"name": f"s{i}", "type": "STRING"} for i in range(1, 4)),
    *({"name": f"d{i}", "type": "DOUBLE"} for i in range(1, 3)),
    {"name": "ts", "type": "TIMESTAMP(6)"},
]


@dataclass(frozen=True, slots=True)
class Case:
    """A table to compact; what is not said here is the same for all."""

    name: str
    primary_key: bool
    rows: int
    commits: int
    overlap: float
    seed: int

    @property
    def options(self) -> dict[str, str]:
        return {"bucket": "1" if self.primary_key else "-1", "write-only": "true"}


SMALL = [
    Case("pk", primary_key=True, rows=500_000, commits=10, overlap=0.3, seed=7),
    Case("append", primary_key=False, rows=500_000, commits=50, overlap=0, seed=9),
]
LONG = [
    Case("pk", primary_key=True, rows=5_000_000, commits=10, overlap=0.3, seed=7),
    Case("append", primary_key=False, rows=5_000_000, commits=500, overlap=0, seed=9),
]
