"""Compaction where a tenth of the keys is new: ours and the floor, which decodes and encodes all.

    ./caretaker python benchmarks/new_tenth.py --rows 2000000 --times 3

The columns of `compaction.py`.  A base of all keys is compacted into the top level; five commits
then write half the keys of one tenth again, in one stretch (`together`) or in ten (`apart`).
`one file`: the base is one file, so that all of it is rewritten; otherwise it has files of 128 MB,
and most of them are kept.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
from cases import COLUMNS, TABLE
from compaction import STEPS
from figures import Figure, record
from generated import _rows
from processes import run_step

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import column_from_object, create_schema
from paimon_core.environment import system_environment
from paimon_core.table.open import open_table
from paimon_core.types.arrow import arrow_schema
from paimon_core.write.row_writer import RowWriter

COMMITS = 5
SHAPES = (
    ("one file, together", 1, "1 gb"),
    ("one file, apart", 10, "1 gb"),
    ("files", 1, "128 mb"),
)


def make(warehouse: Path, rows: int, stretches: int, target: str) -> None:
    """The base, compacted, and the commits."""
    env = system_environment()
    catalog = FileSystemCatalog(str(warehouse))
    catalog.create_database("db")
    schema = create_schema(
        [column_from_object(c) for c in COLUMNS],
        now_millis=env.now_millis(),
        primary_keys=["id"],
        options={"bucket": "1", "write-only": "true", "target-file-size": target},
    )
    catalog.create_table(TABLE, schema)
    rng = np.random.default_rng(3)
    put(warehouse, rng, rng.permutation(rows))
    run_step(STEPS, "ours", warehouse=str(warehouse))
    width = rows // 10 // stretches
    starts = np.arange(stretches) * (rows // stretches) + rows // stretches // 2
    new = np.concatenate([np.arange(start, start + width) for start in starts])
    for _ in range(COMMITS):
        put(warehouse, rng, rng.permutation(new)[: len(new) // 2 // COMMITS])


def put(warehouse: Path, rng: np.random.Generator, keys: np.ndarray) -> None:
    """One commit of rows with these keys."""
    env = system_environment()
    table = open_table(str(warehouse), TABLE)
    columns = _rows(rng, keys, arrow_schema(table.schema.row_type), 20)
    columns = columns.set_column(0, columns.schema.field(0), pa.array(keys.astype(np.int64)))
    writer = RowWriter(table, env=env)
    writer.write(columns, np.zeros(len(keys), np.int8))
    commit(table, writer.prepare_commit(), user="benchmark", env=env)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="new-tenth-"))
    print("| table | MB | ours CPU s | MB/s | floor CPU s | ratio | peak RSS MB |")
    print("|---|---|---|---|---|---|---|")
    try:
        for name, stretches, target in SHAPES:
            source = folder / "source"
            # In a process of its own: the peak of a process is at least that of its parent.
            made = get_context("spawn").Process(
                target=make, args=(source, arguments.rows, stretches, target)
            )
            made.start()
            made.join()
            ours, floor, size, peak = [], [], 0, 0.0
            for _ in range(arguments.times):
                copy = folder / "copy"
                shutil.copytree(source, copy)
                measured = run_step(STEPS, "floor", warehouse=str(copy), rows=arguments.rows)
                floor.append(measured.answer["cpu_seconds"])
                measured = run_step(STEPS, "ours", warehouse=str(copy))
                ours.append(measured.answer["cpu_seconds"])
                size = measured.answer["input_bytes"]
                peak = max(peak, measured.peak_mb)
                shutil.rmtree(copy)
            shutil.rmtree(source)
            ratio = min(ours) / min(floor)
            rate = round(size / 1e6 / min(ours))
            record(
                [
                    Figure(name=f"{name}: CPU to the floor", value=round(ratio, 2), target=0.3),
                    Figure(name=f"{name}: input per core", value=rate, unit="MB/s"),
                    Figure(name=f"{name}: peak memory", value=round(peak), unit="MB", target=1024),
                ]
            )
            print(
                f"| {name} | {size / 1e6:.0f} | {min(ours):.2f} | {size / 1e6 / min(ours):.0f} "
                f"| {min(floor):.2f} | {ratio:.2f} | {peak:.0f} |",
                flush=True,
            )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
