"""The result of a run for each table: small enough for XCom, complete enough for the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import TYPE_CHECKING, Literal, cast

from paimon_airflow.batches import names
from paimon_airflow.credentials import are_refused
from paimon_maintenance.job.text import human_bytes

if TYPE_CHECKING:
    from paimon_maintenance.job.exit_codes import OnRefused

Outcome = Literal["done", "nothing", "planned", "refused", "failed"]

_ORDER: dict[Outcome, int] = {"failed": 0, "refused": 1, "done": 2, "planned": 3, "nothing": 4}
_WORDS: dict[Outcome, str] = {
    "failed": "FAILED",
    "refused": "refused",
    "done": "done",
    "planned": "planned",
    "nothing": "nothing to do",
}
# Errors that no retry changes: the table, the request, or a defect of ours causes them.  After a lost
# reply of a commit, a person must look before anything runs again.
_PERMANENT = frozenset(
    {
        "AlreadyExists",
        "AssertionError",
        "AttributeError",
        "CommitStateUnknown",
        "CorruptTable",
        "GuardTripped",
        "ImportError",
        "IndexError",
        "InvalidArgument",
        "KeyError",
        "ModuleNotFoundError",
        "NotFound",
        "NotImplementedError",
        "PermissionError",
        "SchemaError",
        "ImmutableOption",
        "StorageAccessDenied",
        "TypeError",
        "UnsupportedFeature",
        "ValueError",
    }
)
# Airflow cuts what it shows of a task's fields at 4096 characters, [core] max_templated_field_length.
LONGEST_REPORT = 3900
_REASON_WIDTH = 90
"""Characters of a line that Airflow's page shows without scrolling sideways."""
_NAMED = 3
"""Up to this many names are listed."""
SPARK_LOST = "SparkApplicationLost"
# The statuses of `paimon_maintenance.job.report`.
_OUTCOMES: dict[str, Outcome] = {
    "success": "done",
    "nothing_to_do": "nothing",
    "dry_run": "planned",
    "refused": "refused",
    "failed": "failed",
}


def retry_helps(error: str, text: str = "") -> bool:
    """Whether a retry may succeed after an error of this class with this text.

    It may after a conflict or a stale plan (a new plan sees the other commit), after errors of storage
    or network, and when the Spark application was lost; not when credentials are refused.
    """
    return error not in _PERMANENT and not are_refused(f"{error}: {text}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableResult:
    """What happened to one table.

    `figures` holds numbers before and after ("files": [480, 12]); `summary` is one line for people.
    `fails`: whether a refused table makes its task and the run fail, as a failed one does.
    `changed`: whether a table that failed may have been changed before.  `engine` did the work, and why:
    "local: 12 MB to rewrite, below spark_threshold 256 MB".
    """

    table: str
    outcome: Outcome
    summary: str = ""
    error: str | None = None
    seconds: float = 0.0
    snapshot: int | None = None
    figures: Mapping[str, Sequence[int]] = field(default_factory=dict)
    lines: Sequence[str] = ()
    fails: bool = False
    changed: bool = False
    engine: str = ""

    @property
    def is_red(self) -> bool:
        """Whether the task and the run fail because of this table."""
        return self.outcome == "failed" or (self.outcome == "refused" and self.fails)

    @property
    def wants_retry(self) -> bool:
        """Whether running the job on this table again may succeed."""
        return self.outcome == "failed" and retry_helps(self.error or "", self.summary)

    def to_json(self) -> dict[str, object]:
        """The result as XCom keeps it; empty parts are left out."""
        parts: dict[str, object] = {
            "table": self.table,
            "outcome": self.outcome,
            "summary": self.summary,
            "error": self.error,
            "seconds": round(self.seconds, 3),
            "snapshot": self.snapshot,
            "figures": {name: list(pair) for name, pair in self.figures.items()},
            "lines": list(self.lines),
            "fails": self.fails or None,
            "changed": self.changed or None,
            "engine": self.engine,
        }
        return {name: value for name, value in parts.items() if value not in (None, "", {}, [])}

    @classmethod
    def from_json(cls, parts: Mapping[str, object]) -> TableResult:
        """The result that `to_json` wrote."""
        return cls(**cast("dict[str, object]", dict(parts)))  # type: ignore[arg-type]  # as written

    def line(self) -> str:
        """The result on one line: "db.t  done  files 480 -> 12  snapshot 41  3.2 s"."""
        parts = [self.table, _WORDS[self.outcome]]
        parts += [_change(name, pair) for name, pair in self.figures.items()]
        if self.summary:
            parts.append(self.summary)
        if self.snapshot is not None:
            parts.append(f"snapshot {self.snapshot}")
        if self.seconds:
            parts.append(f"{self.seconds:.1f} s")
        if self.engine:
            parts.append(self.engine)
        return "  ".join(parts)


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
        else _details(report.get("details")),
        seconds=sum(cast("Mapping[str, float]", report.get("seconds") or {}).values()),
        snapshot=snapshots[-1] if snapshots else None,
        figures=_figures(report) if snapshots else {},
        lines=[line for part in parts if (line := _part(part))],
        changed=error is not None and _may_have_changed(report),
        engine=f"{report['engine']}: {report['engine_why']}" if report.get("engine_why") else "",
        fails=error is not None and refused and _fails(on_refused, known=bool(error.get("known"))),
    )


