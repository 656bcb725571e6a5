"""Rounds of command lines that race by themselves, with Java writing beside them.

    ./caretaker python tests/crash/natural_races.py [--rounds 1000] [--seed 1] [--workers 3]

Each round: a small table; two or three `caretaker run ...` processes that start at random moments,
and in half of the rounds a Java writer that commits all the while.  Then the table must be what
races.py asks for: verification and Java agree that every version can be read, no commit that Java
was told about is missing, Java goes on, and after the orphan job nothing is missing or left over.
Prints a line for each failed round, with what repeats it, and a summary; exit code 1 if one failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER), str(FOLDER.parent / "conformance")]

from disk import on_disk, referenced  # noqa: E402 - after the path is set
from harness import remove_orphans  # noqa: E402
from races import DAYS, TABLES  # noqa: E402

from maintenance.jobs.verify.check import check_table  # noqa: E402
from maintenance.jobs.verify.findings import Severity  # noqa: E402
from oracle import VERSIONS, Oracle, OracleProcess  # noqa: E402
from paimon_core.table.open import open_table  # noqa: E402

COMMANDS: dict[str, tuple[str, ...]] = {
    "rollback": ("rollback", "--snapshot", "4"),
    "rollback of the last": ("rollback", "--snapshot", "5", "--safety-tag", "0 s"),
    "rollback to a tag": ("rollback", "--tag", "old"),
    "rollback_to_as_latest": ("rollback_to_as_latest", "--tag", "old"),
    "expire_snapshots": ("expire_snapshots", "--retain-max", "1", "--retain-min", "1"),
    "fast_forward": ("fast_forward", "--name", "b"),
    "delete_tag": ("delete_tag", "--tag", "old"),
    "replace_tag": ("replace_tag", "--tag", "old", "--snapshot", "5"),
    "create_tag": ("create_tag", "--tag", "mine"),
    "create_branch": ("create_branch", "--name", "c", "--tag", "old"),
    "delete_branch": ("delete_branch", "--name", "b"),
    "rename_branch": ("rename_branch", "--name", "b", "--new-name", "d"),
    "compact": ("compact", "--strategy", "full", "--engine", "local"),
    "compact_manifest": ("compact_manifest",),
    "remove_orphan_files": ("remove_orphan_files", "--mode", "delete"),
    "maintain": ("maintain", "--engine", "local"),
}
SHORTENS = frozenset({"rollback", "rollback of the last", "rollback to a tag", "fast_forward"})
REPLACES = frozenset({"rollback_to_as_latest"})
KNOWN_CODES = frozenset({0, 2, 3, 5, 8})
"""Done, a name that is gone, nothing to do, a conflict, an unknown outcome; no others."""


@dataclass(slots=True)
class Outcome:
    """What a round came to."""

    seed: int
    told: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)


def round_of(seed: int, oracle: Oracle, place: Path) -> Outcome:
    """One round; everything random comes from the seed, but for the moments of the machine."""
    chance = random.Random(seed)
    outcome = Outcome(seed)
    kind = chance.choice(list(TABLES))
    warehouse = place / str(seed)
    TABLES[kind](warehouse)
    names = chance.sample(list(COMMANDS), chance.choice((2, 2, 3)))
    java = chance.random() < 0.5
    outcome.told = [kind, *names, *(["java writes"] if java else [])]
    at = {"warehouse": str(warehouse), "database": "db", "table": "t"}
    started = [_start(warehouse, COMMANDS[name], chance.random() * 0.9) for name in names]
    written = _java_writes(oracle, at, started) if java else []
    for name, process in zip(names, started, strict=True):
        _, err = process.communicate(timeout=600)
        outcome.codes[process.returncode] += 1
        if process.returncode not in KNOWN_CODES or "Traceback" in err:
            outcome.problems.append(f"{name}: exit {process.returncode}: {err[-400:]}")
        outcome.told.append(f"{name}: {process.returncode} {err.strip()[-300:]}")
    _check(outcome, warehouse, oracle, at, names, written)
    if not outcome.problems:
        shutil.rmtree(warehouse)
    return outcome


def _start(warehouse: Path, words: tuple[str, ...], delay: float) -> subprocess.Popen[str]:
    command = (
        f"import sys, time; time.sleep({delay}); from maintenance.cli.main import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    job, *arguments = words
    return subprocess.Popen(
        [sys.executable, "-c", command, "run", job, "db.t", "-w", str(warehouse), "--force",
         *(() if "--engine" in arguments else ("--engine", "local")), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "CARETAKER_HISTORY_URL": "none", "TZ": "UTC"},
    )  # fmt: skip


def _java_writes(
    oracle: Oracle, at: dict[str, str], processes: list[subprocess.Popen[str]]
) -> list[int]:
    """The keys that Java was told are committed, in their order."""
    written: list[int] = []
    for key in range(1000, 1200):
        if all(p.poll() is not None for p in processes):
            break
        step = {**at, "op": "write", "rows": [[key, "java", DAYS[1]]]}
        (answer,) = oracle([step], check=False)
        if "error" not in answer:
            written.append(key)
        time.sleep(0.02)
    return written


def _check(
    outcome: Outcome,
    warehouse: Path,
    oracle: Oracle,
    at: dict[str, str],
    names: list[str],
    written: list[int],
) -> None:
    table = open_table(str(warehouse), "db.t")
    found = check_table(table).findings
    errors = [f.line() for f in found if f.severity is Severity.ERROR]
    outcome.problems += [f"verify: {line}" for line in errors[:3]]
    reads: list[dict[str, Any]] = [{"op": "read"}]
    reads += [{"op": "read", "tag": tag} for tag in table.tags.names()]
    reads += [{"op": "read", "branch": b} for b in table.branches.names()]
    # With deletion vectors, rows show once they are compacted.
    vectors = outcome.told[0] == "vectors"
    show: list[dict[str, Any]] = [{"op": "compact", "full": True}] if vectors else []
    last = {"op": "write", "rows": [[2002, "later", DAYS[1]]]}
    steps = [*reads, *show, {"op": "read"}, last, *show, {"op": "read"}]
    answers = oracle([{**at, **step} for step in steps], check=False)
    for step, answer in zip(steps, answers, strict=True):
        if "error" in answer:
            outcome.problems.append(f"Java: {step}: {answer['error'][:200]}")
    if outcome.problems:
        return
    seen = {row[1] for row in answers[len(reads) + len(show)]["rows"]}
    if {row[1] for row in answers[-1]["rows"]} != seen | {2002}:
        outcome.problems.append("Java does not see what it wrote")
    lost = [key for key in written if key not in seen]
    # What a rollback was asked to drop is what was there when it was planned.
    dropped = bool(set(names) & (SHORTENS | REPLACES))
    if lost and not dropped:
        outcome.problems.append(f"acknowledged commits are missing: {lost}")
    if dropped and lost != written[: len(lost)]:
        outcome.problems.append(f"missing commits are not the oldest: {lost} of {written}")
    remove_orphans(warehouse)
    there, wanted = on_disk(Path(table.root)), referenced(warehouse)
    if there != wanted:
        outcome.problems.append(f"files missing {wanted - there}, left over {there - wanted}")


_process: dict[str, Oracle] = {}


def _work(seed: int, place: str) -> Outcome:
    version = VERSIONS[seed % len(VERSIONS)]
    if version not in _process:
        _process[version] = Oracle(OracleProcess(version))
    try:
        return round_of(seed, _process[version], Path(place))
    except Exception as e:  # noqa: BLE001 - the other rounds go on
        outcome = Outcome(seed)
        outcome.problems.append(f"{type(e).__name__}: {e}")
        _process.pop(version, None)
        return outcome


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    place = tempfile.mkdtemp(prefix="natural-races-")
    started, failed = time.monotonic(), 0
    codes: Counter[int] = Counter()
    seeds = range(args.seed, args.seed + args.rounds)
    with ProcessPoolExecutor(args.workers) as pool:
        for number, outcome in enumerate(pool.map(_work, seeds, [place] * args.rounds), start=1):
            codes += outcome.codes
            if outcome.problems:
                failed += 1
                print(json.dumps({"seed": outcome.seed, "told": outcome.told,
                                  "problems": outcome.problems}), flush=True)  # fmt: skip
            if number % 50 == 0:
                print(f"{number} rounds, {failed} failed, {dict(codes)}", flush=True)
    print(
        f"{args.rounds} rounds in {time.monotonic() - started:.0f} s, {failed} failed; exit codes "
        f"{dict(sorted(codes.items()))}; {threading.active_count()} threads left"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
