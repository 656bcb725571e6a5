"""Jobs over a table of up to a million files: seconds, CPU seconds and peak memory of each command.

    python benchmarks/million_files.py                                 10,000 files
    python benchmarks/million_files.py --files 10000 100000 1000000    and how they grow
    python benchmarks/million_files.py --made FOLDER --only compact    the tables in FOLDER
    python benchmarks/million_files.py --plot docs/images/million-files.svg

A million files are in 100,000 partitions and 10,000 snapshots (`million_table.py`).  Each command
runs in a process of its own, and the figures are those of the whole process: start, imports, JSON
output.  `remove_orphan_files` and `verify` list data files: they use tables whose data files exist,
with their size but without content (`--listed`), and verify needs `--no-rows`, because it cannot
count rows in them.  Before these two, the states of all files are read once, and before the others
the files of metadata, so that the commands find them in the cache: that time says what the disk
needs (*floor*).  To reach: 60 s and 512 MB each with a million files, and no more than linear
growth.
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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from figures import Figure, Point, exit_code, record
from plots import lines_plot
from processes import machine, run

HERE: Final = Path(__file__).resolve()
Floors = dict[tuple[str, int], float]
"""What was read, and the number of files -> seconds."""
MOST_SECONDS, MOST_MB = 60.0, 512.0
COMMANDS: Final = {
    "inspect": ("inspect", "db.t"),
    "health": ("health", "db.t"),
    "schedule": ("schedule", "db.t", "--dry-run"),
    "compact": ("plan", "compact", "db.t"),
    "compact_full": ("plan", "compact", "db.t", "--strategy", "full"),
    "expire_snapshots": ("plan", "expire_snapshots", "db.t"),
    "expire_most_snapshots": (
        *("plan", "expire_snapshots", "db.t"),
        *("--retain-max", "10", "--retain-min", "1", "--max-deletes", "1000000"),
    ),
    "run_expire_most_snapshots": (
        *("run", "expire_snapshots", "db.t", "--force"),
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
CHANGES: Final = ("run_compact_manifest", "run_expire_most_snapshots")
NO_PLANS: Final = ("inspect", "health", "schedule", "verify", *CHANGES)
CPU, PEAK = "CPU seconds", "peak memory, MB"


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

    @property
    def figures(self) -> list[Figure]:
        """What docs/performance.md says about the command; only plans have a limit of seconds."""
        name = f"{self.command}, {self.files:,} files"
        seconds = MOST_SECONDS if self.command not in NO_PLANS else None
        return [
            Figure(name=name, value=round(self.seconds, 1), unit="s", target=seconds),
            Figure(name=name, value=round(self.cpu, 1), unit="CPU s"),
            Figure(name=name, value=round(self.peak_mb), unit="MB", target=MOST_MB),
        ]

    @property
    def points(self) -> list[Point]:
        """The points of the plot."""
        values = ((CPU, self.cpu, MOST_SECONDS), (PEAK, self.peak_mb, MOST_MB))
        return [
            Point(panel=panel, line=self.command, x=self.files, y=value, target=limit)
            for panel, value, limit in values
        ]

    def __str__(self) -> str:
        late = self.seconds > MOST_SECONDS and self.command not in NO_PLANS
        reached = not late and self.peak_mb <= MOST_MB
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
    parser.add_argument("--plot", help="draw the figures of this call into this file")
    parser.add_argument("--text", action="store_true", help="print for people instead of --json")
    wanted = parser.parse_args()
    print(json.dumps(machine()), file=sys.stderr)
    lines: list[Line] = []
    floors: Floors = {}
    print("| command | files | s | CPU s | peak MB | output MB | |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for files in sorted(wanted.files):
            lines += _of_size(files, Path(wanted.made or folder), wanted, floors)
    largest = max(wanted.files)
    record(figure for line in lines if line.files == largest for figure in line.figures)
    record(
        Figure(name=f"floor: {what}, {files:,} files", value=round(seconds, 1), unit="s")
        for (what, files), seconds in floors.items()
        if files == largest
    )
    points = [point for line in lines for point in line.points]
    record(points)
    if wanted.plot:
        Path(wanted.plot).write_text(lines_plot("Growth with the number of files", points), "utf-8")
    failed = any(line.code not in (0, 3) for line in lines)
    return int(failed) or exit_code(missed=any("missed" in str(line) for line in lines))


def _of_size(files: int, folder: Path, wanted: argparse.Namespace, floors: Floors) -> list[Line]:
    """The commands over the tables of one size; printed as they end."""
    commands = [c for c in wanted.only if wanted.listed or c not in LISTS_DATA]
    data = {c: "sparse" if c in LISTS_DATA else "none" for c in commands}
    made = {d: _made(folder, files, wanted.due, d) for d in sorted(set(data.values()))}

    def measured(command: str) -> Line:
        line = _measured(command, files, made[data[command]], text=wanted.text)
        print(line, flush=True)
        return line

    def floor(what: str, read: Callable[[Path], object], folder: Path) -> None:
        started = time.perf_counter()
        read(folder)
        floors[what, files] = time.perf_counter() - started
        print(f"| floor: {what} | {files:,} | {floors[what, files]:.1f} | | | | |", flush=True)

    # How long the disk takes depends on the machine, and on what its cache still holds.
    if "none" in made:
        floor("metadata read once", _read_metadata, made["none"])
    lines = [measured(c) for c in commands if c not in LISTS_DATA]
    if "sparse" in made:
        floor("states of all files read once", _read_states, made["sparse"])
    return [*lines, *(measured(c) for c in commands if c in LISTS_DATA)]


def _read_metadata(warehouse: Path) -> None:
    """Read all snapshots, manifest lists and manifests, in as many threads as we do."""
    paths = [p for kind in ("snapshot", "manifest") for p in warehouse.glob(f"*/*/{kind}/*")]
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(Path.read_bytes, paths):
            pass


def _read_states(folder: Path) -> None:
    """Read the state of every file below the folder."""
    folders = [str(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)


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
        warehouse = made.with_name(f"{made.name}-{command}")
        shutil.rmtree(warehouse, ignore_errors=True)  # of a call that was killed
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
