"""What a run is asked to do: one job on one table.

`paimon_maintenance.policy.resolve` combines given arguments, policy and defaults into a request,
for the command line and for Airflow.  A Spark application receives it as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from paimon_core.ddl.alter import check_dynamic_options
from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import lacking
from paimon_maintenance.job.engine_choice import EngineRule
from paimon_maintenance.job.exit_codes import OnRefused
from paimon_maintenance.job.guards import Guards
from paimon_maintenance.job.job import DEFAULT_MAX_ATTEMPTS, Job
from paimon_maintenance.storage.catalogs import open_table_of
from paimon_maintenance.storage.ledger import Ledger

DEFAULT_LEASE_WAIT_MILLIS: Final = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One job on one table.

    - `warehouse`: a folder or URL, or `catalog:NAME`.
    - `arguments`: typed values (`Job.read_arguments`).
    - `file_io_options`: options of the store, and of the catalog if there is one.
    - `default_options`: table options that apply where the table sets none.
    - `engine`: the rule for where the work runs.
    - `max_attempts`: the maximum number of plans if concurrent commits win.
    - `lease_wait_millis`: how long the run waits for another job that removes
      history or files of the table.
    - `on_refused`: the policy's rule for what a refused table means for a run over many tables.
    - `run_id`: the id under which the caller recorded the start of the run; None: a new id.
    - `named`: the caller named this table; otherwise the option
      `caretaker.maintenance` of the table applies.
    - `approval`: why the run needs an approval.  The caller asks for it before the run, so it is
      not part of the JSON.
    - `opened`: the table as the caller has seen it.  The run ends with TableGone if another one has
      its name by now.  Not part of the JSON either.
    """

    job: Job
    warehouse: str
    table: str
    arguments: Mapping[str, object]
    branch: str | None = None
    file_io_options: Mapping[str, str] | None = None
    default_options: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    force: bool = False
    verify: bool = True
    guards: Guards = field(default_factory=Guards)
    engine: EngineRule = field(default_factory=EngineRule)
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    lease_wait_millis: int = DEFAULT_LEASE_WAIT_MILLIS
    on_refused: OnRefused | None = None
    run_id: str | None = None
    named: bool = True
    approval: str | None = None
    opened: FileStoreTable | None = None

    def open(self, ledger: Ledger | None = None) -> FileStoreTable:
        """The table under its newest schema, with the run's own options on top.

        What is changed through it is noted in the ledger, if one is given.
        """
        options = self.arguments.get("options")
        dynamic = (
            {str(k): str(v) for k, v in options.items()} if isinstance(options, Mapping) else {}
        )
        opened = open_table_of(
            self.warehouse,
            self.table,
            branch=self.branch,
            dynamic_options={**self.job.table_options, **dynamic},
            file_io_options=self.file_io_options,
            watch=None if ledger is None else partial(ledger.watch, branch=self.branch),
            job=self.job.name,
        )
        if ledger is not None:
            opened = ledger.watch_commits(opened)
        supplied = lacking(opened.options, self.default_options)
        if dynamic or supplied:
            check_dynamic_options(opened.schemas.get(opened.schema.id), {**supplied, **dynamic})
        if not supplied:
            return opened
        return replace(opened, dynamic_options={**supplied, **opened.dynamic_options}).refreshed()

    def to_json(self) -> dict[str, object]:
        """The request as a JSON object that `from_json` reads; what has its default is left out.

        It may hold secrets of the store: never log it or pass it as an argument.
        """
        arguments = {
            argument.name: _json_value(self.arguments[argument.name])
            for argument in self.job.arguments
            if self.arguments.get(argument.name, argument.default) != argument.default
        }
        parts: dict[str, object] = {
            "job": self.job.name,
            "warehouse": self.warehouse,
            "table": self.table,
            "arguments": arguments,
            "branch": self.branch,
            "storage": None if self.file_io_options is None else dict(self.file_io_options),
            "default_options": dict(self.default_options),
            "dry_run": self.dry_run,
            "force": self.force,
            "verify": self.verify,
            "guards": self.guards.to_json(),
            "engine": self.engine.to_json(),
            "max_attempts": self.max_attempts,
            "lease_wait_millis": self.lease_wait_millis,
            "on_refused": None if self.on_refused is None else str(self.on_refused),
            "run_id": self.run_id,
            "named": self.named,
        }
        return {name: value for name, value in parts.items() if value != _DEFAULTS.get(name)}

    @classmethod
    def from_json(cls, parts: Mapping[str, object], job_named: Callable[[str], Job]) -> RunRequest:
        """The request that this JSON object means; `job_named` is the registry's.

        InvalidArgument names the part that is missing, unknown or of another type.
        """
        unknown = sorted(parts.keys() - _PARTS)
        if unknown:
            raise InvalidArgument(
                f"a run request has no {', '.join(map(repr, unknown))} "
                f"(known: {', '.join(sorted(_PARTS))})"
            )
        read = _Parts(parts)
        job = job_named(read.required("job"))
        storage = parts.get("storage")
        on_refused = read.text("on_refused")
        return cls(
            job=job,
            warehouse=read.required("warehouse"),
            table=read.required("table"),
            arguments=job.read_arguments(read.mapping("arguments")),
            branch=read.text("branch"),
            file_io_options=None if storage is None else read.texts("storage"),
            default_options=read.texts("default_options"),
            dry_run=read.boolean("dry_run", default=False),
            force=read.boolean("force", default=False),
            verify=read.boolean("verify", default=True),
            guards=Guards.from_json(read.mapping("guards")),
            engine=EngineRule.from_json(read.mapping("engine")),
            max_attempts=read.number("max_attempts", DEFAULT_MAX_ATTEMPTS),
            lease_wait_millis=read.number("lease_wait_millis", DEFAULT_LEASE_WAIT_MILLIS),
            on_refused=None if on_refused is None else _on_refused(on_refused),
            run_id=read.text("run_id"),
            named=read.boolean("named", default=True),
        )


