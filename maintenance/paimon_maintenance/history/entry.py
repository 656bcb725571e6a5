"""One line of the history: a plan, a start, a run or a skip of one job on one table.

A run writes a start before its first change, and an end with the same run id.  A start without an
end belongs to a run in progress or to a lost run (`history.lost_runs`).

Run entries are created from the JSON of the report, so that Airflow, which only has the JSON after
a Spark application, writes the same history as the process that runs the job.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final, Literal, Protocol, cast

from paimon_core.errors import UnsupportedFeature
from paimon_core.process_identity import this_process
from paimon_maintenance.job.commit_user import pattern_of_run
from paimon_maintenance.job.error_json import error_json
from paimon_maintenance.job.exit_codes import exit_code_of
from paimon_maintenance.job.opt_out import OptedOut
from paimon_maintenance.job.plan import Plan
from paimon_maintenance.job.report import Status, rewritten

Event = Literal["plan", "start", "run", "skip"]
STARTED: Final = "started"
"""The status of a start."""
Json = Mapping[str, object]
AIRFLOW: Final = "airflow"
"""The origin of entries from DAG runs."""
CLI: Final = "cli"
"""The origin of entries from the command line."""
_EVENTS: Final[Mapping[str, Event]] = {
    "dry_run": "plan",
    "nothing_to_do": "skip",
    "skipped": "skip",
}
"""The events of reports by their status; others are runs."""
_MOST_ITEMS: Final = 100
_MOST_TEXT: Final = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who started the run: `origin` "cli" or "airflow"; `name`, a user, or a DAG and its run."""

    origin: str
    name: str

    @classmethod
    def here(cls, environ: Mapping[str, str] = os.environ) -> Actor:
        """The actor of this process; Airflow tasks read it from the environment."""
        run = environ.get("AIRFLOW_CTX_DAG_RUN_ID")
        if run:
            return cls(origin=AIRFLOW, name=f"{environ.get('AIRFLOW_CTX_DAG_ID', '?')} {run}")
        try:
            return cls(origin=CLI, name=environ.get("CARETAKER_ACTOR") or getpass.getuser())
        except (OSError, KeyError):
            return cls(origin=CLI, name=f"uid {os.getuid()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the history.  `part_of` is the composite job that this job was a step of.

    Sizes cover the files that the job changed; None if unknown.  `bytes_freed` left the store for
    good; those of a composite job are the sum over its steps.  `application_*`: of a run on Spark,
    its id and the address of its UI.  `arguments` and `details` are JSON objects.
    """

    at_millis: int
    event: Event
    job: str
    table: str
    warehouse: str
    status: str
    run_id: str
    branch: str | None = None
    part_of: str | None = None
    exit_code: int | None = None
    origin: str = ""
    actor: str = ""
    engine: str | None = None
    snapshot_before: int | None = None
    snapshots: tuple[int, ...] = ()
    attempts: int = 1
    seconds: float | None = None
    files_before: int | None = None
    files_after: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    rows_before: int | None = None
    rows_after: int | None = None
    arguments: Json = field(default_factory=dict)
    details: Json = field(default_factory=dict)
    error_type: str | None = None
    error: str | None = None
    next_step: str | None = None
    bytes_freed: int | None = None
    application_id: str | None = None
    application_url: str | None = None

    def to_json(self) -> dict[str, object]:
        """The entry as JSON for `caretaker history --json`."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            **found,
            "snapshots": list(self.snapshots),
            "arguments": dict(self.arguments),
            "details": dict(self.details),
        }


class History(Protocol):
    """Records entries; errors are returned as one line for the report, never raised."""

    def record(self, entries: Sequence[Entry]) -> str | None:
        """Write the entries; None, or the reason why that failed."""

    def knows_refusal(
        self, error: UnsupportedFeature, *, table: str, warehouse: str, actor: Actor
    ) -> bool:
        """Whether any job was refused on this table before, for the same reason.

        Entries of the same DAG run do not count, because all of its steps and retries get the same
        refusal.  False if the history is unreadable.
        """

    def open_runs(self, *, table: str, warehouse: str) -> list[Entry]:
        """The starts on this table without an end, oldest first.

        Empty if the history is unreadable.
        """


