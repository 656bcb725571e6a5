"""Which tables share a Spark application.

Starting Spark costs 5 to 30 seconds, so one application maintains many tables. A slow table delays
the others of its batch, and batches run in parallel, so the size of a batch is limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paimon_maintenance.job.text import human_bytes

# Airflow maps at most [core] max_map_length tasks, 1024 unless configured.
MOST_BATCHES = 1000
_LABEL_NAMES = 3
_UNITS = {"b": 0, "kb": 1, "mb": 2, "gb": 3, "tb": 4}
SIZE_PATTERN = r"^\s*\d+(\.\d+)?\s*([kKmMgGtT]?[bB])?\s*$"


@dataclass(frozen=True, slots=True)
class Expected:
    """A table, the bytes that its plan expects to read, and the rule that sends it to Spark."""

    table: str
    bytes: int
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Tables that one Spark application maintains, largest first.

    `rules` are those that send its tables to Spark: "spark_threshold 256 MB" or "engine is spark".
    """

    tables: tuple[str, ...]
    bytes: int
    rules: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """Why the batch runs on Spark: "spark: 3.0 GB to rewrite, spark_threshold 256 MB"."""
        return ", ".join([f"spark: {human_bytes(self.bytes)} to rewrite", *self.rules])

    @property
    def label(self) -> str:
        """The batch in the UI: its first tables, the bytes to read, and why it is on Spark."""
        return f"{names(self.tables)} ({self.why})"

    def to_json(self) -> dict[str, object]:
        """The batch as the planning task passes it to a mapped task."""
        tables = list(self.tables)
        return {"label": self.label, "why": self.why, "tables": tables, "bytes": self.bytes}


def names(tables: Sequence[str]) -> str:
    """The names of the first three tables, and how many more there are."""
    shown = ", ".join(tables[:_LABEL_NAMES])
    rest = len(tables) - _LABEL_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown


def pack(
    tables: Iterable[Expected],
    *,
    batch_bytes: int,
    batch_tables: int,
    most_batches: int = MOST_BATCHES,
) -> list[Batch]:
    """The tables in batches of at most `batch_bytes` and `batch_tables`, largest batch first.

    A table larger than `batch_bytes` gets a batch of its own.  The limits grow as far as needed to
    stay within `most_batches`.  First fit over decreasing sizes; equal sizes by name, so that the
    same tables make the same batches.
    """
    ordered = sorted(tables, key=lambda table: (-table.bytes, table.table))
    while True:
        batches = _first_fit(ordered, batch_bytes, batch_tables)
        if len(batches) <= most_batches:
            return batches
        batch_bytes, batch_tables = max(1, batch_bytes * 2), batch_tables * 2


def _first_fit(ordered: list[Expected], batch_bytes: int, batch_tables: int) -> list[Batch]:
    bins: list[tuple[list[Expected], int]] = []
    for table in ordered:
        for index, (members, used) in enumerate(bins):
            if len(members) < batch_tables and used + table.bytes <= batch_bytes:
                members.append(table)
                bins[index] = (members, used + table.bytes)
                break
        else:
            bins.append(([table], table.bytes))
    batches = [
        Batch(
            tuple(member.table for member in members),
            used,
            tuple(dict.fromkeys(member.rule for member in members if member.rule)),
        )
        for members, used in bins
    ]
    return sorted(batches, key=lambda batch: (-batch.bytes, batch.tables))


def parse_size(text: str) -> int:
    """The bytes that "20 gb", "512MB" or "1000" mean; ValueError for anything else."""
    if not re.match(SIZE_PATTERN, text):
        message = f"{text!r} is not a size: write for instance 20 gb, 512 mb or a number of bytes"
        raise ValueError(message)
    number, unit = re.findall(r"[\d.]+|[a-z]+", text.lower() + " b")[:2]
    size = float(number) * 1024 ** _UNITS[unit]
    if size >= 2**63:
        raise ValueError(f"{text[:40]!r} is more than any store holds")
    return int(size)
