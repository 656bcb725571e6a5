"""The steps of the benchmarks of compaction, each of them a process: `... STEP-AND-ARGUMENTS`.

Answers with one line of JSON.  The clock runs after all imports.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from cases import TABLE
from generated import generate

from paimon_core.compaction.due import BucketFiles, delete_results, units_due
from paimon_core.compaction.rewrite import rewrite
from paimon_core.compaction.slices import slice_unit
from paimon_core.environment import system_environment
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.engines.process import prepare_process
from paimon_maintenance.engines.spark.engine import SparkEngine
from paimon_maintenance.jobs.compact.definition import COMPACT
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table

ROW_GROUP_BYTES = 48 * 1024**2
BATCH_ROWS = 65_536
COPY_BYTES = 4 * 1024**2


def step_generate(request: dict[str, Any]) -> dict[str, Any]:
    """A table of our own making."""
    generate(**request)
    return {}


def step_ours(request: dict[str, Any]) -> dict[str, Any]:
    """The whole job on this process's one thread, or through Spark."""
    prepare_process()  # as the command line does
    COMPACT.load()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    engine: Any = LocalEngine()
    if request.get("spark"):
        engine = SparkEngine(master="local[1]")
        engine.session().range(1).mapInArrow(_nothing, "id long").collect()  # a worker is up, too
    wall, cpu = time.perf_counter(), time.process_time()
    report = run_table(
        RunRequest(
            job=COMPACT,
            warehouse=request["warehouse"],
            table=TABLE,
            arguments=COMPACT.read_arguments({"strategy": "full"}),
        ),
        RunServices(engine=engine),
    )
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    engine.close()
    if report.error is not None:
        raise report.error
    return {
        "seconds": wall,
        "cpu_seconds": cpu,
        "phases": {k: round(v, 3) for k, v in report.seconds.items()},
        "input_files": report.before.files,
        "input_rows": report.before.rows,
        "input_bytes": report.before.bytes,
        "output_files": report.after.files,
        "output_rows": report.after.rows,
        "output_bytes": report.after.bytes,
    }


def step_slices(request: dict[str, Any]) -> dict[str, Any]:
    """The rewrite of the only bucket as one unit or in slices; nothing is committed."""
    prepare_process()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    env = system_environment()
    table = open_table(request["warehouse"], TABLE)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    entries = list(scan_files(table, snapshot))
    first = entries[0]
    files = BucketFiles(
        partition=first.partition,
        bucket=first.bucket,
        total_buckets=first.total_buckets,
        files=tuple(e.file for e in entries),
    )
    units = units_due(table, files, full=True, local_millis=env.now_millis())
    wall, started = time.perf_counter(), time.process_time()
    if "slice_mb" in request:
        slice_bytes = request["slice_mb"] * 1024**2
        units = [s for unit in units for s in slice_unit(table, unit, slice_bytes=slice_bytes)]
    cuts = time.process_time() - started
    took, rows = [], 0
    for unit in units:
        begin = time.process_time()
        result = rewrite(table, unit, env=env)
        took.append(time.process_time() - begin)
        rows += sum(f.row_count for f in result.after)
        delete_results(table, [result])
    return {
        "slices": len(units),
        "rows": rows,
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": cuts + sum(took),
        "cuts_seconds": cuts,
        "largest_seconds": max(took),
    }


def _nothing(batches: Any) -> Any:
    return batches


def step_floor(request: dict[str, Any]) -> dict[str, Any]:
    """Decode all files, encode `rows` rows of them, with pyarrow alone."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    table = open_table(request["warehouse"], TABLE)
    entries = scan_files(table, table.latest_or_not_found())
    paths = [table.paths.data_file(e.partition, e.bucket, e.file) for e in entries]
    rows_in = sum(e.file.row_count for e in entries)
    out = Path(request["warehouse"]) / "floor.parquet"
    wall, cpu = time.perf_counter(), time.process_time()
    groups = _row_groups(paths, min(1.0, request["rows"] / rows_in))
    first = next(groups)
    with pq.ParquetWriter(
        out,
        first.schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        write_statistics=[f.name for f in first.schema if f.type != pa.float64()],
        store_schema=False,
    ) as writer:
        written = 0
        for group in chain([first], groups):
            writer.write_table(group, row_group_size=group.num_rows)
            written += group.num_rows
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "seconds": wall,
        "cpu_seconds": cpu,
        "input_rows": rows_in,
        "input_bytes": sum(e.file.file_size for e in entries),
        "output_rows": written,
        "output_bytes": out.stat().st_size,
    }


def step_copy(request: dict[str, Any]) -> dict[str, Any]:
    """Read the bytes of all files and write `bytes` of them."""
    table = open_table(request["warehouse"], TABLE)
    entries = scan_files(table, table.latest_or_not_found())
    paths = [table.paths.data_file(e.partition, e.bucket, e.file) for e in entries]
    out, left = Path(request["warehouse"]) / "copy", int(request["bytes"])
    wall, cpu = time.perf_counter(), time.process_time()
    with out.open("wb") as target:
        for path in paths:
            with Path(path.removeprefix("file:")).open("rb") as source:
                while chunk := source.read(COPY_BYTES):
                    target.write(chunk[:left])
                    left = max(0, left - len(chunk))
    return {
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "input_rows": sum(e.file.row_count for e in entries),
        "input_bytes": sum(e.file.file_size for e in entries),
        "output_rows": 0,
        "output_bytes": out.stat().st_size,
    }


def _row_groups(paths: list[str], share: float) -> Iterator[pa.Table]:
    """The first rows of each file, a share of them, as row groups in the form of a data file."""
    waiting: list[pa.RecordBatch] = []
    for path in paths:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            names = [n for n in file.schema_arrow.names if not n.startswith("_KEY_")]
            left = round(file.metadata.num_rows * share)
            for batch in file.iter_batches(BATCH_ROWS, columns=names, use_threads=False):
                if left == 0:
                    continue  # decoded, but not among those that are encoded
                waiting.append(batch.slice(0, left))
                left -= waiting[-1].num_rows
                if sum(b.nbytes for b in waiting) >= ROW_GROUP_BYTES:
                    yield _row_group(waiting)
                    waiting.clear()
    if waiting:
        yield _row_group(waiting)


def _row_group(batches: list[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(batches)
    if "_SEQUENCE_NUMBER" in table.schema.names:
        table = table.add_column(0, "_KEY_id", table.column("id"))
    return table


STEPS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "generate": step_generate,
    "ours": step_ours,
    "slices": step_slices,
    "floor": step_floor,
    "copy": step_copy,
}


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    print(json.dumps(STEPS[request.pop("step")](request)))
