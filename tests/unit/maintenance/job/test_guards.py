from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from paimon_core.errors import GuardTripped, StalePlan
from paimon_maintenance.job.guards import FREE, Guards
from paimon_maintenance.job.plan import Effect, Loss, LossKind, Retained, SingleUse, SnapshotPin


@dataclass(frozen=True)
class SomePlan:
    effect: Effect
    table: str = "db.t"
    pin: SnapshotPin | None = None
    once: SingleUse = field(default_factory=SingleUse)
    is_empty: bool = False
    kept: tuple[Retained, ...] = ()
    failure: None = None
    goes_on: bool = False

    def to_json(self):
        return {}

    def lines(self):
        return iter(())


def test_rewriting_everything_is_no_loss():
    plan = SomePlan(Effect(rewritten_files=9, rewritten_bytes=90, table_files=9, table_bytes=90))
    Guards().check(plan, force=False)


def losing(*losses: Loss) -> SomePlan:
    return SomePlan(Effect(losses=losses))


def test_deleting_most_of_a_table_trips():
    plan = losing(Loss(LossKind.FILES, 60, 100), Loss(LossKind.BYTES, 10, 100))
    with pytest.raises(GuardTripped, match="60 of 100 data files") as raised:
        Guards().check(plan, force=False)
    assert raised.value.table == "db.t"
    Guards().check(plan, force=True)
    Guards(max_deleted_share=0.6).check(plan, force=False)


@pytest.mark.parametrize("kind", LossKind)
def test_a_share_counts_only_beyond_what_is_always_free(kind):
    free = FREE[kind]
    Guards(max_deleted_share=0).check(losing(Loss(kind, free, free)), force=False)
    for guards in (Guards(), Guards(max_deleted_share=0.9)):
        with pytest.raises(GuardTripped, match=r"\(100%\).*\(max_deleted_share\)"):
            guards.check(losing(Loss(kind, free + 1, free + 1)), force=False)
    Guards().check(losing(Loss(kind, free + 1, 3 * free)), force=False)
    Guards().check(losing(Loss(kind, 10**15)), force=False)


@pytest.mark.parametrize(
    ("kind", "limits"),
    [
        (LossKind.SNAPSHOTS, {"max_deleted_snapshots": 5}),
        (LossKind.CHANGELOGS, {"max_deleted_snapshots": 5}),
        (LossKind.TAGS, {"max_deleted_snapshots": 5}),
        (LossKind.FILES, {"max_deleted_files": 5}),
        (LossKind.METADATA, {"max_deleted_files": 5}),
        (LossKind.BYTES, {"max_deleted_bytes": 5}),
    ],
)
def test_an_absolute_limit_holds_whatever_the_share_is(kind, limits):
    guards = Guards(**limits)
    (name,) = limits
    for whole in (None, 10**9):
        guards.check(losing(Loss(kind, 5, whole)), force=False)
        with pytest.raises(GuardTripped, match=name):
            guards.check(losing(Loss(kind, 6, whole)), force=False)
        guards.check(losing(Loss(kind, 6, whole)), force=True)


def test_nothing_overrides_that_the_newest_snapshot_keeps_its_files():
    plan = SomePlan(Effect(needed=("/lake/db.db/t/bucket-0/data-1.parquet",)))
    for force in (False, True):
        with pytest.raises(GuardTripped, match="newest snapshot needs") as raised:
            Guards().check(plan, force=force)
        assert raised.value.file == "/lake/db.db/t/bucket-0/data-1.parquet"
        assert "--force does not override" in raised.value.next_step


def test_rewriting_more_than_allowed_trips():
    plan = SomePlan(Effect(rewritten_bytes=101, table_bytes=101))
    Guards(max_rewrite_bytes=101).check(plan, force=False)
    with pytest.raises(GuardTripped, match="--max-rewrite"):
        Guards(max_rewrite_bytes=100).check(plan, force=False)


def test_a_plan_is_used_once():
    plan = SomePlan(Effect())
    plan.once.take(plan.table)
    with pytest.raises(StalePlan):
        plan.once.take(plan.table)