def from_error(
    table: str, error: BaseException, *, on_refused: OnRefused | None = None
) -> TableResult:
    """The result of a table whose run raised an error before there was a report."""
    from paimon_maintenance.job.exit_codes import is_refusal  # noqa: PLC0415 - only when a task runs

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
    before = cast("Mapping[str, int | None]", report.get("before") or {})
    after = cast("Mapping[str, int | None]", report.get("after") or {})
    if not before.get("files") and not after.get("files"):
        return {}  # a commit that rewrote nothing: what it did stands in the details
    return {
        shown: (first, second)
        for shown, name in (("files", "files"), ("runs", "sorted_runs"), ("bytes", "bytes"))
        if (first := before.get(name)) is not None and (second := after.get(name)) is not None
    }


def lost(table: str, reason: str, *, snapshot: int | None = None) -> TableResult:
    """The result of a table that its Spark application did not get to, or did not report on.

    `snapshot` is the newest that it had committed all the same.
    """
    return TableResult(
        table=table,
        outcome="failed",
        error=SPARK_LOST,
        summary=reason,
        snapshot=snapshot,
        changed=True,
    )


def count(results: Iterable[TableResult]) -> dict[Outcome, int]:
    """The number of tables by outcome, failures first; outcomes without a table are left out."""
    counts = dict.fromkeys(_ORDER, 0)
    for result in results:
        counts[result.outcome] += 1
    return {outcome: number for outcome, number in counts.items() if number}


def count_text(results: Iterable[TableResult]) -> str:
    """The counts for people: "1 FAILED, 3 done, 12 nothing to do"."""
    return ", ".join(f"{number} {_WORDS[what]}" for what, number in count(results).items())


def ordered(results: Iterable[TableResult]) -> list[TableResult]:
    """Failures first, then tables that changed; by name within."""
    return sorted(results, key=lambda result: (_ORDER[result.outcome], result.table))


def table_lines(results: Sequence[TableResult]) -> list[str]:
    """One aligned line per table, under a line of headings; empty columns are left out."""
    names = list(dict.fromkeys(name for result in results for name in result.figures))
    rows: list[tuple[str, ...]] = [("table", "", *names, "snapshot", "seconds", "engine", "")]
    for result in results:
        figures = [_pair(name, result.figures.get(name)) for name in names]
        snapshot = "" if result.snapshot is None else str(result.snapshot)
        seconds = f"{result.seconds:.1f}" if result.seconds else ""
        # Why a table failed is too long for a cell: `detail_lines` has it.
        summary = "" if result.error or result.outcome == "nothing" else result.summary
        engine = result.engine.partition(":")[0] if result.figures else ""
        cells = (*figures, snapshot, seconds, engine, summary)
        rows.append((result.table, _WORDS[result.outcome], *cells))
    columns = list(zip(*rows, strict=True))
    rows = list(zip(*(c for i, c in enumerate(columns) if i < 2 or any(c[1:])), strict=True))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    # Without figures of its own, a line has room for why there was nothing to do.
    whys = ["", *(r.summary if r.outcome == "nothing" else "" for r in results)]
    return [f"{line}  {why}".rstrip() for line, why in zip(lines, whys, strict=True)]


