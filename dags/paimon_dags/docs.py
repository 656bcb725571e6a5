"""The page of a job's DAG, as Markdown for the person on call."""

from __future__ import annotations

from collections.abc import Sequence

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
        f"Runs {when}, at most once at a time; new DAGs are paused until you unpause them.\n",
        _policy(job, settings, tables),
        f"**What it does.** {job.changes}\n",
        f"**What protects data.** {job.protects} {_REFUSES}\n",
        page.notes,
        f"**Dry run.** {_DRY_RUN.format(job=job.name)}\n",
        f"**Undo.** {job.undo}\n",
        f"**Steps.** {_steps(page, settings)}\n",
        _fails(job, page),
    ]
    return "\n".join(part for part in parts if part)


def _policy(job: Job, settings: Settings, tables: Sequence[str]) -> str:
    if settings.policy is None:
        return ""
    if not tables:
        return f"**Policy.** {_BESIDE.format(file=settings.policy, job=job.name)}\n"
    shown = ", ".join(f"`{pattern}`" for pattern in tables)
    return f"**Policy.** {_SERVES.format(file=settings.policy, shown=shown, job=job.name)}\n"


_BESIDE = """\
Guards, options and arguments of `{file}` hold for whatever is left empty in the form, whose help
texts say what that is. When it runs by itself
is the policy's affair too: see the DAGs `caretaker_policy_{job}...`, if there are any."""

_SERVES = """\
Runs on those tables of {shown} for which `{file}` names this schedule, with the arguments, guards
and options that it gives each of them; a table's own options come first. `caretaker policy show
DB.TABLE` tells what holds for a table. To run with other arguments, trigger `caretaker_{job}`."""


def _steps(page: Page, settings: Settings) -> str:
    text = _SPARK_STEPS if page.rewrites else _STEPS
    return text.format(connection=settings.spark_connection)


def _fails(job: Job, page: Page) -> str:
    again = _RETRIED if page.retries else _NOT_RETRIED
    rows = _REASONS + (_SPARK_REASON if page.rewrites else "")
    return f"{_FAILS} {again}\n\n{rows}\n{_AGAIN.format(job=job.name)}"


_REFUSES = """\
A table that uses a Paimon feature which this version does not know is refused by that feature's
name before anything is read."""

_DRY_RUN = """\
Trigger with *Dry run* on: `report` prints every table's plan; nothing is started or written. At the shell: `caretaker plan {job} DB.TABLE -w WAREHOUSE`."""

_STEPS = """\
`plan` reads metadata. `in_process` does the tables that something is due for, in the worker's own
process, as no data are rewritten. `report` sums up: see its *Rendered Templates*, or its log."""

_SPARK_STEPS = """\
`plan` reads metadata and packs tables into batches. `in_process` does tables that need no data
rewritten. `on_spark` is one Spark application a batch (connection `{connection}`), named after its
tables. `report` sums up: see its *Rendered Templates*, or its log."""

_FAILS = """\
**When it fails.** `report` names each table that failed, why, and what was changed in it before;
the others are done."""

_RETRIED = """\
What failed for a passing reason was already tried again, only with the tables that failed."""

_NOT_RETRIED = """\
Nothing was tried again by itself: look at the table first, it may have changed since."""

_REASONS = """\
| reason | what to do |
|---|---|
| `UnsupportedFeature` | The table is *refused*: exclude it, or upgrade Caretaker. The first run \
that meets it is red; later ones go on without it, and `report` ends as skipped and lists it. The \
policy's `on_refused` changes that. |
| `GuardTripped` | Read the plan (dry run). If it is right, trigger again with *Force*. |
| `CommitConflict`, `StalePlan` | Other writers kept winning. Run again at a quieter time. |
| `CommitStateUnknown` | The store did not answer. Look at the newest snapshots first; then run \
again. |
| `CorruptTable` | `caretaker verify DB.TABLE -w WAREHOUSE`, before any other job runs on it. |
| `InvalidArgument`, `NotFound`, `AlreadyExists` | Correct the form: table, pattern or argument. |
"""

_SPARK_REASON = """\
| `SparkApplicationLost` | Read the log of that `on_spark` task from its end: memory, the \
connection, the cluster. |
"""

_AGAIN = """\
To run one table again: trigger with *Tables* set to its name. The same at the shell, with all
details: `caretaker run {job} DB.TABLE -w WAREHOUSE`.
"""
