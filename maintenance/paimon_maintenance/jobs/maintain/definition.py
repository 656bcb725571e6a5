"""What `maintain` is called, takes and promises; nothing heavy is imported here.

It is made of other jobs, which the registry hands in: jobs do not know each other.
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
    help="compact first, with this strategy (sort, where the table has clustering.incremental)",
)
ALSO = Argument(
    name="also",
    kind=Kind.TEXTS,
    default=(),
    choices=ON_DEMAND,
    help=f"further steps, after the usual ones: {', '.join(ON_DEMAND)}",
    example="expire_changelogs,compact_manifest",
)
WITHOUT = Argument(
    name="without",
    kind=Kind.TEXTS,
    default=(),
    choices=("compact", *USUAL, *ON_DEMAND),
    help=f"steps to leave out, of {', '.join(USUAL)} and those that were asked for",
    example="expire_partitions",
)
STEP_ARGUMENTS = Argument(
    name="step_arguments",
    flag="step-argument",
    aliases=("step_argument",),
    kind=Kind.OPTIONS,
    default={},
    help="an argument of a step, STEP.ARGUMENT=VALUE, given again for more",
    example="expire_snapshots.retain_max=100",
)
OPTIONS = replace(common_arguments.OPTIONS, example="snapshot.time-retained=1 d")


def maintain_job(jobs: Mapping[str, Job]) -> Job:
    """The job made of these ones."""
    return Job(
        name="maintain",
        summary="all that is due for a table: tags, partitions, consumers, snapshots, and more",
        changes=(
            "Runs, in Java's order, the automatic tags and their expiry, the expiry of partitions, "
            "of consumers and of snapshots, as far as the table's options (or the policy) ask for "
            "them; before that a compaction, after it changelogs, manifests and orphan files, if "
            "asked for. Each step is planned again when its turn comes."
        ),
        protects=(
            "What each step protects, and its guards. After a step that failed, no step deletes "
            "what it might have kept: no snapshot expires when tags could not be made. The other "
            "steps go on, and the run fails in the end."
        ),
        undo="That of the steps; the report names what each of them did.",
        arguments=(COMPACT, ALSO, WITHOUT, STEP_ARGUMENTS, OPTIONS),
        examples=(
            "caretaker plan maintain db.orders -w /lake",
            "caretaker run maintain 'db.*' -w /lake --compact minor",
            "caretaker run maintain db.orders -w /lake --also expire_changelogs,compact_manifest",
            "caretaker plan maintain db.t -w /lake --step-argument expire_snapshots.retain_max=9",
        ),
        load=partial(_load, jobs),
        by_age=True,
        retry_safe=True,
    )


def _load(jobs: Mapping[str, Job]) -> Steps[Any, Any, Any, Any]:
    from paimon_maintenance.jobs.maintain.steps import steps_of  # noqa: PLC0415 - only when it runs

    return steps_of(jobs)
