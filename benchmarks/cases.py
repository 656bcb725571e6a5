"""The tables that the benchmarks of compaction work on.

A BIGINT key spread over the key space, 4 BIGINT, 3 STRING of about 20 bytes, 2 DOUBLE and a
TIMESTAMP(6): random values, hardly compressible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

TABLE = "db.t"
COLUMNS = [
    {"name": "id", "type": "BIGINT NOT NULL"},
    *({"name": f"l{i}", "type": "BIGINT"} for i in range(1, 5)),
    *({"name": f"s{i}", "type": "STRING"} for i in range(1, 4)),
    *({"name": f"d{i}", "type": "DOUBLE"} for i in range(1, 3)),
    {"name": "ts", "type": "TIMESTAMP(6)"},
]


WIDE = [
    {"name": "id", "type": "BIGINT NOT NULL"},
    *({"name": f"l{i}", "type": "BIGINT"} for i in range(80)),
    *({"name": f"s{i}", "type": "STRING"} for i in range(40)),
    *({"name": f"d{i}", "type": "DOUBLE"} for i in range(60)),
    *({"name": f"t{i}", "type": "TIMESTAMP(6)"} for i in range(20)),
]
LONG_TEXTS = [{"name": "id", "type": "BIGINT NOT NULL"}, {"name": "s", "type": "STRING"}]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A table to compact; what is not said here is the same for all.

    `base` commits are compacted into the top level before the others are written.
    """

    name: str
    primary_key: bool = True
    rows: int
    commits: int = 10
    overlap: float = 0.3
    seed: int = 7
    base: int = 0
    columns: Sequence[Mapping[str, str]] = tuple(COLUMNS)
    text_bytes: int = 20
    more_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, str]:
        bucket = "1" if self.primary_key else "-1"
        return {"bucket": bucket, "write-only": "true", **self.more_options}


def tables(rows: int, append_commits: int) -> list[Case]:
    """A primary-key table of overlapping runs, and an append table of small files."""
    return [
        Case(name="pk", rows=rows),
        Case(
            name="append", primary_key=False, rows=rows, commits=append_commits, overlap=0, seed=9
        ),
    ]


_AGGREGATES = {
    "merge-engine": "aggregation",
    **{f"fields.l{i}.aggregate-function": f for i, f in enumerate(("sum", "max", "min"), 1)},
    "fields.default-aggregate-function": "last_non_null_value",
}
_GROUPS = {
    "merge-engine": "partial-update",
    "fields.l1.sequence-group": "l2,s1,d1",
    "fields.l3.sequence-group": "l4,s2,d2",
}
_LOOKUP = {"changelog-producer": "lookup"}
_FULL = {"changelog-producer": "full-compaction"}
_VECTORS = {"deletion-vectors.enabled": "true"}


def kinds(rows: int) -> list[Case]:
    """Every merge engine, changelogs, deletion vectors, wide rows and long texts."""

    def case(name: str, options: Mapping[str, str], base: int = 0) -> Case:
        return Case(name=name, rows=rows, base=base, more_options=options)

    return [
        case("deduplicate", {}),
        case("partial-update", {"merge-engine": "partial-update"}),
        case("sequence-groups", _GROUPS),
        case("aggregation", _AGGREGATES),
        case("first-row", {"merge-engine": "first-row"}),
        case("changelog-full", _FULL, 5),
        case("changelog-lookup", _LOOKUP, 5),
        case("aggregation-changelog", {**_AGGREGATES, **_FULL}, 5),
        case("vectors", _VECTORS, 5),
        Case(name="wide", rows=rows // 20, columns=WIDE),
        Case(name="long-texts", rows=rows // 10, columns=LONG_TEXTS, text_bytes=1000),
    ]
