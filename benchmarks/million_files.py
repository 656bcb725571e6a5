"""Jobs over a table of up to a million files: seconds, CPU seconds and peak memory of each command.

    python benchmarks/million_files.py                                 10,000 files
    python benchmarks/million_files.py --files 10000 100000 1000000    and how they grow
    python benchmarks/million_files.py --made FOLDER --only compact    tables that are kept in FOLDER

A million files are in 100,000 partitions and 10,000 snapshots (`million_table.py`).  Each command runs
in a process of its own, and the figures are those of the whole process: start, imports, JSON output.
`remove_orphan_files` and `verify` list data files: they use tables whose data files exist, with
their size but without content (`--listed`), and verify needs `--no-rows`, because it cannot count
rows in them.  To reach: 60 s and 512 MB each with a million files, and no more than linear growth.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from processes import machine, run

HERE: Final = Path(__file__).resolve()
MOST_SECONDS, MOST_MB = 60.0, 512.0
COMMANDS: Final = {
    "inspect": ("inspect", "db.t"),
    "compact": ("plan", "compact", "db.t"),
    "compact_full": ("plan", "compact", "db.t", "--strategy", "full"),
    "expire_snapshots": ("plan", "expire_snapshots", "db.t"),
    "expire_most_snapshots": (
        *("plan", "expire_snapshots", "db.t"),
        *("--retain-max", "10", "--retain-min", "1", "--max-deletes", "1000000"),
    ),
    "expire_partitions": (
        *("plan", "expire_partitions", "db.t", "--expiration-time", "2 d"),
        *("--timestamp-formatter", "yyyy-MM-dd", "--timestamp-pattern", "$dt"),
        *("--max-expires", "100000"),
    ),
    "rescale": ("plan", "rescale", "db.t", "--bucket-num", "2"),
    "compact_manifest": ("plan", "compact_manifest", "db.t"),
    "run_compact_manifest": ("run", "compact_manifest", "db.t"),
    "verify": ("verify", "db.t", "--no-rows"),
    "remove_orphan_files": (
        *("plan", "remove_orphan_files", "db.t"),
        *("--older-than", "0 s", "--allow-young"),
    ),
}
LISTS_DATA: Final = ("verify", "remove_orphan_files")
CHANGES: Final = ("run_compact_manifest",)


@dataclass(frozen=True, slots=True)
class Line:
    """One measured command."""

    command: str
    files: int
    seconds: float
    cpu: float
    peak_mb: float
    output_bytes: int
    code: int

    def __str__(self) -> str:
        reached = self.seconds <= MOST_SECONDS and self.peak_mb <= MOST_MB
        return (
            f"| {self.command} | {self.files:,} | {self.seconds:.1f} | {self.cpu:.1f} | "
            f"{self.peak_mb:.0f} | {self.output_bytes / 1e6:.1f} | "
            f"{'' if reached else 'missed'}{'' if self.code in (0, 3) else f' exit {self.code}'} |"
        )


def main() -> int:
    """0 if each command is as fast and small as it should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, nargs="+", default=[10_000])
    parser.add_argument("--due", type=float, default=0.1)
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--made", help="the folder of the tables of an earlier call")
    parser.add_argument("--listed", action="store_true", help="make the data files, too")
    parser.add_argument("--keep", help="append the figures to this file (`million_plot.py`)")
    parser.add_argument("--text", action="store_true", help="print for people instead of --json")
    wanted = parser.parse_args()
    print(json.dumps(machine()), file=sys.stderr)
    lines = []
    print("| command | files | s | CPU s | peak MB | output MB | |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for files in wanted.files:
            for command in wanted.only:
                if command in LISTS_DATA and not wanted.listed:
                    continue
                data = "sparse" if command in LISTS_DATA else "none"
                made = _made(Path(wanted.made or folder), files, wanted.due, data)
                lines.append(_measured(command, files, made, text=wanted.text))
                print(lines[-1], flush=True)
                if wanted.keep:
                    with Path(wanted.keep).open("a", encoding="utf-8") as kept:
                        kept.write(json.dumps(asdict(lines[-1])) + "\n")
    return int(any("missed" in str(line) for line in lines))


def _made(folder: Path, files: int, due: float, data: str) -> Path:
    warehouse = folder / f"{files}-{due}-{data}"
    if not warehouse.exists():
        maker = str(HERE.with_name("million_table.py"))
        wanted = (str(warehouse), "--files", str(files), "--due", str(due), "--data", data)
        run([sys.executable, maker, *wanted])
    return warehouse


def _measured(command: str, files: int, made: Path, *, text: bool) -> Line:
    warehouse = made
    if command in CHANGES:
        warehouse = made.with_name(f"{made.name}-copy")
        shutil.copytree(made, warehouse)
    try:
        return _run(command, files, warehouse, text=text)
    finally:
        if warehouse != made:
            shutil.rmtree(warehouse)


def _run(command: str, files: int, warehouse: Path, *, text: bool) -> Line:
    """The command in a process of its own; its output goes to a file and is only counted."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "paimon_maintenance.cli", *COMMANDS[command]),
                *("-w", str(warehouse), *(() if text else ("--json",))),
            ],
            stdout=output,
            env={**os.environ, "CARETAKER_HISTORY_URL": f"sqlite:///{home}/history.db"},
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return Line(
            command,
            files,
            time.perf_counter() - started,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss / 1024,
            output.tell() or os.fstat(output.fileno()).st_size,
            process.returncode,
        )


if __name__ == "__main__":
    sys.exit(main())
