"""Races of writers, longer than the tests run them: every commit is there once, and no other.

    python tests/crash/commit_races.py s3 [--commits 1000] [--writers 8] [--faults 0 1 5]
    python tests/crash/commit_races.py java [--commits 1000] [--kinds filesystem jdbc-postgresql ...]

`s3`: processes commit to one table on an S3 store (moto behind the proxy of the tests) that refuses
one share of the requests and loses as many replies.  `java`: one of our writers and one of Java's
commit as many times each, through each kind of catalog.  The exit code is 1 if a row is lost or
doubled.
"""

# ruff: noqa: E402 - the modules of the tests
from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (0, 1, 2)]
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "conformance")]

from catalog_kinds import KINDS, catalog_of_kind
from catalog_rows import COLUMNS, RETRIES, append, schema
from s3_store import s3_server
from slow_store import Fault, SlowStore, slow_store

import paimon_core
from oracle import Oracle, OracleProcess
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.catalog.open import open_catalog
from paimon_core.errors import PaimonError
from paimon_core.table.open import open_table

WAITS = {
    "write-only": "true",
    "commit.min-retry-wait": "100 ms",
    "commit.max-retry-wait": "1 s",
}


@dataclass
class Outcome:
    """The outcomes that the writers saw, and the keys that are in the table."""

    won: set[int]
    unknown: set[int]
    lost: int
    found: list[int]

    @property
    def is_right(self) -> bool:
        once = len(self.found) == len(set(self.found))
        return once and self.won <= set(self.found) <= self.won | self.unknown

    def __str__(self) -> str:
        known = self.won | self.unknown
        return (
            f"{len(self.won)} won, {self.lost} refused, {len(self.unknown)} unknown; missing "
            f"{len(self.won - set(self.found))}, doubled {len(self.found) - len(set(self.found))}, "
            f"not asked for {len(set(self.found) - known)}"
        )


# --- S3 -----------------------------------------------------------------------------------------


def on_s3(commits: int, writers: int, faults: float) -> Outcome:
    """Commits of one row each by `writers` processes; `faults` is a share of the requests."""
    context = multiprocessing.get_context("spawn")
    with s3_server() as server, slow_store(server) as store:
        warehouse = store.new_root()
        catalog = FileSystemCatalog(warehouse, server.options)
        catalog.create_database("db")
        catalog.create_table("db.t", schema(bucket="-1", **WAITS))
        with ProcessPoolExecutor(writers, mp_context=context) as pool:
            list(pool.map(abs, range(writers)))
            if faults:
                store.add(Fault("answer", share=faults))
                store.add(Fault("lose reply", share=faults))
            keys = [range(n, commits, writers) for n in range(writers)]
            parts = pool.map(_commit_all, itertools.repeat(warehouse), _options(store), keys)
            told = {key: error for part in parts for key, error in part.items()}
        print(f"  {sum(f.hits for f in store.faults):,} faults in {len(store.requests):,} requests")
        found = _rows({"warehouse": warehouse, **server.options})
    return Outcome(
        won={k for k, e in told.items() if not e},
        unknown={k for k, e in told.items() if e == "CommitStateUnknown"},
        lost=sum(bool(e) and e != "CommitStateUnknown" for e in told.values()),
        found=found,
    )


def _options(store: SlowStore) -> Iterator[dict[str, str]]:
    return itertools.repeat(store.options)


def _commit_all(warehouse: str, storage: dict[str, str], keys: range) -> dict[int, str]:
    """The type of the error of each commit; empty for those that were acknowledged."""
    table = open_table(warehouse, "db.t", file_io_options=storage)
    told = {}
    for key in keys:
        try:
            append(table, [key])
            told[key] = ""
        except (PaimonError, OSError) as e:
            told[key] = type(e).__name__
    return told


# --- Java ---------------------------------------------------------------------------------------


def beside_java(kind: str, commits: int) -> Outcome:
    """`commits` of ours and of Java's on one table of a catalog of this kind."""
    with tempfile.TemporaryDirectory() as place, catalog_of_kind(kind, Path(place)) as options:
        process = OracleProcess("2.0.0" if kind == "filesystem" else "1.4.2", hive=kind == "hive")
        try:
            java = Oracle(process).defaults(catalog=options, database="db", table="t")
            java.one("create_database")
            java.one("create_table", columns=COLUMNS, options=RETRIES | WAITS | {"bucket": "-1"})
            told: dict[int, str] = {}
            ours = threading.Thread(target=_ours, args=(options, range(commits), told))
            ours.start()
            for key in range(commits, 2 * commits):
                (answer,) = java([{"op": "write", "rows": [[key, "java"]]}], check=False)
                told[key] = str(answer.get("error") or "")
            ours.join()
        finally:
            process.close()
        errors = sorted({e for e in told.values() if e})
        if errors:
            print("\n".join(f"  {e[:200]}" for e in errors[:5]))
        return Outcome(
            won={k for k, e in told.items() if not e},
            unknown={k for k, e in told.items() if "Unknown" in e},
            lost=sum(bool(e) and "Unknown" not in e for e in told.values()),
            found=_rows(options),
        )


def _ours(options: dict[str, str], keys: range, told: dict[int, str]) -> None:
    catalog = open_catalog(options)
    for key in keys:
        try:
            append(catalog.get_table("db.t"), [key])
            told[key] = ""
        except (PaimonError, OSError) as e:
            told[key] = f"{type(e).__name__}: {e}"


def _rows(options: dict[str, str]) -> list[int]:
    """The keys in the table; AssertionError if a snapshot is missing."""
    table = paimon_core.open_catalog(options).get_table("db.t")
    ids = [s.id for s in table.core.snapshots.all()]
    assert ids == list(range(1, len(ids) + 1))
    keys: list[int] = table.to_arrow(columns=["id"])["id"].to_pylist()
    return keys


def main() -> int:
    """1 if a commit is lost or doubled."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("where", choices=("s3", "java"))
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--faults", type=float, nargs="+", default=[0, 1, 5], help="percent")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    arguments = parser.parse_args()
    right = True
    for case in arguments.faults if arguments.where == "s3" else arguments.kinds:
        started = time.monotonic()
        if arguments.where == "s3":
            outcome = on_s3(arguments.commits, arguments.writers, case / 100)
        else:
            outcome = beside_java(case, arguments.commits)
        right = right and outcome.is_right
        seconds = time.monotonic() - started
        print(f"{case}: {'right' if outcome.is_right else 'WRONG'}: {outcome}; {seconds:.0f} s")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
