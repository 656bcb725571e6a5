"""All figures of docs/performance.md: ours, Java's, Flink's and the floors.

    ./caretaker python benchmarks/run_all.py --write           measures, writes docs/performance.md
    ./caretaker python benchmarks/run_all.py --short           small tables, for a look
    ./caretaker python benchmarks/run_all.py --large --write   also 10 GB, and 10,000 files on S3
    ./caretaker python benchmarks/run_all.py --only slices     one benchmark; keeps all others
    ./caretaker python benchmarks/run_all.py --render --write  the page, from the stored figures

Runs the benchmarks one after the other, each in a process of its own, and stores what each of them
records (`figures.py`) in benchmarks/measured/NAME.json as soon as it ends.  A benchmark that fails,
or takes longer than its limit, leaves a line that says so, and the others run.  Nothing else should
run on the machine: the page states the load before each benchmark.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from figures import COLLECT, Figure, Point, read_back, recorded
from parts import PARTS, Part
from performance_page import page, plots
from processes import machine, with_bytecode

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "performance.md"
IMAGES: Final = ROOT / "docs" / "images"
MEASURED: Final = ROOT / "benchmarks" / "measured"
_MINUTE: Final = 60


@dataclass(slots=True, kw_only=True)
class Done:
    """The result of one benchmark; `failure` is empty if it recorded its figures."""

    part: Part
    command: Sequence[str]
    facts: dict[str, Any]
    day: str
    seconds: float = 0.0
    failure: str = ""
    figures: list[Figure] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)


def main() -> int:
    """0 if every benchmark ran; figures that miss their target are in the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [part.name for part in PARTS]
    parser.add_argument("--short", action="store_true", help="small tables")
    parser.add_argument("--large", action="store_true", help="also the largest tables")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--render", action="store_true", help="measure nothing")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument(
        "--made", type=Path, metavar="DIR", help="keep the tables here, use them again"
    )
    parser.add_argument("--measured", type=Path, default=MEASURED, help="where figures are stored")
    wanted = parser.parse_args()
    failed = False
    if not wanted.render:
        chosen = [
            part
            for part in PARTS
            if (part.name in wanted.only if wanted.only else wanted.large or not part.only_large)
        ]
        made = wanted.made or Path(tempfile.mkdtemp(prefix="benchmarks-"))
        made.mkdir(parents=True, exist_ok=True)
        try:
            failed = _run_all(chosen, wanted, made.resolve())
        finally:
            if wanted.made is None:
                shutil.rmtree(made, ignore_errors=True)
    done = [found for part in PARTS if (found := _stored(part, wanted.measured)) is not None]
    text = page(done)
    if wanted.write:
        for name, svg in plots(done):
            (IMAGES / name).write_text(svg, "utf-8")
        PAGE.write_text(text, "utf-8")
    print(text)
    return int(failed)


def _run_all(chosen: Sequence[Part], wanted: argparse.Namespace, made: Path) -> bool:
    """Measure and store; whether a benchmark failed."""
    size = "short" if wanted.short else "large" if wanted.large else "normal"
    begun, failed = time.perf_counter(), False
    for number, part in enumerate(chosen, 1):
        since = (time.perf_counter() - begun) / _MINUTE
        left = sum(p.minutes for p in chosen[number - 1 :])
        _say(f"[{number}/{len(chosen)}] {part.name}, minute {since:.0f}, about {left:.0f} to go")
        done = _run(part, size, made)
        _store(done, wanted.measured)
        missed = sum(figure.met is False for figure in done.figures)
        result = done.failure or f"{len(done.figures)} figures, {missed} missed"
        _say(f"[{number}/{len(chosen)}] {part.name}: {result}, {done.seconds:.0f} s")
        failed |= bool(done.failure)
    return failed


def _run(part: Part, size: str, made: Path) -> Done:
    command = part.command(size, str(made))
    shown = [word.replace(str(made), "DIR") for word in command]
    done = Done(part=part, command=shown, facts=machine(), day=f"{datetime.now(UTC):%Y-%m-%d}")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix=f"{part.name}-") as folder:
        file = Path(folder) / "figures"
        environment = {COLLECT: str(file), "TMPDIR": folder, "PYTHONUNBUFFERED": "1"}
        environment = {**with_bytecode(os.environ), **environment}
        # A group of its own, so that a benchmark that is stopped leaves no process.
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=environment,
            stdout=sys.stderr,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(part.limit_seconds(size))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        done.figures, done.points = recorded(file)
    done.seconds = time.perf_counter() - started
    if code is None:
        done.failure = f"failed: stopped after {done.seconds / _MINUTE:.0f} minutes"
    elif code:
        done.failure = f"failed with exit code {code}"
    return done


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


# --- stored figures -----------------------------------------------------------------------------


def _store(done: Done, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "command": list(done.command),
        "day": done.day,
        "facts": done.facts,
        "seconds": round(done.seconds),
        "failure": done.failure,
        "figures": [asdict(each) for each in (*done.figures, *done.points)],
    }
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (folder / f"{done.part.name}.json").write_text(f"{text}\n", "utf-8")


def _stored(part: Part, folder: Path) -> Done | None:
    """What is stored of a benchmark; None if it never ran."""
    file = folder / f"{part.name}.json"
    if not file.exists():
        return None
    content = json.loads(file.read_text("utf-8"))
    figures, points = read_back(content["figures"])
    return Done(
        part=part,
        command=content["command"],
        facts=content["facts"],
        day=content["day"],
        seconds=content["seconds"],
        failure=content["failure"],
        figures=figures,
        points=points,
    )


if __name__ == "__main__":
    sys.exit(main())
