"""Bulk writes: the library, the Spark source, and Java's core writer, each in a process of its own.

    python benchmarks/bulk_write.py --rows 10000000
    python benchmarks/bulk_write.py --only append --ways library,java

The columns of `compaction.py`, random values, one commit to a write-only table: `append` without
buckets, `pk` with one bucket.  All ways make the rows themselves, which counts; *library* and
*spark* also say what the rows alone cost.  *spark again* is a second commit of the same
application, whose Python workers run and whose JVM is warm.  Java is the oracle's `gen_write`,
whose CPU seconds are those beyond a process that did nothing but open the table.  To reach: half of
Java's CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent.parent))

from cases import COLUMNS  # noqa: E402 - after the path
from figures import Figure, exit_code, record  # noqa: E402 - same
from processes import Measured, machine, run, run_step  # noqa: E402 - same

ORACLE = HERE.parents[2] / "shared" / "oracle"
CHUNK = 500_000
TARGET = 2.0


def main() -> int:
    """0 if the library takes at most half of Java's CPU seconds for a row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", choices=["append", "pk"])
    parser.add_argument("--ways", default="library,spark,java")
    wanted = parser.parse_args()
    print(json.dumps(machine()))
    print("| table | way | s | CPU s | rows per CPU second | times Java's | peak MB |")
    missed = False
    for kind in [wanted.only] if wanted.only else ["append", "pk"]:
        speeds: dict[str, float] = {}
        # Java first, so that the others can be compared as they come.
        for way in sorted(wanted.ways.split(","), key=lambda w: w != "java"):
            with tempfile.TemporaryDirectory() as folder:
                found = WAYS[way](folder, kind, wanted.rows)
            for name, (wall, cpu, peak, more) in found.items():
                speeds[name] = wanted.rows / cpu
                record(_figures(kind, name, speeds, wall, peak))
                times = f"{speeds[name] / speeds['java']:.1f}" if "java" in speeds else ""
                print(
                    f"| {kind} | {name}{more} | {wall:.1f} | {cpu:.1f} "
                    f"| {speeds[name] / 1000:,.0f} k | {times} | {peak:,.0f} |",
                    flush=True,
                )
        if {"java", "library"} <= set(speeds):
            missed = missed or speeds["library"] < TARGET * speeds["java"]
    return exit_code(missed=missed)


def _figures(
    kind: str, way: str, speeds: Mapping[str, float], wall: float, peak: float
) -> list[Figure]:
    name = f"{kind}: {way}"
    found = [Figure(name=name, value=round(wall, 1), unit="s")]
    if way != "java" and "java" in speeds:
        ratio = round(speeds[way] / speeds["java"], 1)
        text = f"{name}, rows per CPU second to Java's"
        found.append(Figure(name=text, value=ratio, target=TARGET, at_least=True))
    return [*found, Figure(name=f"{name}, peak memory", value=round(peak), unit="MB")]


def _table(kind: str) -> dict[str, object]:
    return {
        "primary_keys": ["id"] if kind == "pk" else [],
        "options": {"bucket": "1" if kind == "pk" else "-1", "write-only": "true"},
    }


def _by_java(folder: str, kind: str, rows: int) -> Found:
    at = {"warehouse": folder, "database": "db", "table": "t", "timing": True}
    made = [
        {**at, "op": "create_database"},
        {**at, "op": "create_table", "columns": COLUMNS, **_table(kind)},
    ]
    look = {**at, "op": "snapshots"}
    write = {**at, "op": "gen_write", "n": rows, "seed": 7, "commits": 1, "key_column": "id"}
    command = [str(Path(os.environ.get("CARETAKER_ORACLE") or ORACLE) / "oracle"), "-"]
    idle = run(command, text="".join(json.dumps(s) + "\n" for s in [*made, look]))
    done = run(command, text="".join(json.dumps(s) + "\n" for s in [look, write]))
    cpu = done.cpu_seconds - idle.cpu_seconds
    return {"java": (float(done.answer["step_seconds"]), cpu, done.peak_mb, "")}


