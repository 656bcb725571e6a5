"""TPC-H on one lake, by this project on Spark 4 and Paimon's own connector on Spark 3.5, in turns.

    python benchmarks/tpch_connector.py --scale 1 --folder /tmp/tpch

Makes the tables of `tpch.py` where they are not there yet, and starts one process for each side,
which keeps its Spark: so both have warm JVMs, and the same load of the machine.  Each query runs
once on each side without being measured, then --times in turns; the fastest counts.  Both also read
the Parquet files, which shows what the newer Spark alone is worth.  All answers must be equal.

pip brings PySpark 3.5.5 into an environment in --folder, for the Python that --python names
(default: this one; Spark 3.5 knows Python up to 3.12), and Maven brings the connector, unless --jar
names it.  To reach: no more time than the connector.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent))
from figures import Figure, exit_code, record  # noqa: E402 - after the path
from processes import machine  # noqa: E402 - same
from tpch import KEYS, _cpu_seconds, _session  # noqa: E402 - same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK: Final = "pyspark==3.5.5"
CONNECTOR: Final = "paimon-spark-3.5"
VERSION: Final = "0.9.0"
PARQUET: Final = "parquet"
Run = Callable[[str], list[Any]]


def main() -> int:
    """0 if all answers are equal and ours take no more time than the connector's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--folder", required=True, metavar="PATH", help="where data is kept")
    parser.add_argument("--way", choices=["append", "pk"], default="pk")
    parser.add_argument("--queries", help="their numbers, separated by commas (default: all)")
    parser.add_argument("--times", type=int, default=2, help="how often each query is measured")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--jar", metavar="PATH", help=f"{CONNECTOR}-{VERSION}.jar")
    parser.add_argument("--python", metavar="PATH", help="the Python for Spark 3.5")
    parser.add_argument("--duckdb", metavar="PATH", help="a Python that has DuckDB, for tpch.py")
    wanted = parser.parse_args()
    folder = Path(wanted.folder).resolve()
    data = folder / f"scale-{wanted.scale:g}"
    _make(wanted)
    jar = Path(wanted.jar) if wanted.jar else _connector()
    python = _spark_3_5(folder / "spark-3.5", wanted.python or sys.executable)
    queries = json.loads((data / "made" / "queries.json").read_text())
    chosen = wanted.queries.split(",") if wanted.queries else list(queries)
    request = {"folder": str(data), "way": wanted.way, "master": wanted.master}
    print(json.dumps({**machine(), "scale": wanted.scale, "master": wanted.master}), flush=True)
    print(
        "| query | ours s | CPU s | connector s | CPU s | ratio | of CPU "
        "| Parquet, Spark 4: s | CPU s | Parquet, Spark 3.5: s | CPU s |"
    )
    with ExitStack() as stack:
        ours = stack.enter_context(_side(sys.executable, {**request, "side": "ours"}))
        theirs = stack.enter_context(
            _side(python, {**request, "side": "connector", "jar": str(jar)})
        )
        return _compare(ours, theirs, queries, chosen, wanted)


def _compare(
    ours: Side, theirs: Side, queries: dict[str, str], chosen: list[str], wanted: argparse.Namespace
) -> int:
    totals = [(0.0, 0.0)] * 4
    wrong = []
    for number in chosen:
        text = queries[number].rstrip().rstrip(";")
        places = [(side, way) for way in (wanted.way, PARQUET) for side in (ours, theirs)]
        answers = [side(way, text)["rows"] for side, way in places]
        if any(rows != answers[0] for rows in answers):
            wrong.append(number)
        best = [(float("inf"), float("inf"))] * len(places)
        for _ in range(wanted.times):
            for i, (side, way) in enumerate(places):
                found = side(way, text)
                best[i] = (min(best[i][0], found["seconds"]), min(best[i][1], found["cpu"]))
        totals = [(a + s, b + c) for (a, b), (s, c) in zip(totals, best, strict=True)]
        _print_line(number, best)
    _print_line("all", totals)
    for number in wrong:
        print(f"WRONG ANSWER: {number}")
    ratio, cpu = (round(a / b, 2) for a, b in zip(totals[0], totals[1], strict=True))
    name = f"{len(chosen)} queries, {wanted.way}"
    record(
        [
            Figure(name=f"{name}, to the connector {VERSION}", value=ratio, target=1.0),
            Figure(name=f"{name}, CPU to the connector {VERSION}", value=cpu),
            Figure(name="wrong answers", value=len(wrong), unit="answers", target=0),
        ]
    )
    return exit_code(missed=bool(wrong) or ratio > 1)


def _print_line(name: str, taken: list[tuple[float, float]]) -> None:
    ours, theirs = taken[:2]
    cells = [f"{seconds:.2f} | {cpu:.2f}" for seconds, cpu in taken]
    cells.insert(2, f"{ours[0] / theirs[0]:.2f} | {ours[1] / theirs[1]:.2f}")
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


