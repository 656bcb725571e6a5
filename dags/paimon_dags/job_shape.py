"""The shape of a job's DAG: plan -> (in process | on Spark) -> report, and its form.

A job that never rewrites data has no Spark step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from paimon_airflow.batches import parse_size
from paimon_dags.docs import job_docs
from paimon_dags.form import below_policy, form_fields, policy_fields
from paimon_dags.pages import BY_HAND, Page, all_pages
from paimon_dags.settings import JobSettings, Settings, SettingsError
from paimon_dags.shape import DagShape, Kind, Step
from paimon_maintenance.job.job import Job
from paimon_maintenance.registry import JOBS, job_named

if TYPE_CHECKING:
    from paimon_maintenance.policy.model import Policy, Scheduled

PLAN_RETRIES = 2
_WORDS = {"-": "to", "*": "x", "/": "by", ",": ".", "#": "nth", "?": "any", "@": ""}


def job_shapes(settings: Settings) -> Iterator[DagShape]:
    """The DAGs of all jobs, but those that the settings switch off; SettingsError names a wrong
    job.
    """
    unknown = sorted(set(settings.jobs) - set(JOBS))
    if unknown:
        message = f"[jobs.{unknown[0]}]: no job is called so (there are: {', '.join(sorted(JOBS))})"
        raise SettingsError(message)
    pages = {page.job: page for page in all_pages(JOBS)}
    policy: Policy | None = None
    if settings.policy is not None:
        from paimon_maintenance.policy.load import load_policy  # noqa: PLC0415 - only where there is one

        policy = load_policy(settings.policy)
    for page in pages.values():
        if settings.job(page.job).enabled:
            yield job_shape(page, settings, policy)
    for scheduled in policy.schedules() if policy is not None else ():
        if settings.job(scheduled.job).enabled:
            yield policy_shape(scheduled, pages[scheduled.job], settings)


def policy_shape(scheduled: Scheduled, page: Page, settings: Settings) -> DagShape:
    """The DAG that runs the job whenever this schedule of the policy fires, on its tables."""
    job = job_named(page.job)
    return DagShape(
        dag_id=f"caretaker_policy_{job.name}__{_slug(scheduled.schedule)}",
        job=job.name,
        title=f"Caretaker policy: {job.name.replace('_', ' ')}, {scheduled.schedule}",
        summary=job.summary,
        docs=job_docs(
            job, page, schedule=scheduled.schedule, settings=settings, tables=scheduled.tables
        ),
        fields=policy_fields(page, settings, scheduled.tables),
        steps=_steps(job, page, settings.job(page.job)),
        schedule=scheduled.schedule,
        tags=("caretaker", "policy", page.area),
        parallel_batches=settings.parallel_batches,
        policy_schedule=scheduled.schedule,
    )


def _slug(schedule: str) -> str:
    """The schedule in the letters of a DAG's id: "*/30 * * * *" is "xby30-x-x-x-x"."""
    for sign, word in _WORDS.items():
        schedule = schedule.replace(sign, word)
    return re.sub(r"[^\w.-]+", "-", schedule.strip())


def job_shape(page: Page, settings: Settings, policy: Policy | None = None) -> DagShape:
    """The DAG of the page's job under these settings; its form tells what the policy says."""
    job = job_named(page.job)
    own = settings.job(page.job)
    schedule = page.schedule if own.schedule is None else own.schedule
    if settings.policy is not None and own.schedule is None:
        # The policy says when; this DAG stays, for triggering the job with its whole form.
        schedule = BY_HAND
    by_hand = schedule == BY_HAND
    defaults = {
        **page.defaults,
        **(page.by_hand_defaults if by_hand else {}),
        **own.defaults,
    }
    shape = DagShape(
        dag_id=page.dag_id,
        job=job.name,
        title=f"Caretaker: {job.name.replace('_', ' ')}",
        summary=job.summary,
        docs=job_docs(job, page, schedule=schedule, settings=settings),
        fields=form_fields(job, page, settings, defaults, by_hand=by_hand, policy=policy),
        defaults=below_policy(job, defaults),
        steps=_steps(job, page, own),
        schedule=schedule or None,
        tags=("caretaker", page.area),
        parallel_batches=settings.parallel_batches,
    )
    unknown = set(own.defaults) - {field.name for field in shape.fields}
    if unknown:
        message = f"[jobs.{page.job}] defaults: the form has no {', '.join(sorted(unknown))}"
        raise SettingsError(message)
    _check_defaults(job, shape.defaults, where=f"[jobs.{page.job}] defaults")
    empty = [field.name for field in shape.fields if field.required and field.default is None]
    if shape.schedule and empty:
        message = f"[jobs.{page.job}] schedule: give defaults for {', '.join(empty)} as well"
        raise SettingsError(message)
    return shape


def _check_defaults(job: Job, defaults: Mapping[str, object], *, where: str) -> None:
    """SettingsError for a default that the job cannot read."""
    try:
        job.read_arguments({k: v for k, v in defaults.items() if k != "max_rewrite"})
        if "max_rewrite" in defaults:
            parse_size(str(defaults["max_rewrite"]))
    except ValueError as e:  # InvalidArgument is one
        message = f"{where}: {e}"
        raise SettingsError(message) from e


def _steps(job: Job, page: Page, own: JobSettings) -> tuple[Step, ...]:
    retries = page.retries if own.retries is None else own.retries
    work = [_in_process(job, own, retries)]
    if page.rewrites:
        work.append(_on_spark(job, own, retries))
    return (
        Step(
            id="plan",
            kind=Kind.PLAN,
            title="Plan every table",
            doc="Lists the tables, makes a plan for each from its metadata, and packs those that "
            "have data to rewrite into batches. Never starts Spark, never changes anything.",
            # Planning changes nothing, so that trying again is always right.
            retries=PLAN_RETRIES if own.retries is None else own.retries,
            retry_minutes=own.retry_minutes,
        ),
        *work,
        Step(
            id="report",
            kind=Kind.REPORT,
            title="Report",
            doc="Gathers what happened to every table, prints it, keeps it as `return_value`, and "
            "fails the run if a table failed, naming it and the reason.",
            after=("plan", *(step.id for step in work)),
            always=True,
        ),
    )


def _in_process(job: Job, own: JobSettings, retries: int) -> Step:
    return Step(
        id="in_process",
        kind=Kind.IN_PROCESS,
        title="Metadata only",
        doc=f"Runs {job.name} on the tables whose plan rewrites no data, in the worker's own "
        "process. Skipped when there are none.",
        after=("plan",),
        pool=own.pool,
        retries=retries,
        retry_minutes=own.retry_minutes,
    )


def _on_spark(job: Job, own: JobSettings, retries: int) -> Step:
    return Step(
        id="on_spark",
        kind=Kind.ON_SPARK,
        title="On Spark",
        doc=f"One Spark application a batch: runs {job.name} on each of its tables. A batch "
        "is red when one of its tables failed; its other tables are done all the same.",
        after=("plan",),
        mapped=True,
        pool=own.pool,
        retries=retries,
        retry_minutes=own.retry_minutes,
    )
