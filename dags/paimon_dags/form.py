"""The trigger form of a job's DAG as Airflow Params: which tables, the job's arguments, safety.

Help texts are plain text: Airflow prints code in a help text over the surrounding lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow.sdk import Param
from airflow.sdk.exceptions import ParamValidationError

from paimon_airflow.tasks.batches import SIZE_PATTERN
from paimon_airflow.tasks.job_request import ENGINE
from paimon_dags.pages import Page
from paimon_dags.settings import Settings, SettingsError
from paimon_maintenance.job.arguments import Argument
from paimon_maintenance.job.arguments import Kind as ArgumentKind
from paimon_maintenance.job.engine_choice import EngineName
from paimon_maintenance.job.job import Job
from paimon_maintenance.policy.model import Policy

JsonSchema = dict[str, object]

WHICH = "Narrow the tables down"
LIMITS = "Limits"
ALL_TABLES = ["*.*"]

_SIZE: JsonSchema = {"type": ["string", "null"], "pattern": SIZE_PATTERN}

# The jobs' help texts are for the command line; these are the forms of the same input here.
_WRITTEN = {
    ArgumentKind.PARTITIONS: "One partition per line, for instance {}",
    ArgumentKind.TEXTS: "One per line, for instance {}",
    ArgumentKind.OPTIONS: 'As a JSON object, for instance {{"{}"}}',
}


@dataclass(frozen=True, slots=True)
class Form:
    """A DAG's form: its params in their order, and what a run by the schedule takes instead.

    A param whose default its schema refuses has to be filled in; the form cannot be sent before.
    """

    params: Mapping[str, Param]
    scheduled: Mapping[str, object]

    def missing(self) -> list[str]:
        """The params without which a run by the schedule could not start."""
        return [
            name
            for name, param in self.params.items()
            if self.scheduled.get(name, param.value) is None
            and (name == "tables" or not _takes_null(param))
        ]


def _takes_null(param: Param) -> bool:
    kind = param.schema.get("type")
    return kind == "null" or (isinstance(kind, list) and "null" in kind)


def job_form(
    job: Job,
    page: Page,
    settings: Settings,
    defaults: Mapping[str, object],
    *,
    has_schedule: bool,
    policy: Policy | None,
) -> Form:
    """The form of the job's own DAG.

    The job's arguments open empty, so that only typed values override the policy.  Their help says
    what applies otherwise, `defaults` of the DAG included.  Other params open with the values of
    `defaults`.
    """
    arguments = {a.name: _argument(a, job, page, defaults, policy) for a in job.arguments}
    first = {name: param for name, param in arguments.items() if name in page.first}
    # A job that its page leaves to people never runs on all tables by default, even with a
    # schedule.
    tables = ALL_TABLES if has_schedule and not page.by_hand else None
    params = {
        "warehouse": _warehouse(settings),
        "tables": _tables(_TABLES_HELP, tables),
        **first,
        "dry_run": _dry_run(default=page.deletes and not has_schedule),
        **_narrower(),
        **{name: param for name, param in arguments.items() if name not in first},
        **_limits(job, settings),
    }
    below = below_policy(job, defaults)
    for name, value in defaults.items():
        if name in params and name not in below:
            _open_with(params[name], value, where=f"[jobs.{job.name}] defaults: {name}")
    return _form(params, page, has_schedule=has_schedule)


def policy_form(job: Job, page: Page, settings: Settings, patterns: tuple[str, ...]) -> Form:
    """The form of a policy's DAG: which of its tables, and safety; the policy has the arguments."""
    text = (
        "One database.table or pattern per line. The run takes those of them for which the policy "
        f"names this schedule: {', '.join(patterns)}."
    )
    narrower = {name: param for name, param in _narrower().items() if name != "branch"}
    params = {
        "warehouse": _warehouse(settings),
        "tables": _tables(text, list(patterns)),
        "dry_run": _dry_run(default=False),
        **narrower,
        **_limits(job, settings),
    }
    return _form(params, page, has_schedule=True)


