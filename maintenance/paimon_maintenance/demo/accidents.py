"""Simulates accidents: a writer that is killed, a consumer that stops, and files that are old."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.environment import system_environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.write.row_writer import RowWriter

DAY_SECONDS: Final = 86_400


def fail_a_write(table: FileStoreTable, rows: pa.Table, kinds: np.ndarray | None = None) -> None:
    """Leave the files of a writer that was killed two days ago, before its commit."""
    into = RowWriter(table, env=system_environment())
    known = set(Path(table.root).rglob("bucket-*/*"))
    into.write(rows, kinds)
    into.prepare_commit()
    for file in set(Path(table.root).rglob("bucket-*/*")) - known:
        let_age(file, days=2)


def leave_a_consumer(table: FileStoreTable, name: str, snapshot: int) -> None:
    """Leave the consumer of a streaming reader that stopped at this snapshot ten days ago."""
    table.consumers.set(name, snapshot)
    let_age(Path(table.root) / "consumer" / f"consumer-{name}", days=10)


def let_age(file: Path, *, days: int) -> None:
    """Set the modification time of the file to this number of days ago."""
    moment = time.time() - days * DAY_SECONDS
    os.utime(file, (moment, moment))
