"""Whose word counts: what was typed, the policy, a DAG's defaults, the job's."""

from __future__ import annotations

import pytest

from paimon_core.errors import InvalidArgument
from paimon_maintenance.job.exit_codes import OnRefused
from paimon_maintenance.jobs.maintain.step_plans import chosen_steps
from paimon_maintenance.policy.load import read_policy
from paimon_maintenance.policy.model import GuardPolicy, TablePolicy
from paimon_maintenance.policy.resolve import is_given, resolve
from paimon_maintenance.registry import JOBS, job_named

HEAD = "version: 1\nrules:\n  - tables: d.*\n"


def policy(text: str = "") -> TablePolicy:
    return read_policy(HEAD + text, "p.yaml").for_table("d.t")


def test_typed_comes_before_the_policy_before_the_dag_before_the_job():
    job = job_named("remove_orphan_files")
    ruled = policy("    jobs: {remove_orphan_files: {arguments: {mode: quarantine}}}\n")
    assert resolve(job, policy(), typed={}).arguments["mode"] == "delete"
    own = {"mode": "quarantine"}
    assert resolve(job, policy(), typed={}, defaults=own).arguments["mode"] == "quarantine"
    assert resolve(job, ruled, typed={}, defaults={"mode": "delete"}).raw == own
    assert resolve(job, ruled, typed={"mode": "delete"}).arguments["mode"] == "delete"


@pytest.mark.parametrize("blank", [None, "", "  ", [], (), {}])
def test_blank_means_not_typed(blank):
    assert not is_given(blank)
    ruled = policy("    jobs: {remove_orphan_files: {arguments: {mode: quarantine}}}\n")
    found = resolve(job_named("remove_orphan_files"), ruled, typed={"mode": blank})
    assert found.arguments["mode"] == "quarantine"


def test_zero_and_no_are_typed():
    assert is_given(0)
    assert is_given(False)


def test_typing_one_option_leaves_the_policys_others_in_force():
    ruled = policy("    jobs: {compact: {arguments: {options: {tag.a: 1, tag.b: 2}}}}\n")
    found = resolve(job_named("compact"), ruled, typed={"options": ["tag.b=3"]})
    assert found.arguments["options"] == {"tag.a": "1", "tag.b": "3"}


def test_an_argument_of_one_step_leaves_the_quarantine_of_another_in_force():
    ruled = policy(
        "    jobs:\n      remove_orphan_files: {arguments: {mode: quarantine}}\n"
        "      expire_snapshots: {arguments: {retain_max: 5}}\n"
    )
    typed = {
        "also": ["remove_orphan_files"],
        "step_arguments": ["expire-snapshots.retainMax=9"],
    }
    found = resolve(job_named("maintain"), ruled, typed=typed)
    steps = {job.name: arguments for job, arguments in chosen_steps(JOBS, found.arguments)}
    assert steps["remove_orphan_files"]["mode"] == "quarantine"
    assert steps["expire_snapshots"]["retain_max"] == 9


def test_a_step_that_is_off_stays_off_unless_just_it_is_asked_for():
    ruled = policy("    jobs: {expire_partitions: off, remove_orphan_files: off, compact: off}\n")
    maintain = job_named("maintain")

    def left_out(**typed: object) -> set[str]:
        return set(resolve(maintain, ruled, typed=typed).arguments["without"])

    off = {"expire_partitions", "remove_orphan_files", "compact"}
    assert left_out() == off
    assert left_out(without=["expire_consumers"]) == {*off, "expire_consumers"}
    assert left_out(also=["remove_orphan_files"]) == off - {"remove_orphan_files"}
    assert left_out(compact="full") == off - {"compact"}
    assert left_out(compact="none") == off


def test_a_job_that_is_no_step_may_be_off_beside_maintain():
    ruled = policy("    jobs: {rescale: off, expire_consumers: off}\n")
    found = resolve(job_named("maintain"), ruled, typed={})
    assert found.arguments["without"] == ("expire_consumers",)


def test_limits_that_were_typed_come_before_the_policys_before_the_dags():
    ruled = policy("    guards: {max_deleted_share: 0.2, max_rewrite: 5 gb}\n")
    job = job_named("compact")
    own = GuardPolicy(max_rewrite="1 kb")
    assert resolve(job, ruled, typed={}, default_limits=own).guards.max_rewrite_bytes == 5 * 1024**3
    assert resolve(job, policy(), typed={}, default_limits=own).guards.max_rewrite_bytes == 1024
    found = resolve(job, ruled, typed={}, limits=GuardPolicy(max_rewrite="2 kb"))
    assert (found.guards.max_rewrite_bytes, found.guards.max_deleted_share) == (2048, 0.2)
    with pytest.raises(InvalidArgument, match="argument --max-rewrite: "):
        resolve(job, ruled, typed={}, limits=GuardPolicy(max_rewrite="lots"))


@pytest.mark.parametrize(
    ("limits", "raises"),
    [
        ({}, False),
        ({"max_rewrite": "5 gb"}, False),
        ({"max_rewrite": "1 kb"}, False),
        ({"max_rewrite": "6 gb"}, True),
        ({"max_deleted_share": 0.1}, False),
        ({"max_deleted_share": 0.3}, True),
        ({"max_deleted_files": 10}, False),  # the policy has no limit
    ],
)
def test_a_limit_that_was_raised_is_known(limits, raises):
    ruled = policy("    guards: {max_deleted_share: 0.2, max_rewrite: 5 gb}\n")
    found = resolve(job_named("compact"), ruled, typed={}, limits=GuardPolicy(**limits))
    assert found.raises_guards is raises


def test_the_default_share_is_a_limit_too():
    for share, raises in ((0.5, False), (0.6, True)):
        limits = GuardPolicy(max_deleted_share=share)
        found = resolve(job_named("compact"), policy(), typed={}, limits=limits)
        assert found.raises_guards is raises


@pytest.mark.parametrize(
    "limits",
    [
        {"max_deleted_share": float("nan")},
        {"max_deleted_share": 50},
        {"max_deleted_share": -1},
        {"max_deleted_files": -1},
    ],
)
def test_limits_that_would_stop_nothing_are_refused(limits):
    with pytest.raises(InvalidArgument, match=r"not between 0 and 1|is negative"):
        resolve(job_named("compact"), policy(), typed={}, limits=GuardPolicy(**limits))


def test_an_unknown_argument_is_refused():
    with pytest.raises(InvalidArgument, match="unknown argument 'stratgy'"):
        resolve(job_named("compact"), policy(), typed={"stratgy": "full"})


def test_what_a_refusal_means_is_said_for_a_rule_or_for_a_job():
    text = "    on_refused: skip\n    jobs: {compact: {on_refused: fail}}\n"
    assert resolve(job_named("compact"), policy(text), typed={}).on_refused is OnRefused.FAIL
    assert resolve(job_named("maintain"), policy(text), typed={}).on_refused is OnRefused.SKIP
    assert resolve(job_named("maintain"), policy(), typed={}).on_refused is None
    with pytest.raises(InvalidArgument, match=r"on_refused: 'never' is not one of skip, fail"):
        policy("    on_refused: never\n")