_DEFAULTS: Final[Mapping[str, object]] = {
    "arguments": {},
    "default_options": {},
    "dry_run": False,
    "force": False,
    "verify": True,
    "guards": {},
    "engine": {},
    "max_attempts": DEFAULT_MAX_ATTEMPTS,
    "lease_wait_millis": DEFAULT_LEASE_WAIT_MILLIS,
    "named": True,
}
_PARTS: Final = frozenset(
    {*_DEFAULTS, "job", "warehouse", "table", "branch", "storage", "on_refused", "run_id"}
)


def _json_value(value: object) -> object:
    """A typed argument as JSON that the argument reads back."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [_json_value(one) for one in value]
    return value


def _on_refused(text: str) -> OnRefused:
    try:
        return OnRefused(text)
    except ValueError:
        raise InvalidArgument(
            f"on_refused of a run request is {text!r} (known: {', '.join(OnRefused)})"
        ) from None


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a JSON object by their types; each reader raises InvalidArgument with the name.

    Messages never show a value: the store's options may be secret.
    """

    parts: Mapping[str, object]

    def required(self, name: str) -> str:
        found = self.text(name)
        if not found:
            raise InvalidArgument(f"a run request has no {name!r}")
        return found

    def text(self, name: str) -> str | None:
        found = self.parts.get(name)
        if found is None or isinstance(found, str):
            return found
        raise _wrong(name, "a text")

    def boolean(self, name: str, *, default: bool) -> bool:
        found = self.parts.get(name)
        if found is None:
            return default
        if isinstance(found, bool):
            return found
        raise _wrong(name, "true or false")

    def number(self, name: str, default: int) -> int:
        found = self.parts.get(name)
        if found is None:
            return default
        if isinstance(found, int) and not isinstance(found, bool):
            return found
        raise _wrong(name, "a whole number")

    def mapping(self, name: str) -> Mapping[str, object]:
        found = self.parts.get(name)
        if found is None:
            return {}
        if isinstance(found, Mapping):
            return found
        raise _wrong(name, "an object")

    def texts(self, name: str) -> dict[str, str]:
        return {str(key): str(value) for key, value in self.mapping(name).items()}


def _wrong(name: str, expected: str) -> InvalidArgument:
    return InvalidArgument(f"{name!r} of a run request must be {expected}")
