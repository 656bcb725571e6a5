"""What each job does with each newer kind of table, beside Java: the table of docs/table-kinds.md.

    ./caretaker python benchmarks/table_kinds.py FOLDER [KIND ...]

Java 2.0.0 makes the tables in FOLDER (kept for the next call), through the oracle or its Flink.
Each job runs on a copy.  A cell is

- `yes`: the job did its work, and Java reads the same rows afterwards (of a rollback: the rows that
  Java's own leaves);
- `idle`: there was nothing to do;
- `no`: refused by name, and nothing changed;
- `WRONG` or `ERROR`: what must not be.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from command_line import Ran, caretaker  # noqa: E402

from oracle import FlinkSql, Oracle, OracleProcess  # noqa: E402

K_V = [{"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}]
TRACKED = {"bucket": "-1", "row-tracking.enabled": "true", "compaction.min.file-num": "2"}
EVOLVING = {**TRACKED, "data-evolution.enabled": "true"}
KEYED = {"bucket": "1", "write-only": "true"}
_MERGED = {"bucket": "-1", "compaction.min.file-num": "2"}
_ROWS = [[[i, f"v{i}"], [i + 10, f"w{i}"]] for i in range(3)]
_DOCUMENTS = [[[i, {"a": i, "b": ["x", None]}], [i + 10, '"text"']] for i in range(3)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of table: its columns, options and commits, or the Flink SQL that makes it."""

    columns: list[dict[str, str]] = field(default_factory=lambda: K_V)
    keys: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    commits: list[list[Any]] = field(default_factory=lambda: _ROWS)
    steps: list[dict[str, Any]] = field(default_factory=list)
    sql: str = ""
    projection: list[str] | None = None


def _documents(**options: str) -> Kind:
    columns = [{"name": "k", "type": "INT"}, {"name": "v", "type": "VARIANT"}]
    return Kind(columns=columns, options=_MERGED | options, commits=_DOCUMENTS)


_SHREDDING = json.dumps(
    {
        "type": "ROW",
        "fields": [
            {
                "name": "v",
                "type": {
                    "type": "ROW",
                    "fields": [{"name": "a", "type": "INT"}, {"name": "b", "type": "STRING"}],
                },
            }
        ],
    }
)


def _flink(columns: str, options: dict[str, str], values: str) -> Kind:
    clause = ", ".join(f"'{k}' = '{v}'" for k, v in options.items())
    inserts = "".join(f"INSERT INTO t VALUES {values.replace('#', str(i))};\n" for i in range(3))
    sql = f"CREATE TABLE t ({columns}) WITH ({clause});\n{inserts}"
    return Kind(sql=sql, projection=["k"])


