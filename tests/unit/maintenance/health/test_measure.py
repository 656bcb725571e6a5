"""Measurements of real tables: what is counted, who holds files back, what a compaction would do."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from command_line import caretaker
from evolving_tables import (
    DELETING,
    EVOLVING,
    delete_rows_of,
    groups_of,
    rows_by_id,
    update_columns,
)
from lakes import ENV
from row_deletes import delete_rows

from paimon_core.commit.committer import commit
from paimon_core.table.open import open_table
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.health.inspect import inspect_table
from paimon_maintenance.health.measure import measure_table
from paimon_maintenance.health.score import health_of
from paimon_maintenance.health.thresholds import Thresholds
from paimon_maintenance.history.lake_view import LakeQuery, lake_page
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.policy.needs import TableNeeds
from paimon_maintenance.schedule.candidates import candidates_of
from paimon_maintenance.schedule.state import TableState

DAY = 86_400_000


def later(millis: int):
    return replace(
        ENV,
        now_millis=lambda: ENV.now_millis() + millis,
        local_millis=lambda: ENV.local_millis() + millis,
    )


def run(lake, *words):
    ran = caretaker("run", *words, "-w", lake.warehouse, "--engine", "local")
    assert ran.code == 0, ran.err


def test_runs_and_predictions_of_a_primary_key_table(lake):
    lake.primary_key(partitioned=True)
    lake.fill(7)
    measured = measure_table(lake.table(), ENV)
    assert [p.name for p in measured.partitions] == ["dt=day0", "dt=day1"]
    for partition in measured.partitions:
        assert (partition.files, partition.level_0_files) == (7, 7)
        assert (partition.point_runs, partition.full_runs) == (7, 7.0)
        assert partition.values == {"dt": partition.name[3:]}
        assert partition.full is not None
        assert (partition.full.files, partition.full.runs_after) == (7, 1.0)
    assert measured.amplification == 7

    predicted = measured.partitions[0].full
    assert predicted.level_0_bytes == predicted.bytes > 0
    run(lake, "compact", "db.t", "--strategy", "full")
    after = measure_table(lake.table(), ENV)
    assert after.amplification == 1
    assert {p.files for p in after.partitions} == {predicted.files_after} == {1}
    assert {p.full for p in after.partitions} == {None}

    lake.fill(1)
    both = measure_table(lake.table(), ENV).partitions[0]
    assert 0 < both.full.level_0_bytes == both.full.bytes - after.partitions[0].bytes


def test_the_minor_compaction_is_the_one_that_the_job_plans(lake):
    lake.primary_key()
    lake.fill(4)
    assert measure_table(lake.table(), ENV).partitions[0].minor is None
    lake.fill(3)
    minor = measure_table(lake.table(), ENV).partitions[0].minor
    plan = caretaker(
        *("plan", "compact", "db.t", "--strategy", "minor", "-w", lake.warehouse, "--json")
    ).json
    assert minor is not None
    assert (minor.files, minor.bytes) == (
        plan["effect"]["rewritten_files"],
        plan["effect"]["rewritten_bytes"],
    )


def test_keys_that_do_not_overlap_do_not_count_as_runs(lake):
    lake.primary_key()
    for i in range(6):
        lake.append({"k": [10 * i, 10 * i + 1], "v": ["a", "b"]})
    (partition,) = measure_table(lake.table(), ENV).partitions
    assert (partition.files, partition.point_runs, partition.full_runs) == (6, 1, 1.0)


@pytest.mark.parametrize("primary_key", [False, True])
def test_rows_that_vectors_hide_in_one_file_are_worth_a_compaction(lake, primary_key):
    vectors = {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "2"}
    (lake.primary_key if primary_key else lake.log)(**vectors)
    lake.append({"k": list(range(1000)), "v": [f"{i:0100d}" for i in range(1000)]})
    if primary_key:
        run(lake, "compact", "db.t", "--strategy", "full")
        for i in range(2):
            lake.append({"k": list(range(200 * i, 200 * i + 200)), "v": ["y"] * 200})
        run(lake, "compact", "db.t", "--strategy", "minor")
    else:
        assert delete_rows(lake.table(), set(range(400))) == 400
    measured = measure_table(lake.table(), ENV)
    (partition,) = measured.partitions
    assert (partition.vector_rows, partition.dead_rows) == (400, 400)
    assert partition.full is not None
    assert partition.full.dead_rows_after == 0
    rows = 1400 if primary_key else 1000
    assert measured.amplification == pytest.approx(partition.files + 400 / (rows - 400))
    found = candidates_of(measured, TableState(), TableNeeds(), ENV.now_millis())
    gains = [c.predicted["excess_gain"] for c in found if c.job == "compact"]
    assert max(gains) == pytest.approx(measured.amplification - 1)

    run(lake, "compact", "db.t", "--strategy", "full")
    after = measure_table(lake.table(), ENV)
    assert after.amplification == 1
    assert (after.partitions[0].dead_rows, after.partitions[0].full) == (0, None)


def test_columns_of_several_files_are_worth_a_compaction(lake):
    lake.create(primary_key=False, options={**DELETING, "compaction.min.file-num": "5"})
    for i in range(8):
        lake.append({"k": [i, i], "v": ["a", "b"]})
    (first, *_) = groups_of(lake.table())
    update_columns(lake.table(), first, v=["new", None])
    delete_rows_of(lake.table(), groups_of(lake.table())[1], [0, 1])
    measured = measure_table(lake.table(), ENV)
    (partition,) = measured.partitions
    assert measured.refused == ()
    assert partition.vector_rows == 0  # compaction keeps them
    assert (partition.files, partition.rows, partition.ideal_files) == (9, 16, 1)
    assert partition.full == partition.minor is not None
    assert (partition.full.files, partition.full.files_after) == (9, 1)
    assert "small_files" in {
        r.criterion for r in health_of(measured, Thresholds(), ENV.now_millis()).reasons
    }
    found = candidates_of(measured, TableState(), TableNeeds(), ENV.now_millis())
    assert "compact" in {c.job for c in found}
    run(lake, "compact", "db.t")
    after = measure_table(lake.table(), ENV)
    assert (after.partitions[0].files, after.partitions[0].full) == (1, None)
    assert "compact" not in {
        c.job for c in candidates_of(after, TableState(), TableNeeds(), ENV.now_millis())
    }


def gaps_of(lake) -> list[tuple[int, int, int]]:
    """For each partition its files, those that are necessary, and those that only gaps require."""
    measured = measure_table(lake.table(), ENV)
    return [(p.files, p.ideal_files, p.gap_files) for p in measured.partitions]


def test_files_that_stay_under_data_evolution_are_ideal(lake):
    """Row ids of another partition are a gap, and BLOBs stay in their files."""
    lake.create(primary_key=False, partitioned=True, options=EVOLVING)
    for i in range(6):
        lake.append({"k": [i], "v": ["x"], "dt": ["a" if i < 2 or i % 2 else "b"]})
    assert gaps_of(lake) == [(4, 3, 2), (2, 2, 1)]
    lake.change_options("db.t", "data-evolution.reassign.skip-contiguous-row-count", "1")
    assert gaps_of(lake) == [(4, 3, 1), (2, 2, 1)]  # two files with row ids 0 and 1 stay
    run(lake, "reassign_row_id", "db.t")
    assert gaps_of(lake) == [(4, 2, 0), (2, 1, 0)]
    golden = Path(__file__).parents[3] / "golden" / "newer" / "kinds" / "blob_values"
    (partition,) = measure_table(open_table(str(golden / "warehouse"), "db.t"), ENV).partitions
    assert partition.ideal_files > 1


def test_rows_under_data_evolution_are_counted_once(lake):
    """A group has a file for each update of a column, and several BLOB files."""
    lake.create(primary_key=False, partitioned=True, options=EVOLVING)
    for day in ("a", "b", "a"):
        lake.append({"k": [1, 2, 3], "v": ["x"] * 3, "dt": [day] * 3})
    for group in groups_of(lake.table()):
        update_columns(lake.table(), group, v=["y"] * group[0].file.row_count)
    golden = Path(__file__).parents[3] / "golden" / "newer" / "kinds" / "blob_values"
    for table in (lake.table(), open_table(str(golden / "warehouse"), "db.t")):
        measured = measure_table(table, ENV)
        facts = inspect_table(table, ENV).to_json()
        rows = {p.name: p.rows for p in measured.partitions}
        assert {p["partition"]: p["rows"] for p in facts["partitions"]["list"]} == rows
        assert facts["rows"] == sum(rows.values()) == len(rows_by_id(table))


def test_deletes_that_nothing_follows_are_worth_a_compaction(lake):
    lake.primary_key()
    kinds = pa.array([0] * 60 + [3] * 40, pa.int8())
    writer = RowWriter(lake.table(), env=ENV)
    writer.write(pa.table({"k": pa.array(range(100), pa.int32()), "v": ["x"] * 100}), kinds)
    commit(lake.table(), writer.prepare_commit(), user="a", env=ENV)
    measured = measure_table(lake.table(), ENV)
    assert measured.amplification == pytest.approx(1 + 40 / 60)
    assert measured.partitions[0].full is not None
    assert measured.partitions[0].full.dead_rows_after == 0


def test_small_files_of_an_append_table(lake):
    lake.log()
    lake.fill(12)
    measured = measure_table(lake.table(), ENV)
    assert measured.amplification == 12
    (partition,) = measured.partitions
    assert partition.minor.files == 12
    health = health_of(measured, Thresholds(), ENV.now_millis())
    assert [r.criterion for r in health.reasons] == ["small_files"]


def test_deletion_vectors_hide_level_0_and_count_rows(lake):
    lake.primary_key(**{"deletion-vectors.enabled": "true"})
    lake.fill(3)
    run(lake, "compact", "db.t", "--strategy", "full")
    lake.fill(1, rows=5)
    measured = measure_table(lake.table(), ENV)
    assert not measured.needs_merge
    assert measured.partitions[0].full_runs == 1.0
    assert measured.partitions[0].oldest_level_0 is not None
    health = health_of(measured, Thresholds(), ENV.now_millis() + DAY)
    assert "leave it out until then" in health.reasons[0].text


def test_what_consumers_tags_and_branches_hold_back(lake):
    retained = {"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 h"}
    lake.primary_key(**retained)
    lake.fill(6)
    run(lake, "create_tag", "db.t", "--tag", "old", "--snapshot", 2)
    run(lake, "create_branch", "db.t", "--branch", "b1", "--tag", "old")
    run(lake, "compact", "db.t", "--strategy", "full")
    lake.table().consumers.set("etl", 3)
    measured = measure_table(lake.table(), later(2 * 3_600_000))
    holders = {h.kind: h for h in measured.holders}
    assert measured.beyond_snapshots == 6
    assert holders["consumer"].name == "etl"
    assert measured.blocked_snapshots == holders["consumer"].snapshots == 4
    assert measured.beyond_bytes == holders["consumer"].bytes > 0
    # The tag and the branch need the files of snapshots 1 and 2.
    assert holders["tag"].bytes == holders["branch"].bytes > 0
    (lag,) = measured.consumers
    assert (lag.id, lag.snapshots) == ("etl", 5)
    assert lag.bytes > 0


def test_what_an_expiry_frees_is_predicted(lake):
    lake.primary_key(**{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    lake.fill(6)
    run(lake, "compact", "db.t", "--strategy", "full")
    measured = measure_table(lake.table(), ENV)
    ran = caretaker("run", "expire_snapshots", "db.t", "-w", lake.warehouse, "--json").json
    assert measured.beyond_snapshots == 6
    assert 0 < measured.beyond_bytes <= ran["details"]["deleted_bytes"]
    after = measure_table(lake.table(), ENV)
    assert (after.beyond_snapshots, after.beyond_bytes) == (0, 0)


def test_due_tags_and_stuck_partitions(lake):
    lake.primary_key(
        partitioned=True,
        **{
            "tag.automatic-creation": "process-time",
            "tag.creation-period": "daily",
            "partition.expiration-time": "7 d",
        },
    )
    lake.fill(1)
    measured = measure_table(lake.table(), ENV)
    assert len(measured.tags_due) == 1
    assert set(measured.stuck) == {"dt=day0", "dt=day1"}
    assert "cannot parse" in measured.stuck["dt=day0"]
    run(lake, "trigger_tag_automatic_creation", "db.t")
    assert measure_table(lake.table(), ENV).tags_due == ()


def test_partitions_that_are_due(lake):
    lake.primary_key(
        partitioned=True,
        **{"partition.expiration-time": "7 d", "partition.expiration-strategy": "update-time"},
    )
    lake.fill(1)
    assert measure_table(lake.table(), ENV).partitions_due == 0
    assert measure_table(lake.table(), later(8 * DAY)).partitions_due == 2


def test_an_empty_table(lake):
    lake.primary_key()
    measured = measure_table(lake.table(), ENV)
    assert (measured.snapshot, measured.files, measured.amplification) == (None, 0, 1)
    assert health_of(measured, Thresholds(), ENV.now_millis()).score == 100


@pytest.mark.parametrize(
    "name", ["tags_branches", "deletion_vectors", "postpone", "row_tracking", "rescaled"]
)
def test_tables_of_java(golden, name):
    table = open_table(str(golden(name).warehouse), "db.t")
    measured = measure_table(table, ENV)
    assert 0 < health_of(measured, Thresholds(), ENV.now_millis()).score <= 100


def test_the_command_line(lake, tmp_path):
    lake.primary_key("db.sick")
    lake.fill(20, name="db.sick")
    lake.primary_key("db.fine")
    lake.from_the_future("db.broken")
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\nrules:\n  - tables: '*.*'\n    health: { small_files: { weight: 0 } }\n"
    )
    ran = caretaker("health", "db.*", "-w", lake.warehouse)
    assert "red" in ran.out.splitlines()[0]
    assert "db.sick" in ran.out.splitlines()[0]
    assert "-> compact" in ran.out
    assert "1 green, 0 yellow, 1 red" in ran.out
    assert "telepathy" in ran.err
    one = caretaker("health", "db.sick", "-w", lake.warehouse, "--json").json
    assert one["color"] == "red"
    assert one["reasons"][0]["job"] == "compact"
    changed = caretaker(
        *("health", "db.sick", "-w", lake.warehouse, "--json", "--policy", policy)
    ).json
    assert "small_files" not in [r["criterion"] for r in changed["reasons"]]


def test_the_command_measures_under_the_options_of_the_policy(lake, tmp_path, monkeypatch):
    """As the scheduler does: the retention may be the policy's."""
    url = f"sqlite:///{tmp_path}/h.db"
    monkeypatch.setenv("CARETAKER_HISTORY_URL", url)
    lake.primary_key(**{"caretaker.owner": "table"})
    lake.fill(40)
    run(lake, "compact", "db.t", "--strategy", "full")
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\nrules:\n  - tables: '*.*'\n    owner: policy\n    options:\n"
        "      snapshot.num-retained.max: 1\n      snapshot.num-retained.min: 1\n"
    )
    words = ("health", "db.t", "-w", lake.warehouse, "--json")
    assert caretaker(*words).json["score"] == 100
    ruled = caretaker(*words, "--policy", policy, "--save").json
    assert [r["criterion"] for r in ruled["reasons"]] == ["expired_snapshots"]
    (row,) = lake_page(SqlHistory(url), LakeQuery(warehouse=str(lake.warehouse))).rows
    assert row.owner == "table"  # the table has the last word


