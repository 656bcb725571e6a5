"""Each kind of sick table loses points for its own reason, and a healthy one loses none."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_maintenance.health.measurement import (
    ConsumerLag,
    Holder,
    Measurement,
    Orphans,
    PartitionMeasurement,
)
from paimon_maintenance.health.score import health_of
from paimon_maintenance.health.thresholds import (
    DEFAULTS,
    RED,
    Threshold,
    Thresholds,
)

NOW = 1_800_000_000_000
HOUR = 3_600_000
MB, GB = 1024**2, 1024**3
HEALTHY = PartitionMeasurement(
    files=4, bytes=GB, rows=1_000_000, ideal_files=4, buckets=2, total_buckets=2
)


def table(*partitions: PartitionMeasurement, **fields: object) -> Measurement:
    return replace(
        Measurement(table="db.t", snapshot=9, snapshots=9, partitions=partitions or (HEALTHY,)),
        **fields,
    )


def part(**fields: object) -> PartitionMeasurement:
    return replace(HEALTHY, **fields)


def score(measured: Measurement, **limits: int):
    return health_of(measured, Thresholds(**limits), NOW)


LAG = ConsumerLag(id="flink", snapshots=80, since=NOW - 100 * HOUR, bytes=GB, last_seen=NOW)
SICK = {
    "point_read_runs": (table(part(point_runs=15)), "compact"),
    "full_read_runs": (table(part(full_runs=12.0)), "compact"),
    "small_files": (table(part(files=400, ideal_files=8)), "compact"),
    "row_id_gaps": (table(part(files=40, ideal_files=40, gap_files=38)), "reassign_row_id"),
    "delete_rows": (table(part(delete_rows=400_000)), "compact"),
    "deletion_vectors": (table(part(vector_rows=400_000), needs_merge=False), "compact"),
    "level_0_age": (table(part(oldest_level_0=NOW - 40 * HOUR)), "compact"),
    "large_buckets": (table(part(largest_bucket=8 * GB)), "rescale"),
    "expired_bytes": (table(beyond_snapshots=5, beyond_bytes=3 * GB), "expire_snapshots"),
    "expired_snapshots": (table(beyond_snapshots=900, snapshots=1000), "expire_snapshots"),
    "held_bytes": (table(holders=(Holder(kind="tag", name="y2020", bytes=4 * GB),)), None),
    "consumer_lag": (table(consumers=(LAG,)), None),
    "tags_due": (table(tags_due=("2026-01-01",)), "trigger_tag_automatic_creation"),
    "partitions_due": (table(partitions_due=12), "expire_partitions"),
    "stuck_partitions": (table(stuck={f"dt={i}": "cannot parse" for i in range(9)}), None),
    "small_buckets": (table(part(total_buckets=64, bytes=MB, buckets=64)), "rescale"),
    "bucket_count": (table(part(buckets=40_000, bytes=40_000 * GB, ideal_files=10**6)), None),
    "orphans": (
        table(orphans=Orphans(files=7, bytes=GB // 2, at_millis=NOW)),
        "remove_orphan_files",
    ),
    "unindexed_rows": (table(unindexed={"id": 0.01, "name": 0.3}), "create_global_index"),
    "manifests": (table(manifests=700), "compact_manifest"),
    "unknown_options": (table(unknown_options=("snapshot.time-retaned",)), None),
    "invalid_options": (table(invalid_options=("bucket",)), None),
    "snapshot_gap": (table(gaps=1), "repair"),
}


def test_a_healthy_table_has_100_and_no_reason():
    health = score(table())
    assert (health.score, health.reasons, health.color) == (100, (), "green")


@pytest.mark.parametrize("criterion", SICK)
def test_each_kind_of_sick_table(criterion):
    measured, job = SICK[criterion]
    health = score(measured)
    (reason,) = [r for r in health.reasons if r.criterion == criterion]
    assert [r.criterion for r in health.reasons] == [criterion]
    assert reason.job == job
    assert health.score == round(100 - reason.points)
    assert len(reason.text) > 15


def test_every_criterion_has_a_sick_table():
    assert SICK.keys() | {"freshness"} == DEFAULTS.keys()


def test_one_severe_problem_is_red_and_problems_compound():
    bad = part(point_runs=40, full_runs=40.0)
    one = score(table(bad))
    assert one.score < RED
    more = score(table(bad, tags_due=("a", "b", "c")))
    assert more.score == round(one.score * 0.75)
    everything = table(
        replace(bad, files=900, oldest_level_0=0, delete_rows=900_000),
        gaps=1,
        tags_due=("a", "b", "c"),
        stuck={str(i): "" for i in range(10)},
        manifests=5000,
    )
    assert 0 <= score(everything).score < 10


def test_the_worst_partition_counts_even_if_it_is_small():
    sick = part(name="dt=2", bytes=GB // 1000, point_runs=40, full_runs=40.0)
    health = score(table(*(part(name=f"dt=1-{i}") for i in range(20)), sick))
    assert health.partitions[0].name == "dt=2"
    assert health.partitions[0].score < RED < health.score < 80
    assert "dt=2" in health.reasons[0].text


def test_freshness_goal():
    late = table(part(oldest_level_0=NOW - HOUR, level_0_files=1))
    assert score(late).score == 100
    health = score(late, freshness_millis=10 * 60_000)
    assert health.reasons[0].criterion == "freshness"
    assert health.color == "red"
    assert "goal is 10 min" in health.reasons[0].text


def test_consumer_limits():
    consumer = replace(LAG, since=NOW - HOUR)
    assert score(table(consumers=(consumer,))).score == 100
    for limit in (
        {"consumer_snapshots": 10},
        {"consumer_bytes": MB},
        {"consumer_millis": HOUR // 9},
    ):
        assert score(table(consumers=(consumer,)), **limit).reasons[0].criterion == "consumer_lag"


def test_who_holds_snapshots_back_is_named():
    blocked = table(
        beyond_snapshots=50,
        beyond_bytes=3 * GB,
        blocked_snapshots=50,
        blocked_bytes=3 * GB,
        holders=(Holder(kind="consumer", name="etl", bytes=3 * GB, snapshots=50),),
    )
    reasons = {r.criterion: r for r in score(blocked).reasons}
    assert "consumer etl holds back 50 snapshots" in reasons["expired_bytes"].text
    # Expiry would remove nothing.
    assert reasons["expired_bytes"].job is None


def test_a_refused_table_has_no_job_for_compaction():
    (reason,) = score(table(part(full_runs=12.0), refused=("blobs",))).reasons
    assert reason.job is None


def test_tables_without_merge_do_not_count_runs():
    assert score(table(part(point_runs=40, full_runs=40.0), needs_merge=False)).score == 100


def test_severity():
    linear, log = Threshold(1, 3, 1), Threshold(1, 100, 1, log=True)
    assert [linear.severity(x) for x in (0, 1, 2, 3, 9)] == [0, 0, 0.5, 1, 1]
    assert log.severity(10) == pytest.approx(0.5)
    assert Threshold(0, 10, 1, log=True).severity(5) > 0


def test_thresholds_can_be_changed():
    limits = Thresholds().with_changes({"manifests": {"weight": 0.0}})
    assert health_of(table(manifests=9000), limits, NOW).score == 100
    assert health_of(table(manifests=9000), Thresholds(), NOW).score == 80


def test_measurements_survive_json():
    for measured, _ in SICK.values():
        assert Measurement.from_json(json.loads(json.dumps(measured.to_json()))) == measured
    other = {**table().to_json(), "version": 99}
    assert Measurement.from_json(other) is None
    assert Measurement.from_json({**table().to_json(), "news": 1}) is None


def test_amplification():
    assert table().amplification == 1
    assert table(part(full_runs=3.0), part(full_runs=1.0)).amplification == 2
    assert table(part(files=40), primary_key=False).amplification == 10
    assert replace(table(), partitions=()).amplification == 1


def test_the_document_has_every_criterion_with_its_numbers():
    text = (Path(__file__).parents[4] / "docs" / "health.md").read_text()
    rows = [re.split(r"\s*\|\s*", line) for line in text.splitlines() if line.startswith("| `")]
    written = {
        name.strip("`"): Threshold(
            float(good.replace(",", "")),
            float(bad.replace(",", "")),
            float(weight),
            "(log)" in what,
        )
        for _, name, what, good, bad, weight, *_ in rows
    }
    assert written == DEFAULTS
