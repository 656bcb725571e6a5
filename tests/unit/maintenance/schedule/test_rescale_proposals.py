"""Bucket sizes over time decide for each partition whether it is rescaled, and to which number."""

from __future__ import annotations

from dataclasses import replace

from paimon_maintenance.health.measurement import Measurement, PartitionMeasurement
from paimon_maintenance.policy.needs import Budget, RescaleRule, TableNeeds
from paimon_maintenance.schedule.cost import CostModel
from paimon_maintenance.schedule.decide import Action, Decision, TableView, decide
from paimon_maintenance.schedule.state import TableState, measured

NOW = 1_800_000_000_000
HOUR = 3_600_000
MB, GB = 1024**2, 1024**3
IDLE = TableNeeds(rescale=RescaleRule.IDLE)


def part(name: str, size: int, buckets: int, *, age: float = 48, **fields: object):
    found = PartitionMeasurement(
        name=f"dt={name}" if name else "",
        values={"dt": name} if name else {},
        files=buckets,
        bytes=size,
        ideal_files=buckets,
        buckets=buckets,
        total_buckets=buckets,
        largest_bucket=size // buckets,
        newest_file=NOW - int(age * HOUR),
    )
    return replace(found, **fields)


def table(*partitions: PartitionMeasurement, **fields: object) -> Measurement:
    keys = ("dt",) if partitions[0].name else ()
    made = Measurement(table="db.t", snapshot=1, at_millis=NOW, partitions=partitions)
    return replace(made, partition_keys=keys, **fields)


def rescales(
    found: Measurement, needs: TableNeeds | None = None, state: TableState | None = None
) -> list[Decision]:
    view = TableView(measurement=found, needs=needs or TableNeeds(), state=state or TableState())
    decided = decide([view], Budget(seconds=None), CostModel(), now=found.at_millis)
    return [d for d in decided if d.job == "rescale"]


def shown(found: list[Decision]) -> list[tuple[object, ...]]:
    return [
        (str(d.action), d.candidate.arguments["bucket_num"], d.candidate.partitions) for d in found
    ]


def test_each_partition_gets_the_number_that_it_needs():
    found = rescales(
        table(
            part("1", 80 * GB, 16),
            part("2", 70 * GB, 16),
            part("3", 16 * MB, 16),
            part("4", 8 * GB, 16),
        )
    )
    assert shown(found) == [("propose", 160, ("dt=1", "dt=2")), ("propose", 1, ("dt=3",))]
    assert "2 partitions of up to 80.0 GB have 16 buckets where 160 of 512.0 MB" in found[0].reason


def test_a_partition_that_still_grows_is_not_too_small():
    """The partition of a day begins with nothing in all of its buckets."""
    today = part("today", 100 * MB, 16, age=0)
    assert rescales(table(today)) == []
    assert shown(rescales(table(replace(today, newest_file=NOW - 25 * HOUR)))) == [
        ("propose", 1, ("dt=today",))
    ]


def test_a_table_that_stays_small_is_proposed_after_three_days():
    state = TableState()
    for hours in range(0, 79, 6):
        found = table(part("", 100 * MB, 64, age=-hours), at_millis=NOW + hours * HOUR)
        state = measured(state, found, red=False)
        assert bool(rescales(found, state=state)) == (hours >= 72), hours
    assert TableState.from_json(state.to_json()) == state
    # Its files may be older than the first measurement; a compaction makes them new.
    old = table(part("", 100 * MB, 64, age=1, oldest_file=NOW - 80 * HOUR))
    state = measured(TableState(), old, red=False)
    assert shown(rescales(old, state=state)) == [("propose", 1, ())]
    new = table(part("", 100 * MB, 64, age=0, oldest_file=NOW))
    assert rescales(new, state=measured(state, new, red=False))
    assert not rescales(new, state=measured(TableState(), new, red=False))
    # What has grown begins anew.
    grown = table(part("", 64 * GB, 64, age=-84), at_millis=NOW + 84 * HOUR)
    state = measured(state, grown, red=False)
    assert state.small_since == {}


def test_few_keys_with_most_rows_are_no_matter_of_the_number():
    assert rescales(table(part("", 6 * GB, 64, largest_bucket=5 * GB))) == []


def test_idle_partitions_are_rescaled_and_no_writer_is_stopped():
    old, today = part("1", 80 * GB, 16), part("2", 8 * GB, 16, age=1)
    (found,) = rescales(table(old, today), IDLE)
    # The option `bucket` changes for the whole table, and a writer of today's partition is refused.
    assert (found.action, found.candidate.partitions) == (Action.PROPOSE, ("dt=1",))
    assert "writers of dt=2 would have to stop" in found.reason
    assert rescales(table(old, today), IDLE)[0].action is Action.PROPOSE
    for safe in (
        table(old, today, options={"bucket": "160"}),
        table(old, replace(today, total_buckets=160)),
        table(old, replace(today, newest_file=NOW - 25 * HOUR)),
    ):
        (found,) = rescales(safe, IDLE)
        assert (found.action, found.candidate.partitions) == (Action.RUN, ("dt=1",))
    # A partition that receives files waits until it rests; an unpartitioned table is proposed.
    large = part("2", 80 * GB, 16, age=1)
    assert rescales(table(large), IDLE) == []
    assert rescales(table(part("", 80 * GB, 16)), IDLE)[0].action is Action.PROPOSE
    assert rescales(table(old), TableNeeds(rescale=RescaleRule.OFF)) == []
