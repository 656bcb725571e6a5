"""Statistics that do not hold, keys that are not those of the rows, files that Java does not see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from command_line import caretaker
from lakes import ENV, Lake

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry, SimpleStats
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind
from paimon_maintenance.verify.check import Scope, check_table
from paimon_maintenance.verify.findings import Finding, Problem
from paimon_maintenance.verify.statistics import FILES, sample


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key()
    lake.append({"k": [1, 2], "v": ["b", None]})
    lake.append({"k": [5, 7], "v": ["y", "z"]})
    return lake


def live(lake: Lake) -> list[ManifestEntry]:
    table = lake.table()
    return sorted(
        scan_files(table, table.latest_or_not_found()), key=lambda e: e.file.min_sequence_number
    )


def describe_otherwise(lake: Lake, change: Callable[[DataFileMeta, DataFileMeta], DataFileMeta]):
    """The first file under another description, on another level, so that it is another file."""
    first, second = live(lake)
    told = replace(first, file=replace(change(first.file, second.file), level=1))
    commit_changes(
        lake.table(),
        lambda _: ManifestChanges((first.as_delete(), told)),
        CommitRequest(user="u", kind=CommitKind.COMPACT, check=False),
        env=ENV,
    )


def found(lake: Lake) -> list[Finding]:
    return check_table(lake.table()).findings


def test_sound_tables_have_none(lake):
    assert found(lake) == []
    assert check_table(lake.table()).checked["sampled files"] == 2
    assert "sampled files" not in check_table(lake.table(), Scope(rows=False)).checked


def test_bounds_that_are_too_narrow(lake):
    describe_otherwise(lake, lambda first, second: replace(first, value_stats=second.value_stats))
    messages = [f.message for f in found(lake)]
    assert {f.problem for f in found(lake)} == {Problem.WRONG_STATISTICS}
    assert any("column k has minimum 1, not 5" in m for m in messages)
    assert any("column v has minimum 'b', not 'y'" in m for m in messages)
    assert any("column v has 1 nulls, not 0" in m for m in messages)
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 7
    assert caretaker("verify", "db.t", "-w", lake.warehouse, "--no-rows").code == 0


def test_bounds_that_are_wider_are_right(lake):
    def wider(first: DataFileMeta, second: DataFileMeta) -> DataFileMeta:
        stats = SimpleStats(
            first.value_stats.min_values,
            second.value_stats.max_values,
            first.value_stats.null_counts,
        )
        return replace(first, value_stats=stats)

    describe_otherwise(lake, wider)
    assert found(lake) == []


def test_keys_that_are_not_those_of_the_rows(lake):
    describe_otherwise(lake, lambda first, second: replace(first, max_key=second.min_key))
    (finding,) = found(lake)
    assert "its keys range from (1,) to (2,), not (1,) to (5,)" in finding.message


def test_a_file_that_java_does_not_see(lake):
    first, _ = live(lake)
    for number, changes in enumerate(
        (ManifestChanges((first.as_delete(),)), ManifestChanges((first,)))
    ):
        commit_changes(
            lake.table(),
            lambda _, changes=changes: changes,
            CommitRequest(user=f"u{number}", kind=CommitKind.OVERWRITE),
            env=ENV,
        )
    (finding,) = found(lake)
    assert finding.problem is Problem.HIDDEN_FILE
    assert finding.file == first.file.file_name
    ran = caretaker("run", "compact_manifest", "db.t", "-w", lake.warehouse, "--engine", "local")
    assert ran.code == 0, ran.err
    assert found(lake) == []


def test_the_sample_is_spread_and_bounded(lake):
    first, _ = live(lake)
    many = [
        replace(first, file=replace(first.file, file_name=f"f{i:04}", file_size=s))
        for i, s in enumerate([1] * 900 + [2**40] * 9)
    ]
    names = [e.file.file_name for e in sample(many)]
    assert len(names) == FILES
    assert names[0] == "f0000"
    assert names[-1] > "f0800"
    assert sample(many[900:]) == []


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
@pytest.mark.parametrize(
    "name",
    ["types_pk_avro", "types_pk_orc", "types_append_parquet", "stats_truncate", "dedup_thin"],
)
def test_javas_statistics_hold(name, version, golden):
    from paimon_core.table.open import open_table

    table = open_table(str(golden(name, version).warehouse), "db.t")
    verification = check_table(table)
    assert verification.checked["sampled files"] > 0
    assert [f for f in verification.findings if f.problem is Problem.WRONG_STATISTICS] == []
