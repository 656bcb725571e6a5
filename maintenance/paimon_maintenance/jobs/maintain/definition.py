"""The definition of `maintain`: name, arguments and help.  Imports nothing heavy.

It runs other jobs, which the registry passes in, because jobs do not import each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from paimon_maintenance.job import common_arguments
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.job import Job, Steps
from paimon_maintenance.jobs.maintain.step_names import ON_DEMAND, USUAL

COMPACT = Argument(
    name="compact",
    kind=Kind.CHOICE,
    choices=("none", "minor", "full"),
    default="none",
    help="first compact with this strategy (by sorting if the table has clustering.incremental)",
)
ALSO = Argument(
    name="also",
    kind=Kind.TEXTS,
    default=(),
    choices=ON_DEMAND,
    help=f"additional steps after the default ones: {', '.join(ON_DEMAND)}",
    example="expire_changelogs,compact_manifest",
)
WITHOUT = Argument(
    name="without",
    kind=Kind.TEXTS,
    default=(),
    choices=("compact", *USUAL, *ON_DEMAND),
    help=f"steps to skip, from {', '.join(USUAL)} and the additional steps",
    example="expire_partitions",
)
STEP_ARGUMENTS = Argument(
    name="step_arguments",
    flag="step-argument",
    aliases=("step_argument",),
    kind=Kind.OPTIONS,
    default={},
    help="argument of a step: STEP.ARGUMENT=VALUE; repeatable",
    example="expire_snapshots.retain_max=100",
)
OPTIONS = replace(common_arguments.OPTIONS, example="snapshot.time-retained=1 d")


def maintain_job(jobs: Mapping[str, Job]) -> Job:
    """The `maintain` job that runs these jobs."""
    return Job(
        name="maintain",
        summary="run all due maintenance: tags, partitions, consumers, snapshots and more",
        changes=(
            "Creates automatic tags and expires tags, partitions, consumers and snapshots, in Java's "
            "order, as the table options (or the policy) require. On request, also compacts first, and "
            "afterwards expires changelogs, compacts manifests and removes orphan files. Each step is "
            "planned again right before it runs."
        ),
        protects=(
            "The protection and the guards of each step. After a failed step, no later step deletes "
            "files that the failed step protects: for example, snapshots do not expire if tags "
            "failed. The other steps continue, and the run fails at the end."
        ),
        undo="See the steps; the report lists the changes of each step.",
        arguments=(COMPACT, ALSO, WITHOUT, STEP_ARGUMENTS, OPTIONS),
        examples=(
            "caretaker plan maintain db.orders -w /lake",
            "caretaker run maintain 'db.*' -w /lake --compact minor",
            "caretaker run maintain db.orders -w /lake --also expire_changelogs,compact_manifest",
            "caretaker plan maintain db.t -w /lake --step-argument expire_snapshots.retain_max=100",
        ),
        load=partial(_load, jobs),
        by_age=True,
        retry_safe=True,
    )


def _load(jobs: Mapping[str, Job]) -> Steps[Any, Any, Any, Any]:
    from paimon_maintenance.jobs.maintain.steps import steps_of  # noqa: PLC0415 - only when it runs

    return steps_of(jobs)