_CHAIN = [
    {"change": "set_option", "key": f"scan.fallback-{name}-branch", "value": name}
    for name in ("snapshot", "delta")
]
KINDS: dict[str, Kind] = {
    "row tracking": Kind(options=TRACKED),
    "data evolution": Kind(options=EVOLVING),
    "MAP, shared shredding": Kind(
        columns=[{"name": "k", "type": "INT"}, {"name": "m", "type": "MAP<STRING NOT NULL, INT>"}],
        options={
            "bucket": "-1",
            "fields.m.map.storage-layout": "shared-shredding",
            "fields.m.map.shared-shredding.max-columns": "4",
        },
        commits=[[[i, {"a": i, "b": 2}], [i + 10, {"c": None}], [i + 20, None]] for i in range(3)],
    ),
    "VARIANT": _documents(),
    "VARIANT, shredded": _documents(**{"parquet.variant.shreddingSchema": _SHREDDING}),
    "VARIANT, shredded by inference": _documents(**{"variant.inferShreddingSchema": "true"}),
    "VARIANT, shredded, in buckets": _documents(
        **{"bucket": "1", "bucket-key": "k", "parquet.variant.shreddingSchema": _SHREDDING}
    ),
    "VARIANT by keys": Kind(
        columns=[{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "VARIANT"}],
        keys=["k"],
        options=KEYED,
        commits=_DOCUMENTS,
    ),
    "VECTOR": _flink(
        "k INT, e ARRAY<FLOAT> COMMENT '__VECTOR_FIELD;2'",
        _MERGED | {"field.e.vector-dim": "2"},
        "(#, ARRAY[CAST(1.5 AS FLOAT), CAST(# AS FLOAT)])",
    ),
    "VECTOR in buckets": _flink(
        "k INT, e ARRAY<FLOAT> COMMENT '__VECTOR_FIELD;2'",
        {"bucket": "1", "bucket-key": "k", "field.e.vector-dim": "2"},
        "(#, ARRAY[CAST(1.5 AS FLOAT), CAST(# AS FLOAT)])",
    ),
    "BLOB": _flink(
        "k INT, b BYTES COMMENT '__BLOB_FIELD'", EVOLVING, "(#, X'0102'), (1#, X'0304')"
    ),
    "BLOB, managed": _flink(
        "k INT, b BYTES COMMENT '__BLOB_FIELD', PRIMARY KEY (k) NOT ENFORCED",
        KEYED,
        "(#, X'0102'), (100, X'0#04')",
    ),
    "primary-key index": Kind(
        columns=[{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}],
        keys=["k"],
        options={
            "bucket": "1",
            "deletion-vectors.enabled": "true",
            "pk-btree.index.columns": "v",
        },
    ),
    "global index": Kind(
        sql=(
            "CREATE TABLE t (k INT, v STRING) WITH ('bucket' = '-1', "
            "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', "
            "'compaction.min.file-num' = '2');\n"
            "INSERT INTO t VALUES (1, 'a');\nINSERT INTO t VALUES (2, 'b');\n"
            "CALL sys.create_global_index(`table` => 'db.t', index_column => 'k', "
            "index_type => 'btree');\n"
        ),
    ),
    "chain table": Kind(
        columns=[
            {"name": "k", "type": "INT NOT NULL"},
            {"name": "v", "type": "STRING"},
            {"name": "dt", "type": "STRING NOT NULL"},
        ],
        keys=["dt", "k"],
        options={
            "bucket": "1",
            "bucket-key": "k",
            "chain-table.enabled": "true",
            "sequence.field": "v",
            "partition.timestamp-pattern": "$dt",
            "partition.timestamp-formatter": "yyyyMMdd",
        },
        commits=[[[i, "v", "20240101"]] for i in range(3)],
        steps=[
            {"op": "create_branch", "name": "snapshot"},
            {"op": "create_branch", "name": "delta"},
            *(
                {"op": "alter_table", "changes": _CHAIN, **({"branch": b} if b else {})}
                for b in ("", "snapshot", "delta")
            ),
            {"op": "write", "rows": [[5, "w", "20240102"]], "branch": "delta"},
        ],
    ),
    "snapshot ordering": Kind(
        columns=[{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}],
        keys=["k"],
        options={**KEYED, "sequence.snapshot-ordering": "true"},
    ),
    "vectors merged on read": Kind(
        columns=[{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}],
        keys=["k"],
        options={
            **KEYED,
            "deletion-vectors.enabled": "true",
            "deletion-vectors.merge-on-read": "true",
        },
    ),
    "clustered by keys": Kind(
        columns=[{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}],
        keys=["k"],
        options={
            "bucket": "1",
            "pk-clustering-override": "true",
            "clustering.columns": "v",
            "deletion-vectors.enabled": "true",
        },
    ),
}
JOBS: dict[str, tuple[Any, ...]] = {
    "compact": ("compact", "--strategy", "full"),
    "sort": ("sort_compact", "--order-strategy", "order", "--order-by", "k"),
    "rescale": ("rescale", "--bucket-num", 2),
    "manifests": ("compact_manifest",),
    "expire": (
        *("expire_snapshots", "--retain-max", 1, "--retain-min", 1),
        *("--older-than", "2100-01-01"),
    ),
    "orphans": ("remove_orphan_files",),
    "tag": ("create_tag", "--tag", "new"),
    "branch": ("create_branch", "--branch-name", "new", "--tag", "old"),
    "rollback": ("rollback", "--tag", "old"),
    "analyze": ("analyze",),
}
REWRITING = frozenset({"compact", "sort", "rescale", "analyze"})


