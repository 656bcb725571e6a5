"""Builds of a global index, ours and Flink's, and queries with and without it.

    ./caretaker python benchmarks/global_index.py               a million rows, a minute
    ./caretaker python benchmarks/global_index.py --rows 10000000

The table has ten append files, a BIGINT in random order and a STRING of 17 bytes, half of whose
values occur twice.  Ours is the whole job on one thread; Flink is 2.0 with the official connector,
parallelism 1, `CALL sys.create_global_index`, without the start of the JVM and of the first job.  A
query reads the rows of one value in a process of its own, from the open table to the last row.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from compaction import ORACLE, has_java
from processes import machine, run, run_step

OPTIONS = {
    "bucket": "-1",
    "write-only": "true",
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
}
COLUMNS = ("number", "name")
FILES = 10


def step_make(request: dict[str, Any]) -> dict[str, Any]:
    """The table, and a value of each column."""
    import numpy as np  # noqa: PLC0415 - the parent imports nothing large
    import pyarrow as pa  # noqa: PLC0415

    from paimon_core.catalog.filesystem import FileSystemCatalog  # noqa: PLC0415
    from paimon_core.ddl.create import Column, create_schema  # noqa: PLC0415
    from paimon_core.environment import system_environment  # noqa: PLC0415
    from paimon_core.table.open import open_table  # noqa: PLC0415
    from paimon_core.table.sink.write_session import write_rows  # noqa: PLC0415

    env, rows = system_environment(), request["rows"]
    catalog = FileSystemCatalog(request["warehouse"], {})
    catalog.create_database("db")
    columns = [Column("number", "BIGINT"), Column("name", "STRING")]
    catalog.create_table(
        "db.t", create_schema(columns, now_millis=env.now_millis(), options=OPTIONS)
    )
    rng = np.random.default_rng(7)
    numbers = rng.permutation(rows)
    for part in np.array_split(numbers, FILES):
        names = [f"customer-{i % (rows * 3 // 4):08d}" for i in part.tolist()]
        batch = pa.table({"number": pa.array(part, pa.int64()), "name": names})
        write_rows(open_table(request["warehouse"], "db.t"), batch, env=env)
    return {"number": str(int(numbers[0])), "name": f"'customer-{7:08d}'"}


def step_build(request: dict[str, Any]) -> dict[str, Any]:
    """One build, and what it took."""
    import pyarrow as pa  # noqa: PLC0415 - the parent imports nothing large

    from paimon_maintenance.registry import job_named  # noqa: PLC0415
    from paimon_maintenance.run.request import RunRequest  # noqa: PLC0415
    from paimon_maintenance.run.runner import run_table  # noqa: PLC0415

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    job = job_named("create_global_index")
    wall, cpu = time.perf_counter(), time.process_time()
    report = run_table(
        RunRequest(
            job=job,
            warehouse=request["warehouse"],
            table="db.t",
            arguments=job.read_arguments({"index_column": request["column"]}),
        )
    )
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if report.error is not None:
        raise report.error
    return {"seconds": wall, "cpu_seconds": cpu, "bytes": report.details["bytes"]}


def step_query(request: dict[str, Any]) -> dict[str, Any]:
    """The rows of one value."""
    from paimon_core.predicate import parse_where  # noqa: PLC0415 - the parent imports nothing large
    from paimon_core.read.table_read import read_table  # noqa: PLC0415
    from paimon_core.table.open import open_table  # noqa: PLC0415

    started = time.perf_counter()
    table = open_table(request["warehouse"], "db.t", dynamic_options=request["options"])
    predicate = parse_where(f"{request['column']} = {request['value']}", table.schema.row_type)
    rows = read_table(table, table.latest_or_not_found(), predicate=predicate)
    found = sum(batch.num_rows for batch in rows)
    return {"seconds": time.perf_counter() - started, "rows": found}


def flink(warehouse: Path, column: str) -> float:
    """The seconds of Flink's procedure."""
    call = "CALL sys.create_global_index(`table` => 'db.t', "
    text = "\n".join(
        [
            "SET 'table.dml-sync' = 'true';",
            f"CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = '{warehouse}');",
            "USE CATALOG lake;",
            # The first job loads the classes of Flink's runtime.
            "SELECT COUNT(*) FROM `db`.`t$snapshots`;",
            f"{call}index_column => '{column}', index_type => 'btree');",
        ]
    )
    command = [str(ORACLE / "flink-sql"), "-"]
    measured = run(command, text=text, environment={"FLINK_PARALLELISM": "1"})
    answer = next(line for line in measured.lines if line.endswith("index_type => 'btree')"))
    if not answer.startswith("OK"):
        raise SystemExit(f"Flink: {answer}")
    return float(answer.split(" rows ")[1].split(" s ")[0])


def main() -> None:
    """Print tables, and the machine as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="number of rows")
    rows = parser.parse_args().rows
    folder = Path(tempfile.mkdtemp(prefix="global-index-"))
    try:
        made = run_step(__file__, "make", warehouse=str(folder / "lake"), rows=rows).answer
        print("| column | ours s, CPU s | MB | RSS MB | flink s | query s with | without |")
        print("|---|---|---|---|---|---|---|")
        for column in COLUMNS:
            print(_line(folder, column, made[column]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(machine()))


def _line(folder: Path, column: str, value: str) -> str:
    lake = folder / "lake"
    theirs = "-"
    if has_java():
        shutil.copytree(lake, folder / "flink")
        theirs = f"{flink(folder / 'flink', column):.1f}"
        shutil.rmtree(folder / "flink")
    built = run_step(__file__, "build", warehouse=str(lake), column=column)
    ours = built.answer
    queries = [
        run_step(
            __file__, "query", warehouse=str(lake), column=column, value=value, options=options
        ).answer
        for options in ({}, {"global-index.enabled": "false"})
    ]
    if len({q["rows"] for q in queries}) != 1:
        raise SystemExit(f"the index finds other rows: {queries}")
    with_index, without = (f"{q['seconds']:.3f}" for q in queries)
    return (
        f"| {column} | {ours['seconds']:.1f}, {ours['cpu_seconds']:.1f} | {ours['bytes'] / 1e6:.0f} "
        f"| {built.peak_mb:.0f} | {theirs} | {with_index} | {without} |"
    )


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        asked = json.loads(sys.argv[1])
        print(json.dumps(globals()[f"step_{asked.pop('step')}"](asked)))
    else:
        main()