def detail_lines(result: TableResult) -> list[str]:
    """The lines below the table's line: why it failed and what to do, what its steps did."""
    reason = f"{result.error}: {result.summary}" if result.error else ""
    wrapped = [
        line
        for number, part in enumerate(reason.split(" -> "))
        for line in wrap(
            part if number == 0 else f"-> {part}",
            _REASON_WIDTH,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
    return [*wrapped, *result.lines]


def report_text(results: Sequence[TableResult], longest: int = LONGEST_REPORT) -> str:
    """The whole report for people, cut to its most important lines."""
    heading, *lines = table_lines(results)
    head = f"{count_text(results)}\n{change_text(totals(results))}".strip()
    shown = [head, "", heading]
    left = longest - sum(len(line) + 1 for line in shown)
    for number, (result, line) in enumerate(zip(results, lines, strict=True)):
        block = "\n".join([line, *(f"    {detail}" for detail in detail_lines(result))])
        left -= len(block) + 1
        if left < 0:
            shown.append(f"... and {len(lines) - number} more: see the log")
            break
        shown.append(block)
    return "\n".join(shown)


def engine_text(results: Iterable[TableResult]) -> str:
    """Where the tables ran and why, one line per reason, with the first tables that it holds for."""
    tables: dict[str, list[str]] = {}
    for result in results:
        if result.engine:
            tables.setdefault(result.engine, []).append(result.table)
    return "\n".join(f"{names(ran)}: {engine}" for engine, ran in tables.items())[:LONGEST_REPORT]


def failure_text(failures: Sequence[TableResult]) -> str:
    """Why the run failed: one line per table with its reason."""
    return _reasons(failures, "failed")


def refusal_text(refused: Sequence[TableResult]) -> str:
    """Why tables were refused: one line per table with its reason."""
    return _reasons(refused, "refused")


def _reasons(results: Sequence[TableResult], what: str) -> str:
    head = f"1 table {what}" if len(results) == 1 else f"{len(results)} tables {what}"
    reasons = (f"  {r.table}: {r.error}: {r.summary}{_how_to_skip(r)}" for r in results)
    return "\n".join([f"{head}:", *reasons])


def _how_to_skip(result: TableResult) -> str:
    if result.outcome != "refused" or not result.fails:
        return ""
    return " (a refusal fails the run until the history knows it; see on_refused of the policy)"


def totals(results: Iterable[TableResult]) -> dict[str, list[int]]:
    """The figures of all tables added up, before and after."""
    sums: dict[str, list[int]] = {}
    for result in results:
        for name, pair in result.figures.items():
            before, after = sums.get(name, [0, 0])
            sums[name] = [before + pair[0], after + pair[1]]
    return sums


def summary_of_changes(results: Sequence[TableResult]) -> str:
    """What changed, in figures if there are any; "nothing was changed" only if that is certain."""
    figures = change_text(totals(results))
    if figures:
        return figures
    if any(result.changed for result in results):
        return "tables that failed may have been changed: see each of them"
    done = any(result.outcome == "done" for result in results)
    return "no data was rewritten" if done else "nothing was changed"


def change_text(figures: Mapping[str, Sequence[int]]) -> str:
    """Figures for people: "files 480 -> 12, bytes 12.3 MB -> 9.8 MB"."""
    return ", ".join(_change(name, pair) for name, pair in figures.items())


def _change(name: str, pair: Sequence[int]) -> str:
    return f"{name} {_pair(name, pair)}"


def _pair(name: str, pair: Sequence[int] | None) -> str:
    if pair is None:
        return ""
    show = human_bytes if name == "bytes" else "{:,}".format
    return f"{show(pair[0])} -> {show(pair[1])}"
