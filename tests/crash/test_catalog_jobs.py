"""A sample of catalog_jobs.py; the jobs in a Hive catalog are in tests/conformance/test_hive_catalog.py."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Protocol

import pytest
from catalog_cases import CASES
from catalog_jobs import run_case
from catalog_kinds import options_of_kind

from oracle import Oracle
from paimon_maintenance.jobs.versions import inflight_commits
from paimon_maintenance.registry import JOBS

SAMPLE = [
    ("filesystem", "fast_forward", "2.0.0"),
    ("rest", "rescale", "1.4.2"),
    ("rest", "repair", "2.0.0"),
    ("jdbc-sqlite", "rescale", "2.0.0"),
    ("jdbc-postgresql", "maintain", "1.4.2"),
]


class _Oracles(Protocol):
    def of(self, version: str) -> Oracle: ...


def test_every_job_has_a_case() -> None:
    assert {case.job for case in CASES.values()} == JOBS.keys()


@pytest.mark.sampled(one_of=6)
@pytest.mark.oracle
@pytest.mark.parametrize(("kind", "case", "version"), SAMPLE)
def test_a_job_and_java_work_on_one_table_of_a_catalog(
    kind: str,
    case: str,
    version: str,
    oracles: _Oracles,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    java = oracles.of(version)
    if kind == "rest":
        options = request.getfixturevalue("rest_server").options
    else:
        postgres = kind == "jdbc-postgresql"
        url = request.getfixturevalue("postgres_url") if postgres else ""
        options = options_of_kind(kind, tmp_path, url)
    monkeypatch.setenv("CARETAKER_CATALOGS", json.dumps({kind: options}))
    # Java may have a commit in flight.
    monkeypatch.setattr(inflight_commits, "LOCAL_MILLIS", 1_000)
    outcome = run_case(case, kind, java, options)
    assert outcome.problems == []
    assert outcome.commits >= 3
    if (kind, case) == ("jdbc-sqlite", "rescale"):
        with sqlite3.connect(tmp_path / "catalog.db") as database:
            kept = database.execute(
                "SELECT property_value FROM paimon_table_properties WHERE property_key = 'bucket'"
            )
            assert kept.fetchall() == [("2",)]
