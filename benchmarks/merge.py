"""Merging sorted runs: seconds and memory against the floor of decoding and encoding the same rows.

    python benchmarks/merge.py                          a short run of every key type
    python benchmarks/merge.py --rows 5000000 --runs 10 the size of the figures in README.md
    python benchmarks/merge.py --engine aggregation     another merge engine

The runs are Parquet files of one row group, as Java writes them; 30 % of the rows of each run
repeat keys of older runs.  Everything runs on one thread, each measurement in a process of its
own, so that peak memory is its own, too.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_core.lsm.chosen_engine import merge_engine_of
from paimon_core.lsm.tree.sort_merge import merge_sorted
from paimon_core.options import Options
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import AtomicType, DataField, DataType, RowType, TypeRoot

BIGINT = AtomicType(kind=TypeRoot.BIGINT)
STRING = AtomicType(kind=TypeRoot.VARCHAR, length=2**31 - 1)
DOUBLE = AtomicType(kind=TypeRoot.DOUBLE)
TIMESTAMP = AtomicType(kind=TypeRoot.TIMESTAMP, precision=6)

KEYS: dict[str, dict[str, DataType]] = {
    "bigint": {"id": BIGINT},
    "string": {"id": STRING},
    "two columns": {"shop": BIGINT, "id": STRING},
}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "first-row": {},
    "partial-update": {"fields.v1.sequence-group": "v2,s1"},
    "aggregation": {
        "fields.v1.aggregate-function": "sum",
        "fields.v2.aggregate-function": "max",
        "fields.d1.aggregate-function": "sum",
        "fields.s1.aggregate-function": "max",
    },
}
VALUES: dict[str, DataType] = {
    **{f"v{i}": BIGINT for i in range(1, 5)},
    **{f"s{i}": STRING for i in range(1, 4)},
    **{f"d{i}": DOUBLE for i in range(1, 3)},
    "ts": TIMESTAMP,
}
BATCH_ROWS = 8192


def table_schema(key: str, engine: str) -> TableSchema:
    """A table with this key and the values that all benchmarks have."""
    types = {**{n: t.with_nullable(False) for n, t in KEYS[key].items()}, **VALUES}
    fields = tuple(DataField(id=i, name=n, type=t) for i, (n, t) in enumerate(types.items()))
    return TableSchema(
        id=0,
        fields=fields,
        highest_field_id=len(fields),
        primary_keys=tuple(KEYS[key]),
        options=Options({"merge-engine": engine, **ENGINES[engine]}),
    )


# --- data -----------------------------------------------------------------------------------------


def make_runs(folder: Path, key: str, rows: int, runs: int) -> None:
    """Sorted runs of `rows` rows in total."""
    rng = np.random.default_rng(7)
    each = rows // runs
    for run in range(runs):
        new = np.arange(run * each, (run + 1) * each)
        old = rng.integers(0, max(1, run * each), each * 3 // 10) if run else new[:0]
        numbers = np.unique(np.concatenate([old, new[: each - len(old)]]))
        batch = _rows(rng, key, numbers, sequence=run * each)
        pq.write_table(
            pa.Table.from_batches([batch]),
            folder / f"run-{run:04d}.parquet",
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            row_group_size=each + 1,
        )


def _rows(
    rng: np.random.Generator, key: str, numbers: np.ndarray, *, sequence: int
) -> pa.RecordBatch:
    count = len(numbers)
    columns: dict[str, pa.Array] = {
        "_SEQUENCE_NUMBER": pa.array(np.arange(sequence, sequence + count)),
        "_VALUE_KIND": pa.array(np.zeros(count, np.int8)),
    }
    # Spread over the key space, so that every run spans it; the order of keys is the numbers'.
    match key:
        case "bigint":
            columns["id"] = pa.array(numbers)
        case "string":
            columns["id"] = pa.array([f"order-{n:014d}" for n in numbers.tolist()])
        case _:
            columns["shop"] = pa.array(numbers // 1000)
            columns["id"] = pa.array([f"{n % 1000:06d}" for n in numbers.tolist()])
    for name, data_type in VALUES.items():
        if data_type == BIGINT:
            columns[name] = pa.array(rng.integers(0, 2**62, count))
        elif data_type == DOUBLE:
            columns[name] = pa.array(rng.random(count))
        elif data_type == TIMESTAMP:
            columns[name] = pa.array(rng.integers(0, 2**50, count), pa.timestamp("us"))
        else:
            columns[name] = pa.array([f"{n:020d}" for n in rng.integers(0, 2**62, count).tolist()])
    return pa.RecordBatch.from_pydict(columns)


# --- what is measured -----------------------------------------------------------------------------


def decoded(folder: Path) -> list[Iterator[pa.RecordBatch]]:
    return [
        pq.ParquetFile(path, buffer_size=512 * 1024, pre_buffer=False).iter_batches(
            BATCH_ROWS, use_threads=False
        )
        for path in sorted(folder.glob("run-*.parquet"))
    ]


def encode(batches: Iterable[pa.RecordBatch], path: Path, schema: pa.Schema) -> int:
    rows = 0
    waiting: list[pa.RecordBatch] = []
    with pq.ParquetWriter(
        path, schema, compression="zstd", compression_level=1, use_dictionary=False
    ) as writer:
        for batch in batches:
            rows += batch.num_rows
            waiting.append(batch)
            if sum(b.num_rows for b in waiting) > 200_000:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting.clear()
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))
    return rows


def floor(folder: Path, key: str, engine: str) -> int:
    """Decode all input, encode as much as comes out of the merge, without merging."""
    schema = _file_schema(key, engine)
    rows = 0
    limit = int((folder / "rows").read_text())
    with pq.ParquetWriter(
        folder / "floor.out", schema, compression="zstd", compression_level=1, use_dictionary=False
    ) as writer:
        for run in decoded(folder):
            waiting = []
            for batch in run:
                part = batch.slice(0, max(0, limit - rows))
                rows += part.num_rows
                waiting.append(part.cast(schema))
                if sum(b.num_rows for b in waiting) > 200_000:
                    writer.write_table(pa.Table.from_batches(waiting))
                    waiting.clear()
            writer.write_table(pa.Table.from_batches(waiting, schema))
    return rows


def merge(folder: Path, key: str, engine: str) -> int:
    """Decode, merge and encode."""
    schema = table_schema(key, engine)
    arrow = _file_schema(key, engine)
    merged = merge_sorted(
        [(b.cast(arrow) for b in run) for run in decoded(folder)],
        key=schema.key_type,
        engine=merge_engine_of(schema).engine,
        drop_deletes=True,
        buffered_rows=BATCH_ROWS,
    )
    rows = encode(merged, folder / "merge.out", arrow)
    (folder / "rows").write_text(str(rows))
    return rows


def _file_schema(key: str, engine: str) -> pa.Schema:
    return pa.schema(
        [
            pa.field("_SEQUENCE_NUMBER", pa.int64(), nullable=False),
            pa.field("_VALUE_KIND", pa.int8(), nullable=False),
            *arrow_schema(RowType(fields=table_schema(key, engine).fields)),
        ]
    )


STEPS: dict[str, Callable[[Path, str, str], int]] = {"merge": merge, "floor": floor}


def measure(step: str, folder: Path, key: str, engine: str) -> dict[str, float]:
    """CPU seconds, rows and peak megabytes of one step in a process of its own."""
    answer = subprocess.run(
        [
            sys.executable,
            __file__,
            *("--step", step),
            *("--folder", str(folder)),
            *("--key", key),
            *("--engine", engine),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    figures: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    return figures


def run_step(arguments: argparse.Namespace) -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    begin = time.process_time()
    rows = STEPS[arguments.step](Path(arguments.folder), arguments.key, arguments.engine)
    seconds = time.process_time() - begin
    print(json.dumps({"rows": rows, "seconds": seconds, "mb": peak_megabytes()}))


def peak_megabytes() -> float:
    """The most memory that this process had; ru_maxrss would begin with that of its parent."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(t for t in status.read_text().splitlines() if t.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--key", choices=KEYS)
    parser.add_argument("--engine", choices=ENGINES, default="deduplicate")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        run_step(arguments)
        return
    print(
        f"{'key':12} {'rows in':>10} {'out':>10} {'floor s':>8} {'merge s':>8} {'ratio':>6} {'MB':>5}"
    )
    for key in [arguments.key] if arguments.key else KEYS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_runs(folder, key, arguments.rows, arguments.runs)
            merged = measure("merge", folder, key, arguments.engine)
            least = measure("floor", folder, key, arguments.engine)
            rows_in = sum(
                pq.read_metadata(p).num_rows for p in sorted(folder.glob("run-*.parquet"))
            )
            print(
                f"{key:12} {rows_in:>10,} {int(merged['rows']):>10,} {least['seconds']:>8.2f} "
                f"{merged['seconds']:>8.2f} {merged['seconds'] / least['seconds']:>6.2f} "
                f"{merged['mb']:>5.0f}"
            )


if __name__ == "__main__":
    main()
