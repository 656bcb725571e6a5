from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from maintenance.guards import Guards
from maintenance.plan import Effect, Kept, Once, SnapshotPin
from paimon_core.errors import GuardTripped, StalePlan


@dataclass(frozen=True)
class SomePlan:
    effect: Effect
    table: str = "db.t"
    pin: SnapshotPin | None = None
    once: Once = field(default_factory=Once)
    is_empty: bool = False
    kept: tuple[Kept, ...] = ()

    def to_json(self):
        return {}

    def lines(self):
        return iter(())


def test_rewriting_everything_is_no_loss():
    plan = SomePlan(Effect(rewritten_files=9, rewritten_bytes=90, table_files=9, table_bytes=90))
    Guards().check(plan, force=False)


def test_deleting_most_of_a_table_trips():
    plan = SomePlan(Effect(deleted_files=6, deleted_bytes=10, table_files=10, table_bytes=100))
    with pytest.raises(GuardTripped, match="6 of 10 files") as raised:
        Guards().check(plan, force=False)
    assert raised.value.table == "db.t"
    Guards().check(plan, force=True)
    Guards(max_deleted_share=0.6).check(plan, force=False)


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
