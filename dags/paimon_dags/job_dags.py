"""The DAGs: one for each job, and one for each schedule of the policy.

Each is a task group of `paimon_airflow.caretaker_job` under the form of its job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG

from paimon_airflow.task_groups import caretaker_job
from paimon_airflow.tasks.batches import parse_size
from paimon_airflow.tasks.job_request import ENGINE
from paimon_dags.docs import job_docs
from paimon_dags.form import Form, below_policy, job_form, policy_form, task_options
from paimon_dags.pages import BY_HAND, Page, all_pages
from paimon_dags.settings import Settings, SettingsError
from paimon_maintenance.job.job import Job
from paimon_maintenance.registry import JOBS, job_named

if TYPE_CHECKING:
    from paimon_maintenance.policy.model import Policy, Scheduled

_START = datetime(2024, 1, 1, tzinfo=UTC)
_RUNS_WITH_APPROVAL = 16
_WORDS = {"-": "to", "*": "x", "/": "by", ",": ".", "#": "nth", "?": "any", "@": ""}


def job_dags(settings: Settings) -> Iterator[DAG]:
    """The DAGs of all jobs that the settings do not disable, then those of the policy.

    SettingsError names a job in the settings that does not exist, or a setting that cannot work.
    """
    unknown = sorted(set(settings.jobs) - set(JOBS))
    if unknown:
        message = f"[jobs.{unknown[0]}]: there is no such job (known: {', '.join(sorted(JOBS))})"
        raise SettingsError(message)
    pages = {page.job: page for page in all_pages(JOBS)}
    policy: Policy | None = None
    if settings.policy is not None:
        from paimon_maintenance.policy.load import load_policy  # noqa: PLC0415 - only where there is one

        policy = load_policy(settings.policy)
    for page in pages.values():
        if settings.job(page.job).enabled:
            yield job_dag(page, settings, policy)
    for scheduled in policy.schedules() if policy is not None else ():
        if settings.job(scheduled.job).enabled:
            yield policy_dag(scheduled, pages[scheduled.job], settings)


def job_dag(page: Page, settings: Settings, policy: Policy | None = None) -> DAG:
    """The DAG of the page's job under these settings; its form shows what the policy says."""
    job = job_named(page.job)
    own = settings.job(page.job)
    schedule = page.schedule if own.schedule is None else own.schedule
    if settings.policy is not None and own.schedule is None:
        # The policy schedules the job; this DAG is for triggering it with its whole form.
        schedule = BY_HAND
    defaults = {
        **page.defaults,
        **(page.by_hand_defaults if schedule == BY_HAND else {}),
        **own.defaults,
    }
    has_schedule = schedule != BY_HAND
    form = job_form(job, page, settings, defaults, has_schedule=has_schedule, policy=policy)
    unknown = set(own.defaults) - set(form.params)
    if unknown:
        message = f"[jobs.{page.job}] defaults: the form has no {', '.join(sorted(unknown))}"
        raise SettingsError(message)
    _check_defaults(job, below_policy(job, defaults))
    missing = form.missing()
    if has_schedule and missing:
        message = f"[jobs.{page.job}] schedule: give defaults for {', '.join(missing)} as well"
        raise SettingsError(message)
    return _dag(
        page.dag_id,
        f"Caretaker: {job.name.replace('_', ' ')}",
        job,
        settings,
        form,
        schedule=schedule or None,
        tags=("caretaker", page.area),
        docs=job_docs(job, page, schedule=schedule, settings=settings),
        defaults=below_policy(job, defaults),
        approval=waits_for_approval(job, settings, policy),
    )


def waits_for_approval(job: Job, settings: Settings, policy: Policy | None) -> bool:
    """Whether runs of the job's DAG may have to wait for a person."""
    from paimon_maintenance.policy.approval import OF_JOB  # noqa: PLC0415 - fast parsing

    wanted = frozenset() if policy is None else policy.approvals()
    proposed = settings.scheduler is not None and job.name == "rescale"
    return proposed or "force" in wanted or OF_JOB.get(job.name) in wanted


def policy_dag(scheduled: Scheduled, page: Page, settings: Settings) -> DAG:
    """The DAG that runs the job whenever this schedule of the policy fires, on its tables."""
    job = job_named(page.job)
    schedule = scheduled.schedule
    return _dag(
        f"caretaker_policy_{job.name}__{_slug(schedule)}",
        f"Caretaker policy: {job.name.replace('_', ' ')}, {schedule}",
        job,
        settings,
        policy_form(job, page, settings, scheduled.tables),
        schedule=schedule,
        tags=("caretaker", "policy", page.area),
        docs=job_docs(job, page, schedule=schedule, settings=settings, tables=scheduled.tables),
        policy_schedule=schedule,
    )


def _dag(
    dag_id: str,
    title: str,
    job: Job,
    settings: Settings,
    form: Form,
    *,
    schedule: str | None,
    tags: tuple[str, ...],
    docs: str,
    defaults: Mapping[str, object] | None = None,
    policy_schedule: str | None = None,
    approval: bool = False,
) -> DAG:
    own = settings.job(job.name)
    with DAG(
        dag_id=dag_id,
        dag_display_name=title,
        description=job.summary,
        doc_md=docs,
        schedule=schedule,
        start_date=_START,
        catchup=False,
        is_paused_upon_creation=True,
        # A run that waits for a person must not block the others.
        max_active_runs=_RUNS_WITH_APPROVAL if approval else 1,
        tags=list(tags),
    ) as dag:
        caretaker_job(
            job.name,
            from_form=True,
            scheduled=form.scheduled,
            schedule=policy_schedule,
            **task_options(settings, defaults),
            spark_connection=settings.spark_connection,
            spark_conf=settings.spark_conf,
            submit=settings.submit,
            results=settings.results,
            packages=settings.packages,
            batch_tables=settings.batch_tables,
            parallel_batches=settings.parallel_batches,
            pool=own.pool,
            retries=own.retries,
            retry_delay=timedelta(minutes=own.retry_minutes),
            skip_if_refused=True,
            approval=approval,
            prefix_group_id=False,
        )
    # Not before the tasks, each of which would copy the whole form several times: with it, thirty
    # DAGs take three times as long to parse.  Tasks get their params from the run.
    for name, param in form.params.items():
        dag.params[name] = param
    return dag


def _slug(schedule: str) -> str:
    """The schedule in the letters of a DAG's id: "*/30 * * * *" is "xby30-x-x-x-x"."""
    for sign, word in _WORDS.items():
        schedule = schedule.replace(sign, word)
    return re.sub(r"[^\w.-]+", "-", schedule.strip())


def _check_defaults(job: Job, defaults: Mapping[str, object]) -> None:
    """SettingsError for a default that the job cannot read."""
    from paimon_maintenance.policy.engine_of_config import engine_from  # noqa: PLC0415 - fast parsing

    try:
        others = {"max_rewrite", *ENGINE}
        job.read_arguments({k: v for k, v in defaults.items() if k not in others})
        engine_from(defaults.get("engine"), defaults.get("spark_threshold"), "engine")
        if "max_rewrite" in defaults:
            parse_size(str(defaults["max_rewrite"]))
    except ValueError as e:  # InvalidArgument is one
        message = f"[jobs.{job.name}] defaults: {e}"
        raise SettingsError(message) from e
