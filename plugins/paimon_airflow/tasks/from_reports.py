"""The result of a table from the report of its run, or from the error that prevented the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from paimon_airflow.tasks.results import Outcome, TableResult
from paimon_maintenance.job.text import human_bytes

if TYPE_CHECKING:
    from paimon_maintenance.job.exit_codes import OnRefused

# The statuses of `paimon_maintenance.job.report`.
_OUTCOMES: dict[str, Outcome] = {
    "success": "done",
    "nothing_to_do": "nothing",
    "dry_run": "planned",
    "skipped": "skipped",
    "refused": "refused",
    "failed": "failed",
}
_NAMED = 3
"""Up to this many names are listed."""


def from_report(
    report: Mapping[str, object], *, on_refused: OnRefused | None = None
) -> TableResult:
    """The result from a report of `maintenance` (its `to_json`)."""
    error = cast("Mapping[str, object] | None", report.get("error"))
    units = cast("Sequence[Mapping[str, object]]", report.get("failed_units") or ())
    if error is None and units:
        error = cast("Mapping[str, object]", units[0]["error"])
    refused = error is not None and bool(error.get("feature"))
    outcome: Outcome = _OUTCOMES[str(report["status"])]
    if error is not None:
        outcome = "refused" if refused else "failed"
    snapshots = cast("Sequence[int]", report.get("snapshots") or ())
    parts = cast("Sequence[Mapping[str, object]]", report.get("parts") or ())
    return TableResult(
        table=str(report["table"]),
        outcome=outcome,
        error=str(error["type"]) if error else None,
        summary=_reason(error, len(units), report.get("changes"))
        if error
        else str(report.get("why") or _details(report.get("details"))),
        seconds=sum(cast("Mapping[str, float]", report.get("seconds") or {}).values()),
        snapshot=snapshots[-1] if snapshots else None,
        figures=_figures(report) if snapshots else {},
        lines=[line for part in parts if (line := _part(part))],
        changed=error is not None and _may_have_changed(report),
        engine=f"{report['engine']}: {report['engine_why']}" if report.get("engine_why") else "",
        spark_ui=_spark_ui(report),
        fails=error is not None and refused and _fails(on_refused, known=bool(error.get("known"))),
    )


def _spark_ui(report: Mapping[str, object]) -> str:
    application = report.get("application")
    return str(application.get("ui") or "") if isinstance(application, Mapping) else ""


def spark_ui_of(results: Iterable[TableResult]) -> str:
    """The UI of the Spark application that worked last; empty if none has a UI."""
    return next((r.spark_ui for r in reversed(list(results)) if r.spark_ui), "")


def from_error(
    table: str, error: BaseException, *, on_refused: OnRefused | None = None
) -> TableResult:
    """The result of a table whose run raised an error before there was a report."""
    from paimon_maintenance.job.exit_codes import is_refusal  # noqa: PLC0415 - only when a task runs
    from paimon_maintenance.job.opt_out import OptedOut  # noqa: PLC0415 - as above

    if isinstance(error, OptedOut):
        return TableResult(table=table, outcome="skipped", summary=error.message)
    refused = is_refusal(error)
    return TableResult(
        table=table,
        outcome="refused" if refused else "failed",
        error=type(error).__name__,
        summary=str(error) or type(error).__name__,
        fails=refused and _fails(on_refused, known=bool(getattr(error, "known", False))),
    )


def _may_have_changed(report: Mapping[str, object]) -> bool:
    changes = report.get("changes")
    return not isinstance(changes, Mapping) or any(changes.values())


def _fails(on_refused: OnRefused | None, *, known: bool) -> bool:
    from paimon_maintenance.job.exit_codes import refusal_fails  # noqa: PLC0415 - only when a task runs

    return refusal_fails(on_refused, known=known)


def _reason(error: Mapping[str, object], failed_units: int, changes: object = None) -> str:
    parts = [str(error["message"])]
    # Which file, which snapshot: the table has a column of its own.
    where = [f"{name} {at}" for name in ("snapshot", "file") if (at := error.get(name)) is not None]
    where = [place for place in where if place.split(" ", 1)[1] not in parts[0]]
    if where:
        parts.append(f"[{', '.join(where)}]")
    if failed_units > 1:
        parts.append(f"and {failed_units - 1} more units of work")
    if isinstance(changes, Mapping):
        parts.append(f"({_done_before(changes)})")
    if error.get("next_step"):
        parts.append(f"-> {error['next_step']}")
    return " ".join(parts)


def _done_before(changes: Mapping[str, object]) -> str:
    """What a run that failed had changed before."""
    from paimon_maintenance.job.changes import text_of  # noqa: PLC0415 - only when a task runs

    text = text_of(changes)
    return f"before that: {text}" if text else "nothing of the table was changed"


def _part(part: Mapping[str, object]) -> str:
    """What one step of a job made of others did; "" if nothing."""
    error = cast("Mapping[str, object] | None", part.get("error"))
    if error:
        word = "refused" if part.get("status") == "refused" else "FAILED"
        return f"{part['job']} {word}: {_reason(error, 0, part.get('changes'))}"
    if part.get("status") == "skipped":
        return f"{part['job']} skipped: {part.get('why')}"
    if part.get("status") != "success":
        return ""
    return f"{part['job']}: {_details(part.get('details')) or 'done'}"


def _details(details: object) -> str:
    """The job's own figures for people: "3 expired snapshots, 12 deleted files"."""
    found = details.items() if isinstance(details, Mapping) else ()
    return ", ".join(text for name, value in found if (text := _detail(str(name), value)))


def _detail(name: str, value: object) -> str:
    words = name.replace("_", " ")
    if isinstance(value, Mapping) and value and name.startswith("positions"):
        shown = [f"{who} {where}" for who, where in value.items()]
        return f"{words} {', '.join(shown)}" if len(shown) <= _NAMED else ""
    if isinstance(value, list | tuple) and value:
        if len(value) <= _NAMED and all(isinstance(one, str) for one in value):
            return f"{words} {', '.join(value)}"
        return _counted(len(value), words)
    if isinstance(value, str) and value:
        return f"{words} {value}"
    if isinstance(value, bool) or not isinstance(value, int) or not value:
        return ""
    if name.endswith("_bytes"):
        return f"{human_bytes(value)} {words.removesuffix(' bytes')}"
    # "12 deleted files", but "tagged snapshot 12".
    return _counted(value, words) if name.endswith("s") else f"{words} {value}"


def _counted(number: int, words: str) -> str:
    return f"{number:,} {words.removesuffix('s') if number == 1 else words}"


def _figures(report: Mapping[str, object]) -> dict[str, tuple[int, int]]:
    from paimon_maintenance.job.report import rewritten  # noqa: PLC0415 - only when a task runs

    before, after = rewritten(report)
    if not before.files and not after.files:
        return {}  # a commit that rewrote nothing: what it did stands in the details
    pairs: dict[str, tuple[int, int]] = {"files": (before.files, after.files)}
    if before.sorted_runs is not None and after.sorted_runs is not None:
        pairs["runs"] = (before.sorted_runs, after.sorted_runs)
    return {**pairs, "bytes": (before.bytes, after.bytes)}
