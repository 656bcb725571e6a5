"""DAGs as plain data: what `airflow_dag` turns into Airflow's objects, and tests look at.

A shape knows nothing of Airflow, so that a DAG's form, order and rules can be tested, compared and
built by the dozen without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

JsonSchema = Mapping[str, object]


class Kind(StrEnum):
    """What a step does; each kind is one operator."""

    PLAN = "plan"
    IN_PROCESS = "in_process"
    ON_SPARK = "on_spark"
    REPORT = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of the trigger form.

    `default` satisfies `schema`; on a DAG that only runs by hand it may be None instead, and the
    form then asks for a value.  `argument` says that the field is handed to the job under its own
    name.
    """

    name: str
    title: str
    help: str
    schema: JsonSchema
    default: object = None
    section: str | None = None
    argument: bool = False

    @property
    def required(self) -> bool:
        """Whether the form cannot be sent without a value."""
        kind = self.schema.get("type")
        return kind != "null" and not (isinstance(kind, list) and "null" in kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One task.  `mapped` steps run once for each batch that the step before them returned."""

    id: str
    kind: Kind
    title: str
    doc: str
    after: tuple[str, ...] = ()
    mapped: bool = False
    always: bool = False
    """Runs once the steps before it ended, however they did."""
    retries: int = 0
    retry_minutes: int = 5
    pool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DagShape:
    """One DAG: a form, a schedule and steps in an order that runs them.

    `job` is the job's name in `maintenance`; every step of the DAG serves that job.
    """

    dag_id: str
    job: str
    title: str
    summary: str
    docs: str
    fields: tuple[Field, ...]
    steps: tuple[Step, ...]
    schedule: str | None = None
    tags: tuple[str, ...] = ()
    max_active_runs: int = 1
    parallel_batches: int | None = None
    policy_schedule: str | None = None
    """The schedule of the policy that this DAG serves: a run is about tables that have it."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """The DAG's own arguments of the job, and its `max_rewrite`.  They are not in the form, where
    nobody could tell them from what was typed: the policy comes before them."""

    def __post_init__(self) -> None:
        """Refuse a shape that Airflow could not run: double names, steps before what they need."""
        seen: set[str] = set()
        for step in self.steps:
            unknown = set(step.after) - seen
            if step.id in seen or unknown:
                message = f"{self.dag_id}: step {step.id} is double, or comes before {unknown}"
                raise ValueError(message)
            if step.mapped and len(step.after) != 1:
                message = f"{self.dag_id}: step {step.id} is mapped over more than one step"
                raise ValueError(message)
            seen.add(step.id)
        names = [one.name for one in self.fields]
        if len(names) != len(set(names)):
            message = f"{self.dag_id}: two fields of the form share a name"
            raise ValueError(message)

    def field(self, name: str) -> Field:
        """The form's field of this name; KeyError if it has none."""
        return {one.name: one for one in self.fields}[name]

    @property
    def arguments(self) -> tuple[str, ...]:
        """The fields that are arguments of the job."""
        return tuple(one.name for one in self.fields if one.argument)
