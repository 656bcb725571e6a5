"""Prints the part of requirements.lock that the image needs: itself a lock, with all hashes.

    python image_lock.py requirements.lock [--only NAME ...]

The lock also holds what tests and linters need.  It says behind each package on whose behalf it is
there ("# via ..."); what leads back to one of the roots below, stays.  Standard library only.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOTS = (
    "alembic",
    "apache-airflow",
    "apache-airflow-providers-apache-spark",
    "apache-airflow-providers-common-compat",
    "apache-airflow-providers-standard",
    "datasketches",
    "fastavro",
    "fsspec",
    "isal",
    "numpy",
    "pandas",
    "pyarrow",
    "pyroaring",
    "pyspark",
    "pyspark-client",
    "pyyaml",
    "rich",
    "s3fs",
    "sqlalchemy",
    "sqlglot",
    "zstandard",
)
"""What pyproject.toml asks for under dependencies and the extras of a deployment."""

_ENTRY = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^]]*])?==")
_VIA = re.compile(r"^    #(?: via)?\s+(?P<name>[A-Za-z0-9][\w.-]*)")


def blocks(lock: str) -> list[tuple[str, str, frozenset[str]]]:
    """Name, text and dependents of each entry of the lock, in its order."""
    found: list[tuple[str, list[str]]] = []
    for line in lock.splitlines(keepends=True):
        entry = _ENTRY.match(line)
        if entry:
            found.append((entry["name"], [line]))
        elif found and line[:1].isspace():
            found[-1][1].append(line)
    return [
        (name, "".join(lines), frozenset(m["name"] for line in lines if (m := _VIA.match(line))))
        for name, lines in found
    ]


def needed(lock: str) -> frozenset[str]:
    """The roots, and every package that is there on behalf of one of them, directly or not."""
    entries = blocks(lock)
    names = set(ROOTS)
    while True:
        more = {name for name, _, via in entries if via & names} - names
        if not more:
            return frozenset(names)
        names |= more


def part(lock: str, names: frozenset[str]) -> str:
    """The lock's entries of these packages; SystemExit if one is not there."""
    entries = blocks(lock)
    missing = names - {name for name, _, _ in entries}
    if missing:
        raise SystemExit(f"the lock has no {', '.join(sorted(missing))}")
    return "".join(text for name, text, _ in entries if name in names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lock", type=Path)
    parser.add_argument("--only", nargs="+", help="these packages, and nothing that they need")
    args = parser.parse_args()
    lock = args.lock.read_text(encoding="utf-8")
    sys.stdout.write(part(lock, frozenset(args.only) if args.only else needed(lock)))


if __name__ == "__main__":
    main()
