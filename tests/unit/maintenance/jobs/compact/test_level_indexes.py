"""Indexes of levels are built by the engine; a bucket without all of its indexes is not committed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lakes import Lake

from paimon_core.index.primary_key import has_sources
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.engine import UnitResult, WorkUnit
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table
from paimon_maintenance.verify.check import check_table


class Failing(LocalEngine):
    """Fails units by their labels, or stops after them."""

    def __init__(self, label: str = "none", *, stops: bool = False) -> None:
        super().__init__()
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "stops", stops)
        object.__setattr__(self, "labels", [])

    def run_units(self, units: Sequence[WorkUnit], run: Any, **rest: Any) -> list[UnitResult]:
        self.labels.extend(u.label for u in units)
        found = {u.payload for u in units if self.label in u.label}

        def fails(payload: bytes) -> Any:
            if payload in found and not self.stops:
                raise OSError(5, "broken")
            return run(payload)

        results = super().run_units(units, fails, **rest)
        if found and self.stops:
            raise KeyboardInterrupt
        return results


@pytest.fixture
def lake(lake: Lake) -> Lake:
    options = {"deletion-vectors.enabled": "true", "pk-btree.index.columns": "v,k"}
    lake.primary_key(buckets=2, **options)
    lake.fill(2)
    return lake


def run(lake: Lake, engine: LocalEngine) -> Report:
    job = job_named("compact")
    request = RunRequest(
        job=job,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=job.read_arguments({"strategy": "full"}),
    )
    return run_table(request, RunServices(engine=engine))


def files(lake: Lake) -> set[Path]:
    return {p for p in Path(lake.table().root).rglob("*") if p.is_file()}


def indexes(lake: Lake) -> list[int]:
    """Return the bucket of each index of a level in the newest snapshot."""
    table = lake.table()
    entries = table.index_entries(table.latest_or_not_found())
    return sorted(e.bucket for e in entries if has_sources(e.index_file))


def test_the_engine_builds_them(lake: Lake) -> None:
    engine = Failing()
    assert run(lake, engine).status is Status.SUCCESS
    built = [label for label in engine.labels if "index of" in label]
    assert sorted(built) == [
        f"bucket {bucket}: index of {column}, level 5" for bucket in (0, 1) for column in ("k", "v")
    ]
    assert indexes(lake) == [0, 0, 1, 1]
    assert check_table(lake.table()).clean


def test_a_bucket_whose_index_fails_is_left_as_it_was(lake: Lake) -> None:
    before = files(lake)
    report = run(lake, Failing("bucket 1: index of v"))
    assert report.status is Status.FAILED
    assert [f.label for f in report.failed_units] == ["bucket 1: index of v, level 5"]
    assert indexes(lake) == [0, 0]
    assert check_table(lake.table()).clean
    new = [p.name for p in files(lake) - before if p.parent.name == "index"]
    assert len(new) == len(indexes(lake))
    assert lake.on_disk() == lake.referenced()
    assert run(lake, LocalEngine()).status is Status.SUCCESS
    assert indexes(lake) == [0, 0, 1, 1]


def test_an_interrupted_build_leaves_no_file(lake: Lake) -> None:
    before = files(lake)
    with pytest.raises(KeyboardInterrupt):
        run(lake, Failing("index of", stops=True))
    assert files(lake) == before
