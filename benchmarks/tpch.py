"""The 22 queries of TPC-H on Paimon tables through SQL, beside Spark on Parquet files, in turns.

    python benchmarks/tpch.py --scale 1 --folder /tmp/tpch
    python benchmarks/tpch.py --scale 0.1 --queries 1,6 --times 3

DuckDB makes the data; its newest release that brings the generator goes into an environment in a
temporary folder, or --python names a Python that has it.  What is in --folder already is used
again.

==========  ==================================================================================
parquet     the files of DuckDB, rewritten by Spark
append      append tables without buckets, written by `paimon_spark.source.write`
pk          primary-key tables, fixed buckets, write-only: four runs that overlap everywhere; each
            but the last holds old versions of a tenth of the rows of the next
==========  ==================================================================================

All answers must be equal.  To reach: 1.3 times the time of Parquet for `append`, 2 times for `pk`.
With --first, each query on `pk` is the first one after a commit: what is known of its files is
forgotten before it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from figures import Figure, exit_code, record
from processes import machine

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

DUCKDB: Final = "duckdb==1.1.3"
MAKE: Final = """
import duckdb, json, sys
folder, scale = sys.argv[1], float(sys.argv[2])
c = duckdb.connect()
c.execute("LOAD tpch")
c.execute(f"CALL dbgen(sf={scale})")
for (name,) in c.execute("SHOW TABLES").fetchall():
    c.execute(f"COPY {name} TO '{folder}/{name}.parquet' (FORMAT parquet)")
queries = c.execute("SELECT query_nr, query FROM tpch_queries()").fetchall()
json.dump(dict(queries), open(f"{folder}/queries.json", "w"))
"""
KEYS: Final = {
    "customer": ["c_custkey"],
    "lineitem": ["l_orderkey", "l_linenumber"],
    "nation": ["n_nationkey"],
    "orders": ["o_orderkey"],
    "part": ["p_partkey"],
    "partsupp": ["ps_partkey", "ps_suppkey"],
    "region": ["r_regionkey"],
    "supplier": ["s_suppkey"],
}
BUCKETS: Final = {"lineitem": 8, "orders": 4, "partsupp": 2}
CHANGED: Final = {"lineitem": "l_comment", "orders": "o_comment", "partsupp": "ps_comment"}
"""A column that the old versions of rows have another value in."""
RUNS: Final = 4
TARGETS: Final = {"append": 1.3, "pk": 2.0}


def main() -> int:
    """0 if all answers are equal and the targets are reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--times", type=int, default=3, help="how often each query is measured")
    parser.add_argument("--queries", help="their numbers, separated by commas (default: all)")
    parser.add_argument("--ways", default="append,pk", help="of append and pk (default: both)")
    parser.add_argument("--folder", metavar="PATH", help="where the data is kept")
    parser.add_argument("--python", metavar="PATH", help="a Python that has DuckDB")
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--first", action="store_true", help="forget hidden rows between queries")
    parser.add_argument("--only-make", action="store_true", help="make the tables, measure nothing")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(wanted.folder or temporary).resolve() / f"scale-{wanted.scale:g}"
        _generate(folder / "made", wanted.scale, wanted.python, Path(temporary))
        os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parent.parent)
        spark = _session(wanted.master)
        try:
            if wanted.only_make:
                _load(spark, folder, _ways(wanted))
                return 0
            return _measure(spark, folder, wanted)
        finally:
            spark.stop()