# --- from plans and reports ---------------------------------------------------------------------


def entry_of_plan(
    plan: Plan,
    *,
    job: str,
    warehouse: str,
    branch: str | None,
    arguments: Json,
    run_id: str,
    seconds: float,
    at_millis: int,
    actor: Actor,
) -> Entry:
    """The entry of a plan that was not executed."""
    effect = plan.effect
    return Entry(
        at_millis=at_millis,
        event="plan",
        job=job,
        table=plan.table,
        warehouse=warehouse,
        branch=branch,
        status="nothing_to_do" if plan.is_empty else "planned",
        run_id=run_id,
        origin=actor.origin,
        actor=actor.name,
        snapshot_before=None if plan.pin is None else plan.pin.id,
        seconds=round(seconds, 3),
        files_before=effect.table_files or None,
        bytes_before=effect.table_bytes or None,
        arguments=arguments,
        details={"effect": effect.to_json()},
    )


def entry_of_failed_plan(
    error: Exception,
    *,
    job: str,
    table: str,
    warehouse: str,
    branch: str | None,
    arguments: Json,
    run_id: str,
    at_millis: int,
    actor: Actor,
) -> Entry:
    """The entry of a failed plan, or of one that was not made because the table opted out."""
    shown = error_json(error)
    skipped = isinstance(error, OptedOut)
    return Entry(
        at_millis=at_millis,
        event="skip" if skipped else "plan",
        job=job,
        table=table,
        warehouse=warehouse,
        branch=branch,
        status=str(Status.of(error)),
        exit_code=int(exit_code_of(error)),
        run_id=run_id,
        origin=actor.origin,
        actor=actor.name,
        arguments=arguments,
        details={"why": shown["message"]} if skipped else _refusal(shown),
        error_type=None if skipped else str(shown["type"]),
        error=None if skipped else _text(shown["message"]),
        next_step=None if skipped else _text(shown["next_step"]),
    )


def entry_of_start(
    *,
    job: str,
    table: str,
    warehouse: str,
    branch: str | None,
    arguments: Json,
    run_id: str,
    snapshot_before: int | None,
    at_millis: int,
    actor: Actor,
    on_cluster: bool = False,
) -> Entry:
    """The start entry of a run, written before its first change.

    It contains the data to find the outcome of a lost run: the users of its commits, the newest
    snapshot before them, and this process, which ends after the run.  `on_cluster`: the driver runs
    on another machine and may outlive this process.
    """
    return Entry(
        at_millis=at_millis,
        event="start",
        job=job,
        table=table,
        warehouse=warehouse,
        branch=branch,
        status=STARTED,
        run_id=run_id,
        origin=actor.origin,
        actor=actor.name,
        snapshot_before=snapshot_before,
        arguments=arguments,
        details={
            "commit_user": pattern_of_run(run_id),
            **({"on_cluster": True} if on_cluster else {"process": this_process()}),
        },
    )


def entries_of_report(report: Json, *, at_millis: int, actor: Actor) -> list[Entry]:
    """The entry of a run, and one for each step of a composite job."""
    whole = _entry_of_report(report, at_millis, actor)
    return [whole, *_entries_of_parts(report, whole)]