def _by_us(way: str, folder: str, kind: str, rows: int) -> Found:
    done: Measured = run_step(str(HERE), way, folder=folder, kind=kind, rows=rows)
    answer = done.answer
    more = f", its rows alone {answer['making']:.1f} CPU s" if "making" in answer else ""
    found = {way: (float(answer["seconds"]), float(answer["cpu"]), done.peak_mb, more)}
    if "cpu_again" in answer:
        again = float(answer["seconds_again"]), float(answer["cpu_again"])
        found[f"{way} again"] = (*again, done.peak_mb, more)
    return found


Found = dict[str, tuple[float, float, float, str]]
"""For each line its seconds, CPU seconds, peak in MB, and what else there is to say."""
WAYS = {
    "java": _by_java,
    "library": lambda *given: _by_us("library", *given),
    "spark": lambda *given: _by_us("spark", *given),
}


# --- in processes of their own ------------------------------------------------------------------


def _step(request: dict[str, object]) -> dict[str, float]:
    folder, kind = str(request["folder"]), str(request["kind"])
    rows = int(str(request["rows"]))
    from paimon_core import Schema, open_catalog  # noqa: PLC0415 - the parent must stay small

    catalog = open_catalog(folder)
    catalog.create_database("db", ignore_if_exists=True)
    catalog.create_table(
        "db.t",
        Schema.of({c["name"]: c["type"] for c in COLUMNS}, **_table(kind)),  # type: ignore[arg-type]
    )
    return {"library": _library, "spark": _spark}[str(request["step"])](folder, rows)


def _library(folder: str, rows: int) -> dict[str, float]:
    import numpy as np  # noqa: PLC0415 - the parent must stay small
    from generated import _rows  # noqa: PLC0415 - same

    from paimon_core import open_catalog  # noqa: PLC0415 - same

    table = open_catalog(folder).get_table("db.t")
    schema = table.schema
    rng = np.random.default_rng(7)
    keys = rng.permutation(rows)
    begun, cpu, making = time.perf_counter(), time.process_time(), 0.0
    builder = table.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        for start in range(0, rows, CHUNK):
            before = time.process_time()
            chunk = _rows(rng, keys[start : start + CHUNK], schema, 20)
            making += time.process_time() - before
            write.write_arrow(chunk)
        commit.commit(write.prepare_commit())
    return {
        "seconds": time.perf_counter() - begun,
        "cpu": time.process_time() - cpu,
        "making": making,
    }


def _spark(folder: str, rows: int) -> dict[str, float]:
    os.environ["PYTHONPATH"] = str(HERE.parent.parent)
    from tpch import _cpu_seconds, _session  # noqa: PLC0415 - the parent must stay small

    from paimon_spark.source import write  # noqa: PLC0415 - same

    spark = _session("local[2]")
    path = f"{folder}/db.db/t"
    columns = [
        "shiftrightunsigned(xxhash64(id), 20) AS id",
        *(f"xxhash64(id, {i}) AS l{i}" for i in range(1, 5)),
        # 20 random hexadecimal digits of two numbers, as Java makes them.
        *(
            f"substr(concat(hex(xxhash64(id, {i}, 1)), hex(xxhash64(id, {i}, 2))), 1, 20) AS s{i}"
            for i in range(1, 4)
        ),
        *(f"rand({i}) * 4398046511104 AS d{i}" for i in range(1, 3)),
        "cast(timestamp_micros(id * 190) AS timestamp_ntz) AS ts",
    ]
    frame = spark.range(0, rows, 1, 4).selectExpr(*columns)
    nothing = frame.write.format("noop").mode("overwrite")
    nothing.save()
    before = _cpu_seconds()
    nothing.save()
    making = _cpu_seconds() - before
    answer = {"making": making}
    for when in ("", "_again"):
        begun, cpu = time.perf_counter(), _cpu_seconds()
        write(frame, path=path)
        answer[f"seconds{when}"] = time.perf_counter() - begun
        answer[f"cpu{when}"] = _cpu_seconds() - cpu
    spark.stop()
    return answer


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        print(json.dumps(_step(json.loads(sys.argv[1]))))
        sys.exit(0)
    sys.exit(main())
