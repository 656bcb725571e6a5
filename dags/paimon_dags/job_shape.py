"""The shape of a job's DAG: plan -> (in process | on Spark) -> report, and its form."""

from __future__ import annotations

from maintenance.arguments import Argument
from maintenance.arguments import Kind as ArgumentKind
from maintenance.job import Job
from maintenance.registry import job_named
from paimon_airflow.batches import SIZE_PATTERN
from paimon_dags.docs import job_docs
from paimon_dags.pages import Page
from paimon_dags.settings import JobSettings, Settings, SettingsError
from paimon_dags.shape import DagShape, Field, Kind, Step

_UNITS = {
    ArgumentKind.SIZE: ((1024**3, "gb"), (1024**2, "mb"), (1024, "kb"), (1, "b")),
    ArgumentKind.DURATION: (
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1000, "s"),
        (1, "ms"),
    ),
}
WHAT = "Tables"
HOW = "What to do"
LIMITS = "Safety and batches"


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
        fields=_form(job, page, own, settings),
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


def _form(job: Job, page: Page, own: JobSettings, settings: Settings) -> tuple[Field, ...]:
    defaults = {**page.defaults, **own.defaults}
    fields = [
        *_tables(settings),
        *(_argument(argument) for argument in job.arguments),
        *_switches(),
        _batch_size(settings),
    ]
    return tuple(_with_default(field, defaults) for field in fields)


def _with_default(field: Field, defaults: dict[str, object]) -> Field:
    if field.name not in defaults:
        return field
    return Field(
        name=field.name,
        title=field.title,
        help=field.help,
        schema=field.schema,
        default=defaults[field.name],
        section=field.section,
        argument=field.argument,
    )


def _tables(settings: Settings) -> list[Field]:
    patterns = {"type": "array", "items": {"type": "string", "minLength": 1}}
    return [
        Field(
            name="warehouse",
            title="Warehouse",
            help="Path or URL of the warehouse, the folder that holds `database.db/table`.",
            schema={"type": ["string", "null"], "minLength": 1},
            default=settings.warehouse,
            section=WHAT,
        ),
        Field(
            name="tables",
            title="Tables",
            help="One `database.table` or pattern a line: `sales.orders`, `sales.*`, `*.*`.",
            schema={
                "type": "array",
                "minItems": 1,
                "items": {"type": "string", "pattern": r"^[^.\s]+\.\S+$"},
            },
            default=["*.*"],
            section=WHAT,
        ),
        Field(
            name="including",
            title="Including",
            help="Regular expressions over the whole `database.table`, one a line; a table must "
            "match one of them. Empty: all.",
            schema=patterns,
            default=[],
            section=WHAT,
        ),
        Field(
            name="excluding",
            title="Excluding",
            help="Regular expressions as above; a table that matches one is left alone, for "
            "instance `.*\\.tmp_.*`.",
            schema=patterns,
            default=[],
            section=WHAT,
        ),
        Field(
            name="branch",
            title="Branch",
            help="Work on this branch of the tables instead of `main`.",
            schema={"type": ["string", "null"], "minLength": 1},
            section=WHAT,
        ),
    ]


def _argument(argument: Argument) -> Field:
    schema = argument.json_schema()
    title, text = str(schema.pop("title")), str(schema.pop("description"))
    # Airflow turns the examples of a list into the only values that can be picked.
    schema.pop("examples", None)
    if argument.example:
        text += f". For instance `{argument.example}`"
    return Field(
        name=argument.name,
        title=title.capitalize(),
        help=f"{text}.",
        schema=schema,
        default=_written(argument),
        section=HOW,
        argument=True,
    )


def _written(argument: Argument) -> object:
    """The argument's default as a person writes it: sizes and durations with their unit."""
    default = argument.json_default()
    if not isinstance(default, int) or argument.kind not in _UNITS:
        return default
    for factor, unit in _UNITS[argument.kind]:
        if default % factor == 0:
            return f"{default // factor} {unit}"
    return str(default)


def _switches() -> list[Field]:
    return [
        Field(
            name="dry_run",
            title="Dry run",
            help="Only plan: the report says what would be done; nothing is written.",
            schema={"type": "boolean"},
            default=False,
            section=LIMITS,
        ),
        Field(
            name="max_rewrite",
            title="Rewrite at most",
            help="Refuse a table whose plan reads and writes more than this, for instance `1 tb`.",
            schema={"type": ["string", "null"], "pattern": SIZE_PATTERN},
            section=LIMITS,
        ),
        Field(
            name="force",
            title="Force",
            help="Override the guards, which stop a run that would delete or rewrite too much.",
            schema={"type": "boolean"},
            default=False,
            section=LIMITS,
        ),
    ]


def _batch_size(settings: Settings) -> Field:
    return Field(
        name="batch_size",
        title="Batch size",
        help="How much one Spark application reads at most, for instance `20 gb`. A larger table "
        "gets an application of its own.",
        schema={"type": "string", "pattern": SIZE_PATTERN},
        default=settings.batch_size,
        section=LIMITS,
    )