def _entry_of_report(report: Json, at_millis: int, actor: Actor) -> Entry:
    status = str(report["status"])
    before, after = rewritten(report)
    error = _object(report.get("error"))
    pin = _object(report.get("planned_from"))
    seconds = _object(report.get("seconds"))
    plan = _object(report.get("plan"))
    touched = report.get("before") != report.get("after")
    application = _object(report.get("application"))
    parts = cast("Sequence[Json]", report.get("parts") or ())
    freed = [freed_by(_object(p.get("details"))) for p in (report, *parts)]
    changes = _object(report.get("changes"))
    return Entry(
        at_millis=at_millis,
        event=_EVENTS.get(status, "run"),
        job=str(report["job"]),
        table=str(report["table"]),
        warehouse=str(report["warehouse"]),
        branch=cast("str | None", report.get("branch")),
        status=status,
        exit_code=cast("int | None", report.get("exit_code")),
        run_id=str(report["run_id"]),
        origin=actor.origin,
        actor=actor.name,
        engine=cast("str | None", report.get("engine")),
        snapshot_before=cast("int | None", pin.get("id")),
        snapshots=tuple(cast("Sequence[int]", report.get("snapshots") or ())),
        attempts=cast("int", report.get("attempts") or 1),
        seconds=round(sum(cast("float", v) for v in seconds.values()), 3),
        files_before=before.files if touched else None,
        files_after=after.files if touched else None,
        bytes_before=before.bytes if touched else None,
        bytes_after=after.bytes if touched else None,
        rows_before=before.rows if touched else None,
        rows_after=after.rows if touched else None,
        arguments=_object(report.get("arguments")),
        details=_short(
            {
                **_object(report.get("details")),
                **({"why": report["why"]} if report.get("why") else {}),
                **({"effect": plan["effect"]} if "effect" in plan else {}),
                **_refusal(error),
                # The details of a successful run already contain its changes.
                **({"changes": changes} if error and any(changes.values()) else {}),
                **({"seconds": dict(seconds)} if seconds else {}),
                **({"engine_why": report["engine_why"]} if report.get("engine_why") else {}),
            }
        ),
        error_type=_text(error.get("type")),
        error=_text(error.get("message")),
        next_step=_text(error.get("next_step")),
        bytes_freed=sum(f for f in freed if f is not None) if any(freed) else None,
        application_id=_text(application.get("id")),
        application_url=_text(application.get("ui")),
    )


def freed_by(details: Json) -> int | None:
    """The bytes that a job deleted, including those of an interrupted run that it finished.

    None if its details do not say.
    """
    found = [details.get("deleted_bytes"), _object(details.get("finished")).get("deleted_bytes")]
    known = [size for size in found if isinstance(size, int)]
    return sum(known) if known else None


def _entries_of_parts(report: Json, whole: Entry) -> Iterator[Entry]:
    for part in cast("Sequence[Json]", report.get("parts") or ()):
        status = str(part["status"])
        error = _object(part.get("error"))
        why = part.get("why")
        changes = _object(part.get("changes"))
        details = {
            **_object(part.get("details")),
            **({"why": why} if why else {}),
            **_refusal(error),
            **({"changes": changes} if error and any(changes.values()) else {}),
        }
        yield replace(
            whole,
            event="run" if status in ("success", "failed", "refused") else "skip",
            job=str(part["job"]),
            part_of=whole.job,
            status=status,
            exit_code=None,
            snapshots=tuple(cast("Sequence[int]", part.get("snapshots") or ())),
            attempts=1,
            seconds=cast("float | None", part.get("seconds")),
            files_before=None,
            files_after=None,
            bytes_before=None,
            bytes_after=None,
            rows_before=None,
            rows_after=None,
            bytes_freed=freed_by(_object(part.get("details"))),
            arguments=_object(part.get("arguments")),
            details=_short(details),
            error_type=_text(error.get("type")),
            error=_text(error.get("message")),
            next_step=_text(error.get("next_step")),
        )


def _refusal(error: Json) -> dict[str, object]:
    """The reason of a refusal, by which the history recognizes it."""
    return {"feature": error["feature"]} if error.get("feature") else {}


def _object(value: object) -> dict[str, object]:
    return {str(k): v for k, v in value.items()} if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return None if value is None else str(value)[:_MOST_TEXT]


def _short(details: Json) -> dict[str, object]:
    """The details, shortened: long lists are cut, long values are replaced by their length."""
    found: dict[str, object] = {}
    for name, value in details.items():
        if isinstance(value, list | tuple) and len(value) > _MOST_ITEMS:
            found[name] = [*value[:_MOST_ITEMS], f"... {len(value) - _MOST_ITEMS} more"]
        elif len(json.dumps(value, default=str)) > _MOST_TEXT * 4:
            found[name] = f"... {len(json.dumps(value, default=str))} characters left out"
        else:
            found[name] = value
    return found