def make(folder: Path, name: str, java: Oracle, flink: FlinkSql) -> Path:
    """The warehouse of a kind, made if it is not there; its newest snapshot but one has a tag."""
    kind = KINDS[name]
    warehouse = folder / name.replace(" ", "-").replace(",", "")
    if (warehouse / "done").exists():
        return warehouse
    shutil.rmtree(warehouse, ignore_errors=True)
    warehouse.mkdir(parents=True)
    java.defaults(warehouse=warehouse)
    java.one("create_database")
    if kind.sql:
        flink(
            f"CREATE CATALOG c WITH ('type' = 'paimon', 'warehouse' = '{warehouse}');\n"
            "USE CATALOG c;\nUSE db;\nSET 'table.dml-sync' = 'true';\n" + kind.sql
        )
    else:
        java.one(
            "create_table", columns=kind.columns, primary_keys=kind.keys, options=kind.options,
            **({"partition_keys": ["dt"]} if "dt" in kind.keys else {}),
        )  # fmt: skip
        java(kind.steps)
        for rows in kind.commits:
            java.one("write", rows=rows)
    snapshots = [s["id"] for s in java.one("snapshots")["snapshots"]]
    java.one("create_tag", name="old", snapshot=sorted(snapshots)[-2])
    (warehouse / "done").touch()
    return warehouse


def cell(name: str, job: str, made: Path, copy: Path, java: Oracle) -> str:
    """The outcome of one job on a copy."""
    projection = KINDS[name].projection
    read = {} if projection is None else {"projection": projection}
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(made, copy)
    java.defaults(warehouse=copy)
    if job == "rollback":
        java.one("rollback_to", tag="old")
    wanted = java.rows(**read)
    if job == "rollback":
        shutil.rmtree(copy)
        shutil.copytree(made, copy)
    if job == "orphans":
        _age(copy)
    before = _files(copy)
    words = JOBS[job]
    local = ("--engine", "local") if job in REWRITING else ()
    ran = caretaker("run", words[0], "db.t", "-w", copy, "--force", "--json", *local, *words[1:])
    if ran.code == 4:
        return f"no ({_feature(ran)})" if _files(copy) == before else "WRONG: refused, but changed"
    if ran.code not in {0, 3}:
        return f"ERROR {ran.code}: {ran.err.strip()[:120]}"
    try:
        rows = java.rows(**read)
    except AssertionError as e:
        return f"WRONG: Java: {str(e)[:120]}"
    if rows != wanted:
        return f"WRONG: {len(rows)} rows instead of {len(wanted)}"
    return "yes" if ran.code == 0 else "idle"


def read_cell(name: str, made: Path, java: Oracle) -> str:
    """Whether our rows are Java's."""
    java.defaults(warehouse=made)
    ran = caretaker("read", "db.t", "-w", made, *_columns(KINDS[name]))
    if ran.code == 4:
        return f"no ({ran.err.split('it uses ')[-1].split(', which')[0].strip()[:70]})"
    if ran.code:
        return f"ERROR {ran.code}: {ran.err.strip()[:120]}"
    projection = KINDS[name].projection
    read = {} if projection is None else {"projection": projection}
    ours = sorted(json.dumps(row) for row in ran.rows)
    theirs = sorted(json.dumps(row) for row in java.rows(**read))
    return "yes" if ours == theirs else f"WRONG: {ours[:2]} instead of {theirs[:2]}"


def _columns(kind: Kind) -> tuple[str, ...]:
    return () if kind.projection is None else ("--columns", ",".join(kind.projection))


def _feature(ran: Ran) -> str:
    return str(ran.json["error"].get("feature"))


def _files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def _age(folder: Path) -> None:
    old = time.time() - 3 * 86_400
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))


def matrix(folder: Path, names: list[str]) -> Iterator[str]:
    """The lines of the table, in Markdown; what is not short goes to standard error."""
    process = OracleProcess("2.0.0")
    java = Oracle(process).defaults(database="db", table="t")
    flink = FlinkSql(folder)
    yield "| kind | read | " + " | ".join(JOBS) + " |"
    yield "|---" * (len(JOBS) + 2) + "|"
    for name in names:
        try:
            made = make(folder, name, java, flink)
        except AssertionError as e:
            yield f"| {name} | Java: {str(e)[-300:]} |"
            continue
        looks: list[Callable[[], str]] = [lambda: read_cell(name, made, java)]  # noqa: B023
        looks += [
            lambda job=job: cell(name, job, made, folder / "copy", java)  # type: ignore[misc]  # noqa: B023
            for job in JOBS
        ]
        cells = [look() for look in looks]
        for job, text in zip(["read", *JOBS], cells, strict=True):
            print(f"{name}: {job}: {text}", file=sys.stderr)
        yield f"| {name} | " + " | ".join(c.split(" ")[0].rstrip(":") for c in cells) + " |"
    process.close()


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve()
    place.mkdir(parents=True, exist_ok=True)
    for line in matrix(place, sys.argv[2:] or list(KINDS)):
        print(line, flush=True)
