"""A made-up history of many tables: status, scores, totals, runs and decisions of some weeks."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

import sqlalchemy as sa

from paimon_maintenance.history.entry import Entry
from paimon_maintenance.history.need_store import NeedStore, StoredDecision
from paimon_maintenance.history.status import TOTALS, StatusStore, TableStatus, table_of
from paimon_maintenance.history.store import SqlHistory

HOUR = 3_600_000
_SCORES = table_of(
    "caretaker_scores",
    "at_millis warehouse table_name branch score amplification files bytes held_bytes reason",
)
REASONS = (
    ("full_read_runs", "a full read merges {n} sorted runs, the trigger is 5", "compact"),
    ("small_files", "{n} files hold what 4 files of 128 MB would", "compact"),
    ("expired_bytes", "{n} GB are held only by snapshots beyond the retention", "expire_snapshots"),
    ("consumer_lag", "consumer nightly is {n} snapshots behind", None),
    ("manifests", "the newest snapshot has {n} manifests", "compact_manifest"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """How much history there is."""

    tables: int = 2000
    runs: int = 100_000
    rounds: int = 2016
    scores: int = 50
    decisions: int = 40_000


def make_history(url: str, warehouse: str, made: Made, *, now: int, seed: int = 7) -> list[str]:
    """Fill the database at this URL; return the names of the tables."""
    chance = random.Random(seed)
    history = SqlHistory(url)
    names = [f"db{i % 40}.table_{i:05d}" for i in range(made.tables)]
    StatusStore(history, warehouse).put([_status(name, chance, now) for name in names])
    _add_totals(history, warehouse, made, chance, now)
    with history.engine().begin() as connection:
        for at in range(made.scores):
            rows = [_score(chance, warehouse, name, now - at * 6 * HOUR) for name in names]
            connection.execute(sa.insert(_SCORES), rows)
    step = 28 * 24 * HOUR // max(1, made.runs)
    for start in range(0, made.runs, 10_000):
        history.add(
            [
                _run(chance, names, warehouse, now - 28 * 24 * HOUR + number * step, number)
                for number in range(start, min(start + 10_000, made.runs))
            ]
        )
    for start in range(0, made.decisions, 10_000):
        NeedStore(history, warehouse).add(
            [
                _decision(chance, names, now - (made.decisions - number) * HOUR // 60, number)
                for number in range(start, min(start + 10_000, made.decisions))
            ]
        )
    return names


def _status(name: str, chance: random.Random, now: int) -> TableStatus:
    score = min(100, int(chance.betavariate(4, 1.2) * 105))
    criterion, text, job = chance.choice(REASONS)
    reason = text.format(n=chance.randint(6, 90))
    size = int(10 ** chance.uniform(7, 12))
    color = "green" if score >= 80 else "yellow" if score >= 50 else "red"
    one = {
        "criterion": criterion,
        "points": 100.0 - score,
        "severity": 0.7,
        "value": 3.2,
        "text": reason,
        "job": job,
    }
    later = chance.random() < 0.3
    return TableStatus(
        table=name,
        at_millis=now - chance.randint(0, 6 * HOUR),
        score=score,
        color=color,
        criterion=criterion if score < 100 else None,
        reason=reason if score < 100 else None,
        files=chance.randint(1, 5000),
        bytes=size,
        row_count=size // 80,
        runs=chance.randint(1, 14),
        amplification=chance.uniform(1, 6),
        held_bytes=int(size * chance.random() * 0.5),
        snapshot=chance.randint(10, 9000),
        owner=chance.choice((None, "platform", "sales", "risk")),
        next_job="compact" if later else None,
        next_action="later" if later else "look",
        next_reason="the budget of 1800 s has 4 s left" if later else "the table needs nothing",
        next_at_millis=now + chance.randint(0, 6 * HOUR),
        health={"name": name, "score": score, "color": color, "reasons": [one], "partitions": []},
    )


def _score(chance: random.Random, warehouse: str, name: str, at: int) -> dict[str, object]:
    return {
        "warehouse": warehouse,
        "table_name": name,
        "branch": "main",
        "at_millis": at,
        "score": chance.randint(40, 100),
        "amplification": chance.uniform(1, 6),
        "files": chance.randint(1, 5000),
        "bytes": 10**9,
        "held_bytes": 10**8,
        "reason": None,
    }


def _add_totals(
    history: SqlHistory, warehouse: str, made: Made, chance: random.Random, now: int
) -> None:
    rows = []
    for number in range(made.rounds):
        red = int(made.tables * (0.03 + 0.05 * (made.rounds - number) / made.rounds))
        rows.append(
            {
                "at_millis": now - (made.rounds - number) * HOUR // 12,
                "warehouse": warehouse,
                "branch": "main",
                "tables": made.tables,
                "green": made.tables - 3 * red,
                "yellow": 2 * red,
                "red": red,
                "files": 900_000 - number * 100 + chance.randint(0, 9000),
                "bytes": 40 * 2**40,
                "held_bytes": 2**40,
                "amplification": 3 - number / made.rounds,
            }
        )
    with history.engine().begin() as connection:
        connection.execute(sa.insert(TOTALS), rows)


def _run(chance: random.Random, names: list[str], warehouse: str, at: int, number: int) -> Entry:
    failed = chance.random() < 0.01
    size = int(10 ** chance.uniform(6, 10))
    return Entry(
        at_millis=at,
        event="run" if chance.random() < 0.6 else "skip",
        job=chance.choice(("compact", "compact", "maintain", "expire_snapshots")),
        table=chance.choice(names),
        warehouse=warehouse,
        status="failed" if failed else "success",
        run_id=f"r{number}",
        origin="airflow",
        actor="caretaker_compact scheduled__2026",
        engine="local",
        seconds=chance.uniform(0.3, 60),
        files_before=chance.randint(5, 200),
        files_after=chance.randint(1, 5),
        bytes_before=size,
        bytes_after=int(size * 0.8),
        details={"effect": {"rewritten_bytes": size}, "note": "x" * 300},
        error_type="CommitConflict" if failed else None,
        error="another commit won three times" if failed else None,
        next_step="run the job again" if failed else None,
    )


def _decision(chance: random.Random, names: list[str], at: int, number: int) -> StoredDecision:
    runs = chance.random() < 0.1
    seconds = chance.uniform(0.5, 90)
    return StoredDecision(
        at_millis=at,
        round_id=f"round{number // 2000}",
        table=chance.choice(names),
        job="compact",
        action="run" if runs else "no",
        reason="9 sorted runs" if runs else "the table needs nothing",
        benefit=3.0,
        predicted_seconds=seconds * chance.uniform(0.85, 1.2),
        status="success" if runs else None,
        seconds=seconds if runs else None,
        result=json.loads('{"score_before": 41, "score_after": 97}') if runs else None,
    )