def test_orphans_come_from_the_history(lake, monkeypatch, tmp_path):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/h.db")
    lake.primary_key()
    lake.fill(1)
    orphan = tmp_path / "db.db" / "t" / "bucket-0" / "data-x.parquet"
    orphan.write_bytes(b"x" * 5000)
    os.utime(orphan, (1e9, 1e9))
    plan = caretaker("plan", "remove_orphan_files", "db.t", "-w", lake.warehouse)
    assert plan.code == 0, plan.err
    health = caretaker("health", "db.t", "-w", lake.warehouse, "--json").json
    (reason,) = [r for r in health["reasons"] if r["criterion"] == "orphans"]
    assert "1 orphan file" in reason["text"]
    run(lake, "remove_orphan_files", "db.t")
    health = caretaker("health", "db.t", "-w", lake.warehouse, "--json").json
    assert "orphans" not in [r["criterion"] for r in health["reasons"]]


def test_rows_without_a_global_index(lake):
    lake.create(primary_key=False, partitioned=True, options={**EVOLVING, "write-only": "true"})
    for i, day in enumerate("abab"):
        lake.append({"k": [i] * 5, "v": ["x"] * 5, "dt": [day] * 5})
    assert measure_table(lake.table(), ENV).unindexed == {}
    words = ("run", "create_global_index", "db.t", "-w", lake.warehouse, "--index-column")
    assert caretaker(*words, "k", "--where", "dt = 'a'").code == 0
    assert caretaker(*words, "v").code == 0
    update_columns(lake.table(), groups_of(lake.table())[0], dt=["a"] * 5)
    assert measure_table(lake.table(), ENV).unindexed == {"k": 0.5}
    lake.append({"k": [9] * 5, "v": ["x"] * 5, "dt": ["a"] * 5})
    found = measure_table(lake.table(), ENV).unindexed
    assert found == {"k": pytest.approx(0.6), "v": pytest.approx(0.2)}
    assert caretaker(*words, "k").code == 0
    assert measure_table(lake.table(), ENV).unindexed.keys() == {"v"}