def _generate(folder: Path, scale: float, python: str | None, temporary: Path) -> None:
    if (folder / "queries.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    if python is None:
        venv.create(temporary / "duckdb", with_pip=True)
        python = str(temporary / "duckdb" / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", DUCKDB], check=True)
    subprocess.run([python, "-c", MAKE, str(folder), str(scale)], check=True)


def _session(master: str) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - its workers need the path set above

    import paimon_spark  # noqa: PLC0415 - same

    spark = (
        SparkSession.builder.master(master)
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    paimon_spark.register(spark)
    return spark


# --- tables -------------------------------------------------------------------------------------


def _ways(wanted: argparse.Namespace) -> list[str]:
    return [w for w in wanted.ways.split(",") if w]


def _load(spark: SparkSession, folder: Path, ways: list[str]) -> None:
    """Write what is not there yet, and say how long it took."""
    for name in KEYS:
        source = spark.read.parquet(str(folder / "made" / f"{name}.parquet"))
        parquet = folder / "parquet" / name
        if not parquet.exists():
            begun = time.perf_counter()
            source.write.parquet(str(parquet))
            print(f"parquet {name}: {time.perf_counter() - begun:.1f} s", flush=True)
        for way in ways:
            warehouse = folder / way
            if (warehouse / "default.db" / name / "snapshot").exists():
                continue
            begun = time.perf_counter()
            {"append": _append, "pk": _primary_key}[way](warehouse, name, source)
            print(f"{way} {name}: {time.perf_counter() - begun:.1f} s", flush=True)


def _create(warehouse: Path, name: str, source: DataFrame, **given: Any) -> str:
    from paimon_core import open_catalog  # noqa: PLC0415 - after the path is set

    schema: Any = source.limit(0).toArrow().schema
    catalog = open_catalog(str(warehouse))
    catalog.create_database("default", ignore_if_exists=True)
    catalog.create_table(f"default.{name}", schema, **given)
    return str(warehouse / "default.db" / name)


def _append(warehouse: Path, name: str, source: DataFrame) -> None:
    from paimon_spark.source import write  # noqa: PLC0415 - after the path is set

    write(source, path=_create(warehouse, name, source))


def _primary_key(warehouse: Path, name: str, source: DataFrame) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as in Spark's own manual

    from paimon_spark.source import write  # noqa: PLC0415 - after the path is set

    keys = KEYS[name]
    options = {"bucket": str(BUCKETS.get(name, 1)), "write-only": "true"}
    path = _create(warehouse, name, source, primary_keys=keys, options=options)
    run = F.pmod(F.hash(*keys), F.lit(RUNS))
    for number in range(RUNS):
        rows = source.where(run == number)
        if name in CHANGED and number + 1 < RUNS:
            old = source.where((run == number + 1) & (F.pmod(F.xxhash64(*keys), F.lit(10)) == 0))
            rows = rows.unionAll(old.withColumn(CHANGED[name], F.lit("replaced since")))
        write(rows, path=path)


# --- queries ------------------------------------------------------------------------------------


def _measure(spark: SparkSession, folder: Path, wanted: argparse.Namespace) -> int:
    from paimon_spark.source.reads.skipped_rows import forget_hidden_rows  # noqa: PLC0415 - same
    from paimon_spark.sql import SqlSession, sql  # noqa: PLC0415 - after the path is set
    from paimon_spark.sql.kept_frames import KeptFrames  # noqa: PLC0415 - same

    ways = _ways(wanted)
    _load(spark, folder, ways)
    for name in KEYS:
        spark.read.parquet(str(folder / "parquet" / name)).createOrReplaceTempView(name)
    sessions = {
        way: SqlSession(warehouse=str(folder / way), start_spark=lambda: spark) for way in ways
    }
    queries = json.loads((folder / "made" / "queries.json").read_text())
    chosen = wanted.queries.split(",") if wanted.queries else list(queries)
    print(json.dumps({**machine(), "scale": wanted.scale, "master": wanted.master}), flush=True)
    heads = ["parquet s | CPU s", *(f"{w} s | ratio | of CPU" for w in ways)]
    print(f"| query | {' | '.join(heads)} |", flush=True)
    totals = dict.fromkeys(["parquet", *ways], (0.0, 0.0))
    wrong = []
    for number in chosen:
        text = queries[number].rstrip().rstrip(";")

        def run(way: str, text: str = text) -> pa.Table:
            if way == "parquet":
                return spark.sql(text).toArrow()
            return sql(spark, text, session=sessions[way]).toArrow()

        # The first time is not measured: Spark compiles, and the answers are compared.
        expected = _rows(run("parquet"))
        wrong += [f"{number} {way}" for way in ways if _rows(run(way)) != expected]
        best = dict.fromkeys(totals, (float("inf"), float("inf")))
        for _ in range(wanted.times):
            for way in totals:
                if wanted.first:
                    forget_hidden_rows()
                    for session in sessions.values():
                        session.frames = KeptFrames()
                begun, cpu = time.perf_counter(), _cpu_seconds()
                run(way)
                taken = (time.perf_counter() - begun, _cpu_seconds() - cpu)
                best[way] = (min(best[way][0], taken[0]), min(best[way][1], taken[1]))
        for way, (seconds, cpu) in best.items():
            totals[way] = (totals[way][0] + seconds, totals[way][1] + cpu)
        _print_line(number, best)
    _print_line("all", totals)
    for answer in wrong:
        print(f"WRONG ANSWER: {answer}")
    base = totals["parquet"]
    record([Figure(name="all queries, Parquet", value=round(base[0], 1), unit="s")])
    for way in ways:
        ratio, cpu = (
            round(ours / theirs, 2) for ours, theirs in zip(totals[way], base, strict=True)
        )
        record(
            [
                Figure(name=f"all queries, {way}, to Parquet", value=ratio, target=TARGETS[way]),
                Figure(name=f"all queries, {way}, CPU to Parquet", value=cpu),
            ]
        )
    record([Figure(name="wrong answers", value=len(wrong), unit="answers", target=0)])
    slow = [w for w in ways if totals[w][0] > TARGETS[w] * totals["parquet"][0]]
    for way in slow:
        print(f"MISSED: {way} within {TARGETS[way]} times the time of Parquet")
    return exit_code(missed=bool(wrong or slow))


def _print_line(name: str, taken: dict[str, tuple[float, float]]) -> None:
    base = taken["parquet"]
    cells = [f"{base[0]:.2f} | {base[1]:.2f}"]
    cells += [
        f"{s:.2f} | {s / base[0]:.2f} | {cpu / base[1]:.2f}"
        for way, (s, cpu) in taken.items()
        if way != "parquet"
    ]
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


_seen: dict[int, int] = {}


def _cpu_seconds() -> float:
    """Of this process and all that it started: the JVM and the Python workers."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        ticks[pid] = int(fields[11]) + int(fields[12])
    family = {os.getpid()}
    while more := {p for p, parent in parents.items() if parent in family} - family:
        family |= more
    # Workers that have ended since count with what they had taken when they were last seen.
    _seen.update({p: ticks[p] for p in family if p in ticks})
    return sum(_seen.values()) / os.sysconf("SC_CLK_TCK")


def _rows(table: pa.Table) -> list[str]:
    """The rows in an order of their own; sums of doubles depend on the order of rows."""
    rows = [
        tuple(_digits(v) for v in row.values())
        for row in table.rename_columns([f"c{i}" for i in range(table.num_columns)]).to_pylist()
    ]
    return sorted(repr(r) for r in rows)


def _digits(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.9g}"
    return value.normalize() if isinstance(value, Decimal) else value


if __name__ == "__main__":
    sys.exit(main())