def _form(params: dict[str, Param], page: Page, *, has_schedule: bool) -> Form:
    """The form; of a scheduled job that deletes, it opens as if the job only ran by hand.

    Then the schedule's own tables, and that it is no dry run, are kept apart from the form.
    """
    if not (page.deletes and has_schedule):
        return Form(params, {})
    scheduled = {name: params[name].value for name in ("tables", "dry_run")}
    tables = params["tables"]
    # Airflow puts no DAG on a schedule whose form has a param that must be filled in.
    tables.schema = {**tables.schema, "type": ["array", "null"]}
    tables.value = None
    params["dry_run"].value = True
    return Form(params, scheduled)


def _open_with(param: Param, value: object, *, where: str) -> None:
    """Let the form open with this value; SettingsError if the param does not take it."""
    try:
        param.resolve(value)
    except ParamValidationError as e:
        reason = getattr(e.args[0], "message", e) if e.args else e
        message = f"{where}: {reason}"
        raise SettingsError(message) from e


def below_policy(job: Job, defaults: Mapping[str, object]) -> dict[str, object]:
    """The DAG's defaults that the policy may override, which therefore are not in the form."""
    names = {"max_rewrite", *ENGINE, *(a.name for a in job.arguments)}
    return {name: value for name, value in defaults.items() if name in names}


def engine_defaults(settings: Settings) -> dict[str, object]:
    """What the settings say on where the work runs, which the policy may override."""
    return {n: value for n in ENGINE if (value := getattr(settings, n)) is not None}


