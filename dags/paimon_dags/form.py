"""The trigger form of a job's DAG: which tables, the job's own arguments, safety.

Help texts are plain: Airflow sets code in a help text over the lines around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from paimon_airflow.batches import SIZE_PATTERN
from paimon_dags.pages import Page
from paimon_dags.settings import Settings
from paimon_dags.shape import Field, JsonSchema
from paimon_maintenance.job.arguments import Argument
from paimon_maintenance.job.arguments import Kind as ArgumentKind
from paimon_maintenance.job.job import Job
from paimon_maintenance.policy.model import Policy

FIRST = None
"""Fields without a section are what the form opens with."""
WHICH = "Narrow the tables down"
LIMITS = "Limits"

_PATTERNS: JsonSchema = {"type": "array", "items": {"type": "string", "minLength": 1}}
_TEXT: JsonSchema = {"type": ["string", "null"], "minLength": 1}
_SIZE: JsonSchema = {"type": ["string", "null"], "pattern": SIZE_PATTERN}

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
# The jobs' help texts speak of a command line; here is how the same is written in a form.
_WRITTEN = {
    ArgumentKind.PARTITIONS: "One partition a line, for instance {}",
    ArgumentKind.TEXTS: "One a line, for instance {}",
    ArgumentKind.OPTIONS: 'As a JSON object, for instance {{"{}"}}',
}


def form_fields(
    job: Job,
    page: Page,
    settings: Settings,
    defaults: Mapping[str, object],
    *,
    by_hand: bool,
    policy: Policy | None = None,
) -> tuple[Field, ...]:
    """The form's fields in their order.

    The job's arguments are empty: only what somebody typed comes before the policy.  Their help says
    what holds otherwise, of which `defaults` are the DAG's own.  Other fields open with the values
    of `defaults`.  `by_hand`: whether nothing else ever triggers the DAG.
    """
    arguments = [_argument(a, page, defaults, policy) for a in job.arguments]
    fields = [
        # What a page leaves to people never means all tables, on whatever schedule it is put.
        *_tables(settings, by_hand=by_hand or page.by_hand),
        *(field for field in arguments if field.section is FIRST),
        replace(_DRY_RUN, default=by_hand and page.deletes),
        *_NARROWER,
        *(field for field in arguments if field.section is not FIRST),
        *_limits(page, settings),
    ]
    below = below_policy(job, defaults)
    return tuple(
        replace(field, default=defaults[field.name])
        if field.name in defaults and field.name not in below
        else field
        for field in fields
    )


def below_policy(job: Job, defaults: Mapping[str, object]) -> dict[str, object]:
    """Of a DAG's defaults those over which the policy has the word, and which no form may hold."""
    names = {"max_rewrite", *(a.name for a in job.arguments)}
    return {name: value for name, value in defaults.items() if name in names}


def policy_fields(page: Page, settings: Settings, patterns: tuple[str, ...]) -> tuple[Field, ...]:
    """The form of a policy's DAG: which of its tables, and safety; arguments are the policy's."""
    warehouse, tables = _tables(settings, by_hand=True)
    tables = replace(
        tables,
        help="One database.table or pattern a line. Of these, the run takes those for which the "
        "policy names this schedule.",
        default=list(patterns),
    )
    narrower = [field for field in _NARROWER if field.name != "branch"]
    return (warehouse, tables, _DRY_RUN, *narrower, *_limits(page, settings))


def _tables(settings: Settings, *, by_hand: bool) -> list[Field]:
    return [
        Field(
            name="warehouse",
            title="Warehouse",
            help="Path or URL of the warehouse, the folder that holds database.db/table.",
            schema=_TEXT,
            default=settings.warehouse,
        ),
        Field(
            name="tables",
            title="Tables",
            help="One database.table or pattern a line. A star stands for anything: all tables of "
            "a database, or of all databases.",
            schema={
                "type": "array",
                "minItems": 1,
                "items": {"type": "string", "pattern": r"^[^.\s]+\.\S+$"},
            },
            # A job by hand is about the tables that somebody has in mind, never about all.
            default=None if by_hand else ["*.*"],
        ),
    ]