# --- what is needed -----------------------------------------------------------------------------


def _make(wanted: argparse.Namespace) -> None:
    """Have `tpch.py` make the tables that are not there yet."""
    command = [sys.executable, str(HERE.parent / "tpch.py"), "--scale", str(wanted.scale)]
    command += ["--folder", wanted.folder, "--ways", wanted.way, "--master", wanted.master]
    command += ["--only-make", *(["--python", wanted.duckdb] if wanted.duckdb else [])]
    subprocess.run(command, check=True)


def _connector() -> Path:
    """The connector in Maven's folder of downloads, fetched if it is not there."""
    home = Path.home() / ".m2" / "repository" / "org" / "apache" / "paimon"
    jar = home / CONNECTOR / VERSION / f"{CONNECTOR}-{VERSION}.jar"
    if not jar.exists():
        artifact = f"org.apache.paimon:{CONNECTOR}:{VERSION}"
        command = ["mvn", "--quiet", "dependency:get", f"-Dartifact={artifact}"]
        subprocess.run([*command, "-Dtransitive=false"], check=True)
    return jar


def _spark_3_5(folder: Path, python: str) -> str:
    """The Python of an environment with Spark 3.5, made if it is not there."""
    made = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        if python == sys.executable:
            venv.create(folder, with_pip=True)
        else:
            subprocess.run([python, "-m", "venv", str(folder)], check=True)
        subprocess.run([made, "-m", "pip", "install", "--quiet", SPARK], check=True)
        (folder / "complete").touch()
    return str(made)


# --- the two sides ------------------------------------------------------------------------------


Side = Callable[[str, str], dict[str, Any]]


@contextmanager
def _side(python: str, request: dict[str, str]) -> Iterator[Side]:
    """A process that answers queries: (way, SQL) -> rows, seconds, CPU seconds."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SPARK_HOME")}
    environment |= {"PYSPARK_PYTHON": python, "PYTHONPATH": str(HERE.parent.parent)}
    process = subprocess.Popen(
        [python, str(HERE), json.dumps(request)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    requests, answers = process.stdin, process.stdout
    assert requests is not None
    assert answers is not None

    def ask(way: str, text: str) -> dict[str, Any]:
        requests.write(json.dumps([way, text]) + "\n")
        requests.flush()
        line = answers.readline()
        if not line:
            raise SystemExit(f"{request['side']} has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    try:
        yield ask
    finally:
        requests.close()
        process.wait()


def _serve(request: dict[str, str]) -> None:
    """Answer the queries on standard input until it ends."""
    folder = Path(request["folder"])
    # Only answers go to standard output.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark, run = (_ours if request["side"] == "ours" else _connector_s)(folder, request)
    for line in sys.stdin:
        way, text = json.loads(line)
        begun, cpu = time.perf_counter(), _cpu_seconds()
        rows = run[way](text)
        taken = {"seconds": time.perf_counter() - begun, "cpu": _cpu_seconds() - cpu}
        answer = sorted(repr(tuple(map(_digits, row))) for row in rows)
        out.write(json.dumps({**taken, "rows": answer}) + "\n")
        out.flush()
    spark.stop()


def _ours(folder: Path, request: dict[str, str]) -> tuple[SparkSession, dict[str, Run]]:
    from paimon_spark.sql import SqlSession, sql  # noqa: PLC0415 - not in the other Python

    spark = _session(request["master"])
    for name in KEYS:
        _parquet_view(spark, folder, name)
    session = SqlSession(warehouse=str(folder / request["way"]), start_spark=lambda: spark)
    return spark, {
        PARQUET: lambda text: list(spark.sql(text).collect()),
        request["way"]: lambda text: list(sql(spark, text, session=session).collect()),
    }


def _connector_s(folder: Path, request: dict[str, str]) -> tuple[SparkSession, dict[str, Run]]:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - the one of this Python

    builder = (
        SparkSession.builder.master(request["master"])
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.jars", request["jar"])
        .config("spark.sql.catalog.paimon", "org.apache.paimon.spark.SparkCatalog")
        .config("spark.sql.catalog.paimon.warehouse", f"file:{folder / request['way']}")
    )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    parquet = spark.newSession()
    for name in KEYS:
        _parquet_view(parquet, folder, name)
    spark.sql("USE paimon.default")
    return spark, {
        PARQUET: lambda text: list(parquet.sql(text).collect()),
        request["way"]: lambda text: list(spark.sql(text).collect()),
    }


def _parquet_view(spark: SparkSession, folder: Path, name: str) -> None:
    spark.read.parquet(str(folder / PARQUET / name)).createOrReplaceTempView(name)


def _digits(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.9g}"
    return value.normalize() if isinstance(value, Decimal) else value


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        _serve(json.loads(sys.argv[1]))
        sys.exit(0)
    sys.exit(main())