def task_options(
    settings: Settings, defaults: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """What every task of a job takes from the settings: policy, engine, time zone and store."""
    return {
        # Not the worker's CARETAKER_POLICY: the form shows what this policy says.
        "policy": settings.policy or "",
        "defaults": {**engine_defaults(settings), **(defaults or {})},
        "timezone": settings.timezone,
        "storage": settings.storage,
        "storage_connection": settings.storage_connection,
    }


def _param(
    title: str,
    text: str,
    schema: Mapping[str, object],
    default: object = None,
    section: str | None = None,
) -> Param:
    """A field of the form; without a section, it is among those that the form opens with."""
    named: JsonSchema = {"title": title, **schema}
    if section:
        named["section"] = section
    return Param(default, description=text, source="dag", schema=named)


_TABLES_HELP = (
    "One database.table or pattern per line. A star matches anything: sales.* is all tables of the "
    "database sales, *.* is all tables. Patterns, and runs by the schedule, skip tables with the option "
    "caretaker.maintenance=off."
)


def _warehouse(settings: Settings) -> Param:
    return _param(
        "Warehouse",
        "Path or URL of the warehouse, the folder that holds database.db/table.",
        {"type": ["string", "null"], "minLength": 1},
        settings.warehouse,
    )


def _tables(text: str, default: list[str] | None) -> Param:
    names = {"type": "string", "pattern": r"^[^.\s]+\.\S+$"}
    return _param("Tables", text, {"type": "array", "minItems": 1, "items": names}, default)


def _dry_run(*, default: bool) -> Param:
    text = "Only plan: the report shows what a run would do; nothing is written."
    return _param("Dry run", text, {"type": "boolean"}, default)


def _narrower() -> dict[str, Param]:
    patterns: JsonSchema = {"type": "array", "items": {"type": "string", "minLength": 1}}
    return {
        "including": _param(
            "Including",
            "Regular expressions over the whole database.table, one per line. A table must match "
            "one of them. Empty: every table matches.",
            patterns,
            [],
            WHICH,
        ),
        "excluding": _param(
            "Excluding",
            "Regular expressions as above. A table that matches one of them is left out.",
            patterns,
            [],
            WHICH,
        ),
        "branch": _param(
            "Branch",
            "Work on this branch of the tables instead of main.",
            {"type": ["string", "null"], "minLength": 1},
            section=WHICH,
        ),
    }


def _argument(
    argument: Argument,
    job: Job,
    page: Page,
    defaults: Mapping[str, object],
    policy: Policy | None,
) -> Param:
    schema = argument.json_schema()
    title, text = str(schema.pop("title")), str(schema.pop("description"))
    # Airflow turns the examples of a list into the only values that can be picked.
    schema.pop("examples", None)
    ruled = () if policy is None else policy.argument_values(job.name, argument.name)
    otherwise = _otherwise(argument, ruled, defaults)
    if argument.name in job.required and not ruled and argument.name not in defaults:
        schema = _required(schema)
    elif "enum" in schema:
        # The entry of a list of choices that means "not set".
        schema["values_display"] = {"null": otherwise or "not set"}
    if otherwise:
        left = "Left alone" if argument.kind is ArgumentKind.BOOLEAN else "Empty"
        otherwise = f" {left}: {otherwise}."
    return _param(
        title.capitalize(),
        _help(argument, text) + otherwise,
        schema,
        section=None
        if argument.name in page.first
        else f"More about: {job.name.replace('_', ' ')}",
    )


def _otherwise(
    argument: Argument,
    ruled: tuple[tuple[tuple[str, ...], object], ...],
    defaults: Mapping[str, object],
) -> str:
    """The value that applies to an empty field: the policy's, else the DAG's, else the job's."""
    default = _shown(
        defaults[argument.name] if argument.name in defaults else argument.json_default()
    )
    if not ruled:
        return default
    rules = "; ".join(f"{_shown(value)} for {', '.join(tables)}" for tables, value in ruled)
    return f"as the policy says ({rules})" + (f", else {default}" if default else "")


def _shown(value: object) -> str:
    """A default as plain text: Airflow prints code over the surrounding lines."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}={v}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    return "" if value is None else str(value).replace("`", "'")


def _required(schema: dict[str, object]) -> dict[str, object]:
    """The schema of a field that must not be left empty."""
    kind = schema["type"]
    if isinstance(kind, list):
        schema["type"] = next(name for name in kind if name != "null")
    least = {"array": "minItems", "string": "minLength"}.get(str(schema["type"]))
    return schema | ({least: 1} if least else {})


def _help(argument: Argument, text: str) -> str:
    """The job's help text as sentences, with an example in the form's own spelling."""
    # A text that begins with one of the choices explains that choice.
    if not text.startswith(argument.choices or ("\0",)):
        text = text[:1].upper() + text[1:]
    if argument.example is None or argument.choices:
        return f"{text}."
    example = argument.example
    if argument.kind is ArgumentKind.OPTIONS:
        example = '": "'.join(example.split("=", 1))
    return f"{text}. {_WRITTEN.get(argument.kind, 'For instance {}').format(example)}."


def _limits(job: Job, settings: Settings) -> dict[str, Param]:
    force = _param(
        "Force",
        "Ignore the guards, which stop a run that would delete or rewrite too much.",
        {"type": "boolean"},
        default=False,
        section=LIMITS,
    )
    if not job.rewrites:
        return {"force": force}
    return {
        "max_rewrite": _param(
            "Rewrite at most",
            "Stop a table whose plan reads and writes more than this, for instance 1 tb.",
            _SIZE,
            section=LIMITS,
        ),
        "force": force,
        **_engine(settings),
        "batch_size": _param(
            "Batch size",
            "How much one Spark application reads at most, for instance 20 gb. A larger table gets "
            "an application of its own.",
            {"type": "string", "pattern": SIZE_PATTERN},
            settings.batch_size,
            LIMITS,
        ),
    }


def _engine(settings: Settings) -> dict[str, Param]:
    """Where the work runs; the params open empty, so that only typed values override the policy."""
    below = engine_defaults(settings)
    choices = {
        "type": ["string", "null"],
        "enum": [None, *map(str, EngineName)],
        "values_display": {"null": f"as the policy says, else {below.get('engine', 'auto')}"},
    }
    return {
        "engine": _param(
            "Engine",
            "Where data is rewritten: local (in the worker), spark, or auto, which takes Spark for tables "
            "with much to rewrite.",
            choices,
            section=LIMITS,
        ),
        "spark_threshold": _param(
            "Spark threshold",
            "With the engine auto, tables with less than this to rewrite run in the worker, the others on "
            "Spark, for instance 512 mb; 0 means all on Spark. Empty: as the policy says, else "
            f"{below.get('spark_threshold', '256 mb')}.",
            _SIZE,
            section=LIMITS,
        ),
    }
