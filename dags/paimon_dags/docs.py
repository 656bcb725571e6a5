"""The page of a job's DAG, as Markdown for the person on call."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_airflow.task_groups import retries_of
from paimon_dags.pages import Page
from paimon_dags.settings import Settings
from paimon_maintenance.job.job import Job


def job_docs(
    job: Job,
    page: Page,
    *,
    schedule: str,
    settings: Settings,
    tables: Sequence[str] = (),
) -> str:
    """What the job does, what protects data, dry run, undo, and what to do when it fails.

    `tables` are the patterns of a policy's DAG.
    """
    when = f"`{schedule}`" if schedule else "only when triggered"
    parts = [
        f"### {job.name.replace('_', ' ').capitalize()}: {job.summary}\n",
        f"Runs {when}, one run at a time. New DAGs are paused until you unpause them.\n",
        _policy(job, settings, tables),
        f"**What it does.** {job.changes}\n",
        f"**What protects data.** {job.protects} {_REFUSES}\n",
        page.notes,
        f"**Dry run.** {_DRY_RUN.format(job=job.name)}\n",
        f"{_BY_HAND}\n" if schedule and page.deletes else "",
        f"**Undo.** {job.undo}\n",
        f"**Tasks.** {_tasks(job, settings)}\n",
        _fails(job, settings),
    ]
    return "\n".join(part for part in parts if part)


def _policy(job: Job, settings: Settings, tables: Sequence[str]) -> str:
    if settings.policy is None:
        return ""
    if not tables:
        return f"**Policy.** {_WITH_POLICY.format(file=settings.policy, job=job.name)}\n"
    shown = ", ".join(f"`{pattern}`" for pattern in tables)
    return f"**Policy.** {_OF_POLICY.format(file=settings.policy, shown=shown, job=job.name)}\n"


_WITH_POLICY = """\
Guards, options and arguments of `{file}` apply to whatever is left empty in the form; the help texts
show them. The policy also decides when the job runs by itself: see the DAGs
`caretaker_policy_{job}...`, if there are any."""

_OF_POLICY = """\
Runs on those tables of {shown} for which `{file}` names this schedule, with the arguments, guards
and options that it gives each of them; a table's own options override the policy's. `caretaker policy
show DB.TABLE` prints what applies to a table. To run with other arguments, trigger `caretaker_{job}`."""


def _tasks(job: Job, settings: Settings) -> str:
    text = _SPARK_TASKS if job.rewrites else _TASKS
    return text.format(
        connection=settings.spark_connection, threshold=settings.spark_threshold or "256 mb"
    )


def _fails(job: Job, settings: Settings) -> str:
    own = settings.job(job.name).retries
    retries = retries_of(job) if own is None else own
    rows = _REASONS
    rows += _LEASE_REASON if job.exclusive else ""
    rows += _CLOCK_REASON if job.by_age else ""
    rows += _SPARK_REASON if job.rewrites else ""
    again = _RETRIED if retries else _NOT_RETRIED
    return f"{_FAILS} {again}\n\n{rows}\n{_AGAIN.format(job=job.name)}"


_REFUSES = """\
A table with a Paimon feature that this version does not support is refused before anything is read;
the error names the feature. A table with the option `caretaker.maintenance=off` is skipped, unless
somebody names it in the form or in `conf`."""

_DRY_RUN = """\
Trigger with *Dry run* on: `report` prints every table's plan; nothing is started or written. At the
shell: `caretaker plan {job} DB.TABLE -w WAREHOUSE`."""

_BY_HAND = """\
**Triggered by hand**, the form opens with no tables and with *Dry run* on; name the tables, then
switch *Dry run* off. Runs by the schedule use the schedule's own tables and are not dry runs."""

_TASKS = """\
`plan` reads metadata. `in_process` runs the job in the worker's own process on the tables that have
something to do; it rewrites no data. For the summary of `report`, see its *Rendered Templates*, or
its log."""

_SPARK_TASKS = """\
`plan` reads metadata and chooses the engine of each table. `in_process` runs the job in the worker, on
tables with nothing to rewrite, or with less than `spark_threshold` ({threshold}). `on_spark` is one Spark
application per batch of the others (connection `{connection}`), labelled with its tables and the reason.
For the summary of `report`, see its *Rendered Templates*, or its log."""

_FAILS = """\
**When it fails.** `report` names each table that failed, the reason, and what the run had changed in it
before; the other tables are done. Runbook: `docs/runbooks/failed-run.md`."""

_RETRIED = """\
Airflow has already retried the tables whose error may pass."""

_NOT_RETRIED = """\
Airflow did not retry: look at the table first, because it may have changed since."""

_REASONS = """\
| reason | what to do |
|---|---|
| `UnsupportedFeature` | The table is *refused*: exclude it, or upgrade Caretaker. The first run \
that meets it is red; later runs succeed without it, and `report` ends as skipped and lists it. The \
policy's `on_refused` changes that. |
| `GuardTripped` | Read the plan (dry run). If it is right, trigger again with *Force*. |
| `CommitConflict`, `StalePlan` | Other writers committed first in every attempt. Run again when fewer \
writers run. |
| `CommitStateUnknown` | The store did not answer. Look at the newest snapshots first; then run \
again. |
| `CorruptTable` | `caretaker verify DB.TABLE -w WAREHOUSE`, before any other job runs on it. |
| `InvalidArgument`, `NotFound`, `AlreadyExists`, `ReferenceExists` | Correct the form: table, pattern or argument. |
"""

_LEASE_REASON = """\
| `LeaseHeld`, `LeaseLost` | Another job that removes history or files works on the table: \
`caretaker leases DB.TABLE -w WAREHOUSE`. Run again when it has ended. |
"""

_CLOCK_REASON = """\
| `ClockSkew` | The clocks of the worker and the store differ by more than a minute, and the job decides \
by age. Correct them (NTP). |
"""

_SPARK_REASON = """\
| `SparkApplicationLost` | Read the end of the log of that `on_spark` task: memory, the \
connection, the cluster. |
"""

_AGAIN = """\
To run one table again: trigger with *Tables* set to its name. The same at the shell, with all
details: `caretaker run {job} DB.TABLE -w WAREHOUSE`.
"""
