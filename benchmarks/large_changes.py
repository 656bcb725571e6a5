"""UPDATE and MERGE of large tables in SQL: by executors and by the driver, time and memory.

    ./caretaker python benchmarks/large_changes.py --rows 4000000
    ./caretaker python benchmarks/large_changes.py --kinds evolved --ways executors

Each way runs in a process of its own, with Spark `local[*]`: UPDATE sets a number in a tenth of the
rows, MERGE a text in up to 300,000 of them.  The memory is that of the Python process of the
driver.  All rows are counted and added up afterwards; both ways must agree.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from processes import machine, run_step

KINDS: Final = {
    "append": "'bucket' = '-1'",
    "vectors": "'deletion-vectors.enabled' = 'true'",
    "tracked": "'row-tracking.enabled' = 'true'",
    "evolved": "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true'",
    "keys": "'primary-key' = 'id', 'bucket' = '4', 'write-only' = 'true'",
}
WAYS: Final = ("executors", "driver")
FILL: Final = """
    INSERT INTO t SELECT id, id * 7, rand(), md5(CAST(id AS STRING)), uuid(), CAST(id % 10 AS INT)
    FROM range(0, {rows}, 1, 4)
"""
STATEMENTS: Final = {
    "UPDATE": "UPDATE t SET a = a + 1 WHERE p = 3",
    "MERGE": """
        MERGE INTO t USING (SELECT id * 13 AS k FROM range(300000)) s ON t.id = s.k
        WHEN MATCHED THEN UPDATE SET v = concat(v, 'x')
    """,
}


def measure(request: dict[str, Any]) -> None:
    """One way: print seconds and megabytes of each statement, then what the table holds."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - in the step's process

    from paimon_spark.sql.dml import large_changes  # noqa: PLC0415 - same
    from paimon_spark.sql.run import execute  # noqa: PLC0415 - same
    from paimon_spark.sql.session import SqlSession  # noqa: PLC0415 - same

    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.memory", "3g").getOrCreate()
    if request["way"] == "driver":
        large_changes.LARGE_CHANGE = 1 << 60  # type: ignore[misc]
    session = SqlSession(warehouse=request["folder"], start_spark=lambda: spark)
    columns = "id BIGINT NOT NULL, a BIGINT, b DOUBLE, v STRING, w STRING, p INT"
    execute(session, f"CREATE TABLE t ({columns}) TBLPROPERTIES ({KINDS[request['kind']]})")
    execute(session, FILL.format(rows=request["rows"]))
    found: dict[str, Any] = {}
    for name, statement in STATEMENTS.items():
        started = time.perf_counter()
        execute(session, statement)
        found[name] = time.perf_counter() - started
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found["sums"] = execute(session, "SELECT count(*), sum(a), sum(length(v)) FROM t").rows
    print(json.dumps(found, default=str))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--folder", type=Path, help="where the tables are made; they go in the end")
    arguments = parser.parse_args()
    print(machine())
    print("| table | way | UPDATE, s | MERGE, s | peak MB |\n|---|---|---|---|---|")
    for kind in arguments.kinds:
        sums = []
        for way in arguments.ways:
            folder = tempfile.mkdtemp(prefix="changes-", dir=arguments.folder)
            try:
                answer = run_step(
                    __file__, "measure", kind=kind, way=way, rows=arguments.rows, folder=folder
                ).answer
            finally:
                shutil.rmtree(folder)
            sums.append(answer["sums"])
            print(
                f"| {kind} | {way} | {answer['UPDATE']:.1f} | {answer['MERGE']:.1f} | "
                f"{answer['peak']:,.0f} |",
                flush=True,
            )
        if any(s != sums[0] for s in sums):
            raise SystemExit(f"{kind}: the ways disagree: {sums}")


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        measure(json.loads(sys.argv[1]))
    else:
        main()
