"""The shape of a job's DAG: plan -> (in process | on Spark) -> report, and its form."""

from __future__ import annotations

from maintenance.job import Job
from maintenance.registry import job_named
from paimon_dags.docs import job_docs
from paimon_dags.form import form_fields
from paimon_dags.pages import Page
from paimon_dags.settings import JobSettings, Settings, SettingsError
from paimon_dags.shape import DagShape, Kind, Step


def job_shape(page: Page, settings: Settings) -> DagShape:
    """The DAG of the page's job under these settings."""
    job = job_named(page.job)
    own = settings.job(page.job)
    schedule = page.schedule if own.schedule is None else own.schedule
    shape = DagShape(
        dag_id=page.dag_id,
        job=job.name,
        title=f"Caretaker: {job.name.replace('_', ' ')}",
        summary=job.summary,
        docs=job_docs(job, page, schedule=schedule, settings=settings),
        fields=form_fields(job, page, settings, {**page.defaults, **own.defaults}),
        steps=_steps(job, own),
        schedule=schedule or None,
        tags=("caretaker", "paimon"),
        parallel_batches=settings.parallel_batches,
    )
    unknown = set(own.defaults) - {field.name for field in shape.fields}
    if unknown:
        message = f"[jobs.{page.job}] defaults: the form has no {', '.join(sorted(unknown))}"
        raise SettingsError(message)
    return shape


def _steps(job: Job, own: JobSettings) -> tuple[Step, ...]:
    return (
        Step(
            id="plan",
            kind=Kind.PLAN,
            title="Plan every table",
            doc="Lists the tables, makes a plan for each from its metadata, and packs those that "
            "have data to rewrite into batches. Never starts Spark, never changes anything.",
            retries=own.retries,
            retry_minutes=own.retry_minutes,
        ),
        Step(
            id="in_process",
            kind=Kind.IN_PROCESS,
            title="Metadata only",
            doc=f"Runs {job.name} on the tables whose plan touches nothing but metadata, in the "
            "worker's own process. Skipped when there are none.",
            after=("plan",),
            pool=own.pool,
            retries=own.retries,
            retry_minutes=own.retry_minutes,
        ),
        Step(
            id="on_spark",
            kind=Kind.ON_SPARK,
            title="On Spark",
            doc=f"One Spark application a batch: runs {job.name} on each of its tables. A batch "
            "is red when one of its tables failed; its other tables are done all the same.",
            after=("plan",),
            mapped=True,
            pool=own.pool,
            retries=own.retries,
            retry_minutes=own.retry_minutes,
        ),
        Step(
            id="report",
            kind=Kind.REPORT,
            title="Report",
            doc="Gathers what happened to every table, prints it, keeps it as `return_value`, and "
            "fails the run if a table failed, naming it and the reason.",
            after=("plan", "in_process", "on_spark"),
            always=True,
        ),
    )