_DRY_RUN = Field(
    name="dry_run",
    title="Dry run",
    help="Only plan: the report says what would be done; nothing is written.",
    schema={"type": "boolean"},
    default=False,
)
_NARROWER = (
    Field(
        name="including",
        title="Including",
        help="Regular expressions over the whole database.table, one a line. A table must match "
        "one of them; empty: all do.",
        schema=_PATTERNS,
        default=[],
        section=WHICH,
    ),
    Field(
        name="excluding",
        title="Excluding",
        help="Regular expressions as above. A table that matches one is left alone.",
        schema=_PATTERNS,
        default=[],
        section=WHICH,
    ),
    Field(
        name="branch",
        title="Branch",
        help="Work on this branch of the tables instead of main.",
        schema=_TEXT,
        section=WHICH,
    ),
)


def _argument(
    argument: Argument, page: Page, defaults: Mapping[str, object], policy: Policy | None
) -> Field:
    schema = argument.json_schema()
    title, text = str(schema.pop("title")), str(schema.pop("description"))
    # Airflow turns the examples of a list into the only values that can be picked.
    schema.pop("examples", None)
    ruled = () if policy is None else policy.argument_values(page.job, argument.name)
    otherwise = _otherwise(argument, ruled, defaults)
    if argument.name in page.required and not ruled and argument.name not in defaults:
        schema = _required(schema)
    elif "enum" in schema:
        # What the form's list of choices shows for "nothing typed".
        schema["values_display"] = {"null": otherwise or "not set"}
    if otherwise:
        left = "Left alone" if argument.kind is ArgumentKind.BOOLEAN else "Empty"
        otherwise = f" {left}: {otherwise}."
    return Field(
        name=argument.name,
        title=title.capitalize(),
        help=_help(argument, text) + otherwise,
        schema=schema,
        section=FIRST if argument.name in page.first else _section(page),
        argument=True,
    )


def _otherwise(
    argument: Argument,
    ruled: tuple[tuple[tuple[str, ...], object], ...],
    defaults: Mapping[str, object],
) -> str:
    """What holds where nothing is typed: the policy's word, else the DAG's, else the job's."""
    default = _shown(defaults[argument.name] if argument.name in defaults else _written(argument))
    if not ruled:
        return default
    rules = "; ".join(f"{_shown(value)} for {', '.join(tables)}" for tables, value in ruled)
    return f"as the policy says ({rules})" + (f", else {default}" if default else "")


def _shown(value: object) -> str:
    """A default for people; code would be set over the lines around it, so there is none."""
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


def _section(page: Page) -> str:
    return f"More about: {page.job.replace('_', ' ')}"


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


def _written(argument: Argument) -> object:
    """The argument's default as a person writes it: sizes and durations with their unit."""
    default = argument.json_default()
    if not isinstance(default, int) or argument.kind not in _UNITS:
        return default
    for factor, unit in _UNITS[argument.kind]:
        if default % factor == 0:
            return f"{default // factor} {unit}"
    return str(default)


def _limits(page: Page, settings: Settings) -> list[Field]:
    force = Field(
        name="force",
        title="Force",
        help="Override the guards, which stop a run that would delete or rewrite too much.",
        schema={"type": "boolean"},
        default=False,
        section=LIMITS,
    )
    if not page.rewrites:
        return [force]
    return [
        Field(
            name="max_rewrite",
            title="Rewrite at most",
            help="Refuse a table whose plan reads and writes more than this, for instance 1 tb.",
            schema=_SIZE,
            section=LIMITS,
        ),
        force,
        Field(
            name="batch_size",
            title="Batch size",
            help="How much one Spark application reads at most, for instance 20 gb. A larger "
            "table gets an application of its own.",
            schema={"type": "string", "pattern": SIZE_PATTERN},
            default=settings.batch_size,
            section=LIMITS,
        ),
    ]
