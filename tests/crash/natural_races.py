"""Rounds of command lines that race by themselves, with a writer beside them.

    ./caretaker python tests/crash/natural_races.py [--rounds 1000] [--seed 1] [--workers 3] [--s3]

Each round: a small table; two or three `caretaker run ...` processes that start at random moments,
and in half of the rounds a writer that commits all the while: Java, or with --s3, where the table
lies on a slow S3 store, one of ours (natural_stores.py).  Then the table must be what races.py asks
for: verification and Java agree that every version can be read, no acknowledged commit is missing,
Java goes on, and after the orphan job nothing is missing or left over.
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
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER), str(FOLDER.parent / "conformance")]

from natural_stores import DAY, Local, SlowS3, Store, at, broken, misplaced, missing, slow_s3  # noqa: E402 - after the path
from race_tables import TABLES  # noqa: E402

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
DROPS = {None: SHORTENS | REPLACES, "b": frozenset({"delete_branch"})}
"""What is asked to drop commits of main, and of the branch."""
KNOWN_CODES = frozenset({0, 2, 3, 5, 8})
"""Done, a name that is gone, nothing to do, a conflict, an unknown outcome; no others."""
LATER = 2002


@dataclass(slots=True)
class Outcome:
    """What a round came to."""

    seed: int
    told: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)
    commits: int = 0
    """How many commits were acknowledged to the writer beside the processes."""


@dataclass(slots=True)
class Written:
    """The branch that was written to (None: main), and the keys of acknowledged commits in order."""

    branch: str | None
    keys: list[int] = field(default_factory=list)


def round_of(seed: int, oracle: Oracle, place: Path, store: Store) -> Outcome:
    """One round; everything random comes from the seed, but for the moments of the machine."""
    chance = random.Random(seed)
    outcome = Outcome(seed)
    kind = chance.choice(list(TABLES))
    folder = place / str(seed)
    TABLES[kind](folder)
    warehouse = store.place(folder)
    names = chance.sample(list(COMMANDS), chance.choice((2, 2, 3)))
    writes = chance.random() < 0.5
    delays = [chance.random() * 0.9 for _ in names]
    # With deletion vectors, rows show once they are compacted, which is done on main.
    written = Written(None if kind == "vectors" else chance.choice(store.branches))
    free = names[0] if store.leaseless and chance.random() < 0.5 else None
    outcome.told = [
        kind,
        *(f"{name} without lease" if name == free else name for name in names),
        *([f"writes to {written.branch or 'main'}"] if writes else []),
    ]
    started = [
        _start(warehouse, COMMANDS[name], delay, store, leased=name != free)
        for name, delay in zip(names, delays, strict=True)
    ]
    if writes:
        _write(store, warehouse, started, written)
    outcome.commits = len(written.keys)
    for name, process in zip(names, started, strict=True):
        _, err = process.communicate(timeout=600)
        outcome.codes[process.returncode] += 1
        if process.returncode not in KNOWN_CODES or "Traceback" in err:
            outcome.problems.append(f"{name}: exit {process.returncode}: {err[-400:]}")
        outcome.told.append(f"{name}: {process.returncode} {err.strip()[-300:]}")
    local = store.fetch(warehouse, folder)
    outcome.problems += broken(local)
    outcome.problems += _disagreements(outcome, local, oracle, names, written)
    if not outcome.problems:
        outcome.problems += misplaced(local, leased=free is None)
    if not outcome.problems:
        shutil.rmtree(local)
    return outcome


def _start(
    warehouse: str, words: tuple[str, ...], delay: float, store: Store, *, leased: bool
) -> subprocess.Popen[str]:
    entry = "paimon_maintenance.cli.main" if leased else "without_lease"
    command = (
        f"import sys, time; time.sleep({delay}); from {entry} import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    job, *arguments = words
    return subprocess.Popen(
        [sys.executable, "-c", command, "run", job, "db.t", "-w", warehouse, "--force",
         *(() if "--engine" in arguments else ("--engine", "local")), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            **store.environment,
            "CARETAKER_HISTORY_URL": "none",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TZ": "UTC",
        },
    )  # fmt: skip


def _write(
    store: Store,
    warehouse: str,
    processes: list[subprocess.Popen[str]],
    written: Written,
) -> None:
    """Commit until the processes have ended."""
    for key in range(1000, 1200):
        if all(p.poll() is not None for p in processes):
            break
        step = {"branch": written.branch} if written.branch else {}
        answer = store.write(warehouse, {**step, "rows": [[key, "beside", DAY]]})
        if "error" not in answer:
            written.keys.append(key)
        time.sleep(0.02)


def _disagreements(
    outcome: Outcome, warehouse: Path, oracle: Oracle, names: list[str], written: Written
) -> list[str]:
    """What Java cannot do with the table, and the acknowledged commits that are missing."""
    problems: list[str] = []
    table = open_table(str(warehouse), "db.t")
    branches = table.branches.names()
    reads: list[dict[str, Any]] = [{"op": "read"}]
    reads += [{"op": "read", "branch": b} for b in branches]
    reads += [{"op": "read", "tag": tag} for tag in table.tags.names()]
    # With deletion vectors, rows show once they are compacted.
    vectors = outcome.told[0] == "vectors"
    show: list[dict[str, Any]] = [{"op": "compact", "full": True}] if vectors else []
    last = {"op": "write", "rows": [[LATER, "later", DAY]]}
    steps = [*reads, *show, {"op": "read"}, last, *show, {"op": "read"}]
    answers = oracle([{**at(str(warehouse)), **step} for step in steps], check=False)
    for step, answer in zip(steps, answers, strict=True):
        if "error" in answer:
            problems.append(f"Java: {step}: {answer['error'][:200]}")
    if problems or outcome.problems:
        return problems
    seen = _keys(answers[len(reads) + len(show)])
    if _keys(answers[-1]) != seen | {LATER}:
        problems.append("Java does not see what it wrote")
    if written.branch is not None:  # which may have been renamed, or have become main
        seen = seen.union(*map(_keys, answers[1 : 1 + len(branches)]))
    dropped = bool(set(names) & DROPS[written.branch])
    problems += missing(written.keys, seen, dropped=dropped)
    return problems


def _keys(answer: dict[str, Any]) -> set[int]:
    return {row[1] for row in answer["rows"]}


_oracles: dict[str, Oracle] = {}
_s3: list[SlowS3] = []


def _begin(*, s3: bool) -> None:
    """Each worker has a store of its own, which ends with it."""
    if s3:
        opened = ExitStack()
        _s3.append(opened.enter_context(slow_s3()))
        Finalize(None, opened.close, exitpriority=1)


def _work(seed: int, place: str) -> Outcome:
    version = VERSIONS[seed % len(VERSIONS)]
    if version not in _oracles:
        _oracles[version] = Oracle(OracleProcess(version))
    oracle = _oracles[version]
    try:
        return round_of(seed, oracle, Path(place), _s3[0] if _s3 else Local(oracle))
    except Exception as e:  # noqa: BLE001 - the other rounds go on
        outcome = Outcome(seed)
        outcome.problems.append("".join(traceback.format_exception(e)[-3:]))
        _oracles.pop(version, None)
        return outcome


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--s3", action="store_true", help="on a slow S3 store")
    args = parser.parse_args()
    place = tempfile.mkdtemp(prefix="natural-races-")
    started, failed, commits = time.monotonic(), 0, 0
    codes: Counter[int] = Counter()
    seeds = range(args.seed, args.seed + args.rounds)
    with ProcessPoolExecutor(args.workers, initializer=partial(_begin, s3=args.s3)) as pool:
        for number, outcome in enumerate(pool.map(_work, seeds, [place] * args.rounds), start=1):
            codes += outcome.codes
            commits += outcome.commits
            if outcome.problems:
                failed += 1
                print(json.dumps({"seed": outcome.seed, "told": outcome.told,
                                  "problems": outcome.problems}), flush=True)  # fmt: skip
            if number % 50 == 0:
                print(f"{number} rounds, {failed} failed, {dict(codes)}", flush=True)
    print(
        f"{args.rounds} rounds in {time.monotonic() - started:.0f} s, {failed} failed; "
        f"{commits} commits beside them; exit codes {dict(sorted(codes.items()))}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
