"""Task groups that maintain tables: `caretaker_job` for a job, `maintain_tables` for what is due.

::

    from airflow.sdk import DAG
    from paimon_airflow import maintain_tables

    with DAG("nightly", schedule="@daily"):
        load() >> maintain_tables("sales.*", warehouse="s3://lake/warehouse") >> publish()

A group lists and plans the tables (`plan`), runs those with little or nothing to rewrite in the
worker (`in_process`), the others in one Spark application per batch (`on_spark`), and reports
(`report`).  Caretaker's own DAGs are made of these groups, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskGroup

from paimon_airflow.runs.operators import PlanTables, ReportRun, RunInProcess
from paimon_airflow.spark.operator import RunOnSpark
from paimon_airflow.tasks.job_request import GUARDS
from paimon_maintenance.job.arguments import with_underscores
from paimon_maintenance.job.job import Job
from paimon_maintenance.registry import job_named
from paimon_maintenance.storage.options import refuse_secrets

if TYPE_CHECKING:
    from airflow.sdk import XComArg

    from paimon_airflow.runs.approval import ApprovePlans

PLAN_RETRIES = 2
JOB_RETRIES = 2
"""Retries of a job that is safe to run again; other jobs are not retried."""


def retries_of(job: Job) -> int:
    """The default number of retries of a task of the job."""
    return JOB_RETRIES if job.retry_safe else 0


def maintain_tables(
    tables: str | Sequence[str] | XComArg,
    *,
    arguments: Mapping[str, Any] | None = None,
    group_id: str = "maintain_tables",
    **options: Any,
) -> TaskGroup:
    """A task group that does what is due for each table by its options: the job `maintain`.

    `arguments` are the job's ("compact": "minor" to compact as well); `options` are the other
    parameters of `caretaker_job`.
    """
    return caretaker_job("maintain", tables, arguments=arguments, group_id=group_id, **options)


def caretaker_job(
    job: str,
    tables: str | Sequence[str] | XComArg | None = None,
    *,
    arguments: Mapping[str, Any] | None = None,
    warehouse: str | None = None,
    including: Sequence[str] = (),
    excluding: Sequence[str] = (),
    branch: str | None = None,
    dry_run: bool | str = False,
    force: bool | str = False,
    guards: Mapping[str, Any] | None = None,
    engine: str | None = None,
    spark_threshold: str | None = None,
    policy: str | None = None,
    schedule: str | None = None,
    defaults: Mapping[str, object] | None = None,
    timezone: str | None = None,
    storage: Mapping[str, str] | None = None,
    storage_connection: str | None = None,
    spark_connection: str = "spark_default",
    spark_conf: Mapping[str, str] | None = None,
    submit: Mapping[str, Any] | None = None,
    results: str | None = None,
    packages: str | None = None,
    batch_size: str = "20 gb",
    batch_tables: int = 50,
    parallel_batches: int | None = 4,
    pool: str | None = None,
    retries: int | None = None,
    retry_delay: timedelta = timedelta(minutes=5),
    from_form: bool = False,
    scheduled: Mapping[str, object] | None = None,
    skip_if_refused: bool = False,
    approval: bool = False,
    group_id: str | None = None,
    prefix_group_id: bool = True,
) -> TaskGroup:
    """A task group that runs one job on many tables: plan >> [in_process, on_spark] >> report.

    Call it inside a DAG.  Its last task, `report`, fails if a table failed; the other tables are
    still maintained.  InvalidArgument, when the DAG is parsed, for an unknown job, argument or
    guard, and for a secret in `storage`, `spark_conf` or `submit`.

    What to do.  Values may be Jinja templates; `tables` and each argument may be an XComArg:

    - `job`: its name, as in `caretaker run JOB`.
    - `tables`: names or patterns ("sales.orders", "sales.*"), as a list or a text with commas.
      Patterns skip tables with the option caretaker.maintenance=off.
    - `arguments`: the job's, under the names of its form.
    - `warehouse`: its path or URL; None: CARETAKER_WAREHOUSE of the worker.
    - `including`, `excluding`: regular expressions over "database.table".
    - `branch`: work on this branch instead of main.
    - `dry_run`: only plan and report.
    - `force`: ignore the guards.
    - `guards`: limits under the policy's names: {"max_deleted_share": 0.2, "max_rewrite": "1 tb"}.

    - `engine`: "auto", "local" (in the worker) or "spark"; with "auto", tables whose plan rewrites
      less than `spark_threshold` ("256 mb" unless set) run in the worker, the others on Spark.

    Where the rest comes from:

    - `policy`: a policy file; "": no policy; None: CARETAKER_POLICY of the worker.  With
      `schedule`, only tables take part for which the policy names this schedule.
    - `defaults`: arguments that apply where neither `arguments` nor the policy gives one.
    - `timezone`: of the tables' writers; None: the worker's.
    - `storage`: options of the store without secrets; `storage_connection`: an Airflow connection
      with its credentials.

    Where it runs:

    - `spark_connection`, `spark_conf`, `submit` (more arguments of SparkSubmitOperator), `results`
      and `packages`: as in caretaker.toml.
    - `batch_size`, `batch_tables`: what one Spark application gets at most; `parallel_batches`: how
      many applications run at the same time.
    - `pool`: of the working tasks.
    - `approval`: a task between `plan` and the work waits for a person where the policy requires it
      (`paimon_airflow.runs.approval`).
    - `retries`: None: 2 for a job that is safe to run again, else 0 (planning: always 2).

    For DAGs that show the job's form (`paimon_dags`): with `from_form` the params of the DAG run
    say what to do, and a run by the schedule takes `scheduled` over what the form opens with.  With
    `skip_if_refused`, a report on refused tables that fail nothing ends as skipped, which skips
    tasks after the group as well.
    """
    definition = job_named(job)
    _refuse_secrets(storage=storage, spark_conf=spark_conf, submit=submit)
    params_of_job = None
    if not from_form:
        params_of_job = {
            **_arguments(definition, arguments or {}),
            **_guards(guards or {}),
            "tables": _tables(tables),
            "warehouse": warehouse,
            "including": list(including),
            "excluding": list(excluding),
            "branch": branch,
            "dry_run": dry_run,
            "force": force,
            "batch_size": batch_size,
            "engine": engine,
            "spark_threshold": spark_threshold,
        }
    work_retries = retries_of(definition) if retries is None else retries
    common: dict[str, Any] = {
        "job": definition.name,
        "params_of_job": params_of_job,
        "scheduled": scheduled,
        "storage": storage,
        "storage_connection": storage_connection,
        "policy": policy,
        "schedule": schedule,
        "timezone": timezone,
        "defaults": defaults,
        "retry_delay": retry_delay,
    }
    work: dict[str, Any] = {**common, "retries": work_retries}
    if pool:
        work["pool"] = pool
    group = TaskGroup(
        group_id=group_id or definition.name,
        prefix_group_id=prefix_group_id,
        tooltip=definition.summary,
        add_suffix_on_collision=True,
    )
    with group:
        plan = PlanTables(
            task_id="plan",
            task_display_name="Plan every table",
            doc_md="Lists the tables, plans each from its metadata, and packs those with data to "
            "rewrite into batches. Never starts Spark, never changes a table.",
            batch_tables=batch_tables if definition.rewrites else None,
            # Planning changes nothing, so it is always safe to try again.
            retries=PLAN_RETRIES if retries is None else retries,
            approval=approval,
            **common,
        )
        in_process = RunInProcess(
            task_id="in_process",
            task_display_name="In the worker",
            doc_md=f"Runs {definition.name} in the worker's own process, on the tables whose plan "
            "rewrites nothing, or less than spark_threshold; several at a time. Skipped when there are "
            "none.",
            planned_by=plan.task_id,
            **work,
        )
        plan >> in_process
        working: list[Any] = [in_process]
        approve = _approve(definition, plan) if approval else None
        if definition.rewrites:
            working.append(
                RunOnSpark.partial(
                    task_id="on_spark",
                    task_display_name="On Spark",
                    doc_md=f"One Spark application per batch: runs {definition.name} on each of its "
                    "tables. Red when one of its tables failed; the others are still maintained.",
                    spark_connection=spark_connection,
                    spark_conf=dict(spark_conf or {}),
                    results=results,
                    packages=packages,
                    submit=dict(submit or {}),
                    map_index_template="{{ task.label }}",
                    max_active_tis_per_dagrun=parallel_batches,
                    **work,
                ).expand(batch=plan.output)
            )
        report = ReportRun(
            task_id="report",
            task_display_name="Report",
            doc_md="Collects what happened to every table, logs it, returns it as `return_value`, "
            "and fails the run if a table failed, with the reason.",
            job=definition.name,
            warehouse=None if from_form else warehouse,
            planned_by=plan.task_id,
            approved_by=None if approve is None else approve.task_id,
            run_by=[task.task_id for task in working],
            skip_if_refused=skip_if_refused,
            retries=0,
            # Always run: the report names what failed.
            trigger_rule="all_done",
        )
        if approve is not None:
            plan >> approve >> working
            approve >> report
        [plan, *working] >> report
    return group


def _approve(job: Job, plan: PlanTables) -> ApprovePlans:
    from paimon_airflow.runs.approval import ApprovePlans  # noqa: PLC0415 - the provider, only if asked for

    return ApprovePlans(
        task_id="approve",
        task_display_name="Approval",
        doc_md="Waits for a person where the policy requires it; ends at once otherwise.",
        job=job.name,
        planned_by=plan.task_id,
        retries=0,
    )


def _arguments(job: Job, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments under the job's own names; InvalidArgument for one that it does not have."""
    from paimon_core.errors import InvalidArgument

    own = {name: a.name for a in job.arguments for name in (*a.aliases, a.name)}
    named = {with_underscores(name): value for name, value in arguments.items()}
    unknown = sorted(named.keys() - own.keys())
    if unknown:
        raise InvalidArgument(
            f"{job.name} has no argument {', '.join(map(repr, unknown))} "
            f"(known: {', '.join(a.name for a in job.arguments)})"
        )
    return {own[name]: value for name, value in named.items()}


def _guards(guards: Mapping[str, Any]) -> dict[str, Any]:
    from paimon_core.errors import InvalidArgument

    unknown = sorted(guards.keys() - set(GUARDS))
    if unknown:
        raise InvalidArgument(
            f"unknown guard {', '.join(map(repr, unknown))} (known: {', '.join(GUARDS)})"
        )
    return dict(guards)


def _tables(tables: str | Sequence[str] | XComArg | None) -> object:
    from paimon_core.errors import InvalidArgument

    if tables is None or tables == "" or (isinstance(tables, Sequence) and not tables):
        raise InvalidArgument("name the tables: names or patterns such as sales.*")
    return list(tables) if isinstance(tables, list | tuple) else tables


def _refuse_secrets(**options: Mapping[str, Any] | None) -> None:
    """InvalidArgument for secrets in what Airflow stores with the DAG and shows."""
    for name, values in options.items():
        given = values or {}
        # Also inside: env_vars of SparkSubmitOperator.
        for part in (given, *(v for v in given.values() if isinstance(v, Mapping))):
            refuse_secrets(part, f"parameter {name}")
