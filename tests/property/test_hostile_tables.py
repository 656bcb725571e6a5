"""Whole tables with a damaged or hostile file: every command ends with an error of its own.

Each round damages a file of a table of Java's, mostly metadata, and runs commands and jobs on it.  No
command may end with an error that is not ours, and none may touch a file outside the table.
CARETAKER_FUZZ_SECONDS=7200 takes two hours instead of some rounds, CARETAKER_FUZZ_FIRST=100000 begins
at other rounds.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from command_line import caretaker
from golden_files import GOLDEN, VERSIONS

from paimon_maintenance.registry import JOBS

ROUNDS: Final = 40
SHARES: Final = 4
SECONDS: Final = os.environ.get("CARETAKER_FUZZ_SECONDS")
FIRST: Final = int(os.environ.get("CARETAKER_FUZZ_FIRST", "0"))
MOST_SECONDS: Final = 60.0
OLD_SECONDS: Final = 5 * 86_400
LOOKS: Final = (["inspect"], ["verify", "--deep"], ["read"], ["files"])
ARGUMENTS: Final = {
    "rollback": ["--snapshot", "1"],
    "rollback_to_as_latest": ["--snapshot", "1"],
    "fast_forward": ["--name", "b"],
    "create_tag": ["--tag", "q"],
    "replace_tag": ["--tag", "q", "--snapshot", "1"],
    "delete_tag": ["--tag", "q"],
    "create_branch": ["--name", "c"],
    "delete_branch": ["--name", "b"],
    "rename_branch": ["--name", "b", "--new-name", "d"],
    "expire_snapshots": ["--retain-max", "1", "--retain-min", "1"],
    "expire_partitions": ["--expiration-time", "1 d"],
    "compact": ["--strategy", "full"],
    "rescale": ["--bucket-num", "2"],
    "sort_compact": ["--order-by", "k"],
    "drop_partition": ["--partition", "dt=1"],
    "maintain": ["--compact", "full"],
    "remove_orphan_files": ["--mode", "delete", "--older-than", "1 d"],
}
ODD: Final[tuple[Any, ...]] = (
    *(None, True, -1, 0, 2**31, 2**63, 2**70, 1.5, [], {}, [1], "", "x", "1" * 5000),
    *(
        "../../victim",
        "../victim",
        "/victim",
        "..",
        ".",
        "a\x00b",
        "\ud800",
        "\u202e",
        "snapshot-1",
    ),
)
Table = tuple[str, str]
TABLES: Final[tuple[Table, ...]] = tuple(
    (version, folder.name)
    for version in VERSIONS
    for folder in sorted((GOLDEN / version).iterdir())
    if (folder / "warehouse").is_dir()
)


def rounds(share: int) -> Iterator[int]:
    """The numbers of the rounds of a share; each number is the same round every time."""
    if SECONDS is None:
        yield from range(FIRST + share, FIRST + ROUNDS, SHARES)
        return
    end = time.monotonic() + float(SECONDS) / SHARES
    for number in count(FIRST + share, SHARES):
        if time.monotonic() > end:
            return
        yield number


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_every_command_ends_with_an_error_of_its_own(share: int, tmp_path: Path) -> None:
    failed, codes = [], set()
    for number in rounds(share):
        place = tmp_path / str(number)
        for code, problem in one_round(random.Random(number), place):
            codes.add(code)
            if problem:
                failed.append(f"round {number}: {problem}")
        shutil.rmtree(place)
    assert not failed, "\n".join(failed)
    assert {0, 7} <= codes, "no round damaged anything that a command reads"


def one_round(rng: random.Random, place: Path) -> Iterator[tuple[int, str]]:
    """The exit code of each command, and what is wrong with how it ended."""
    version, name = rng.choice(TABLES)
    warehouse = place / "outer" / "warehouse"
    shutil.copytree(GOLDEN / version / name / "warehouse", warehouse)
    table = warehouse / "db.db" / "t"
    old = time.time() - OLD_SECONDS
    for path in table.rglob("*"):
        os.utime(path, (old, old))
    victims = [folder / "victim" for folder in (*table.parents[:4], warehouse / "db.db")]
    for victim in victims:
        victim.write_text('{"version": 3, "id": 1}')
    damage = [damaged(rng, table, victims[0]) for _ in range(rng.choice((1, 1, 1, 2)))]
    jobs = [[rng.choice(("plan", "run")), job] for job in rng.sample(sorted(JOBS), 4)]
    commands = [*LOOKS, *jobs]
    rng.shuffle(commands)
    for words in commands:
        more = ARGUMENTS.get(words[-1], []) if words[0] in ("plan", "run") else []
        began = time.monotonic()
        ran = caretaker(*words, "db.t", "-w", warehouse, *more)
        seconds = time.monotonic() - began
        what = f"{version} {name}, {damage}, {' '.join(words)}"
        problem = ""
        if "report this bug" in ran.err or "Errno" in ran.err or "Traceback" in ran.err:
            problem = f"{what}: {ran.err[-500:]}"
        elif not 0 <= ran.code <= 8:
            problem = f"{what}: exit code {ran.code}"
        elif seconds > MOST_SECONDS:
            problem = f"{what}: took {seconds:.0f} s"
        elif not all(v.is_file() and v.read_text().startswith("{") for v in victims):
            problem = f"{what}: a file outside the table is gone"
        yield ran.code, problem


def damaged(rng: random.Random, table: Path, victim: Path) -> str:
    """Damage one file; which, and how."""
    files = sorted(p for p in table.rglob("*") if p.is_file() and not p.is_symlink())
    metadata = [p for p in files if "bucket-" not in str(p)]
    path = rng.choice(metadata if rng.random() < 0.8 else files)
    data = path.read_bytes()
    kind = rng.choice(
        ("odd", "odd", "odd", "odd", "flip", "flip", "cut", "folder", "link", "twice")
    )
    value = _json(data)
    if kind == "odd" and value is None:
        kind = "flip"
    match kind:
        case "odd":
            for _ in range(rng.choice((1, 1, 2))):
                value = with_odd_value(rng, value)
            path.write_text(json.dumps(value))
        case "flip":
            changed = bytearray(data)
            for _ in range(rng.choice((1, 2, 5, 20))):
                if changed:
                    changed[rng.randrange(len(changed))] = rng.randrange(256)
            path.write_bytes(changed)
        case "cut":
            path.write_bytes(data[: rng.randrange(len(data) + 1)])
        case "folder":
            path.unlink()
            path.mkdir()
        case "link":
            path.unlink()
            path.symlink_to(victim)
        case _:
            path.write_bytes(data + data)
    return f"{path.relative_to(table)} {kind}"


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def with_odd_value(rng: random.Random, value: Any) -> Any:
    """The value with one part of it removed, repeated, renamed or replaced by something odd."""
    if isinstance(value, dict) and value:
        key = rng.choice(sorted(value))
        chance = rng.random()
        if chance < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if chance < 0.2:
            return {**value, f"{key}_x": value[key]}
        return {**value, key: with_odd_value(rng, value[key])}
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        chance = rng.random()
        if chance < 0.1:
            return value[:at] + value[at + 1 :]
        if chance < 0.2:
            return [*value, value[at]]
        return [*value[:at], with_odd_value(rng, value[at]), *value[at + 1 :]]
    return rng.choice(ODD)
