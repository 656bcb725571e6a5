"""The report of a run on one table: sizes, durations, snapshots, findings and error.

Every run writes a report for every table, also if there is nothing to do or the run fails.  The CLI
prints its JSON (docs/cli.md) with `--json`, the Spark application writes it, and Airflow shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum

from paimon_maintenance.job.changes import Changes, text_of
from paimon_maintenance.job.engine import SparkApplication
from paimon_maintenance.job.error_json import error_json
from paimon_maintenance.job.exit_codes import ExitCode, exit_code_of, is_refusal
from paimon_maintenance.job.opt_out import OptedOut
from paimon_maintenance.job.plan import SnapshotPin
from paimon_maintenance.job.text import counted, human_bytes

MAX_PRINTED_BUCKETS = 20
MAX_PRINTED_NAMES = 10


class Status(StrEnum):
    """The outcome of a run on one table."""

    SUCCESS = "success"
    NOTHING_TO_DO = "nothing_to_do"
    DRY_RUN = "dry_run"
    SKIPPED = "skipped"
    """The table opted out, and the run does not name it (`paimon_maintenance.job.opt_out`)."""
    REFUSED = "refused"
    """This version does not support the table for this job; see `exit_codes.is_refusal`."""
    FAILED = "failed"

    @classmethod
    def of(cls, error: BaseException) -> Status:
        """The outcome of a run that raised this error."""
        if isinstance(error, OptedOut):
            return cls.SKIPPED
        return cls.REFUSED if is_refusal(error) else cls.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A number of data files with their bytes, physical rows and sorted runs.

    `sorted_runs` is None for tables without a primary key.
    """

    files: int = 0
    bytes: int = 0
    rows: int = 0
    sorted_runs: int | None = None

    def __add__(self, other: Size) -> Size:
        """The sum; sorted runs add up if either side has them."""
        known = [r for r in (self.sorted_runs, other.sorted_runs) if r is not None]
        return Size(
            files=self.files + other.files,
            bytes=self.bytes + other.bytes,
            rows=self.rows + other.rows,
            sorted_runs=sum(known) if known else None,
        )

    def without(self, untouched: Size) -> Size:
        """The files of this size without these; the sorted runs remain those of whole buckets."""
        return replace(
            self,
            files=self.files - untouched.files,
            bytes=self.bytes - untouched.bytes,
            rows=self.rows - untouched.rows,
        )

    def to_json(self) -> dict[str, object]:
        """The size as JSON."""
        return {
            "files": self.files,
            "bytes": self.bytes,
            "rows": self.rows,
            "sorted_runs": self.sorted_runs,
        }

    def line(self) -> str:
        """The size as text."""
        runs = "" if self.sorted_runs is None else f", {counted(self.sorted_runs, 'sorted runs')}"
        # Records, not rows: readers see one row for several records of a key.
        records = counted(self.rows, "records")
        return f"{counted(self.files, 'files')}, {human_bytes(self.bytes)}, {records}{runs}"


def rewritten(report: Mapping[str, object]) -> tuple[Size, Size]:
    """The files that a run replaced, and those that replaced them, from the JSON of its report.

    History, metrics and Airflow show these sizes, not those of whole buckets: a run leaves most
    files of a large bucket unchanged.
    """
    before, after, untouched = (_size(report.get(n)) for n in ("before", "after", "untouched"))
    return before.without(untouched), after.without(untouched)


def _size(parts: object) -> Size:
    return Size(**{str(k): v for k, v in parts.items()}) if isinstance(parts, Mapping) else Size()


def total(sizes: Sequence[Size]) -> Size:
    """The sum of the sizes."""
    result = Size()
    for size in sizes:
        result = result + size
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketChange:
    """The sizes of one bucket before and after.  `partition` is "" for an unpartitioned table.

    `untouched` are the files of both that the run did not rewrite.
    """

    partition: str
    bucket: int
    before: Size
    after: Size
    untouched: Size = field(default_factory=Size)

    def to_json(self) -> dict[str, object]:
        """The change as JSON."""
        return {
            "partition": self.partition,
            "bucket": self.bucket,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
        }

    @property
    def label(self) -> str:
        """Partition and bucket as text."""
        return f"{self.partition or '(no partition)'} bucket {self.bucket}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedUnit:
    """A unit of work that failed while other units of the run succeeded."""

    label: str
    error: BaseException

    def to_json(self) -> dict[str, object]:
        """The failure as JSON."""
        return {"unit": self.label, "error": error_json(self.error)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report of one run on one table.

    - `why`: why the run was skipped; "" for other runs.
    - `engine`, `engine_why`: the engine that did the work, and why; None if the run ended before.
    - `application`: the application of a run on Spark, if known.
    - `plan_lines`: the plan as text, for dry runs and runs without work.
    - `pin`: the snapshot that the run was planned from.
    - `before`, `after`: the sizes of the buckets of the plan, not of the whole table.
    - `untouched`: the files of both that the run did not rewrite.
    - `seconds`: the durations of the phases.
    - `details`: job-specific JSON values.
    - `parts`: the results of the steps of a composite job, as JSON.
    - `changes`: the changes of the run to the table, also of a failed one; None if not recorded.
    """

    job: str
    table: str
    warehouse: str
    run_id: str
    status: Status
    why: str = ""
    branch: str | None = None
    engine: str | None = None
    engine_why: str | None = None
    application: SparkApplication | None = None
    arguments: Mapping[str, object] = field(default_factory=dict)
    plan: Mapping[str, object] | None = None
    plan_lines: tuple[str, ...] = ()
    pin: SnapshotPin | None = None
    snapshots: tuple[int, ...] = ()
    attempts: int = 1
    before: Size = Size()
    after: Size = Size()
    untouched: Size = Size()
    buckets: tuple[BucketChange, ...] = ()
    failed_units: tuple[FailedUnit, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[Mapping[str, object], ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)
    parts: tuple[Mapping[str, object], ...] = ()
    warnings: tuple[str, ...] = ()
    changes: Changes | None = None
    error: BaseException | None = None

    @property
    def done_before(self) -> str:
        """What a failed run had already changed; "" for other runs."""
        if self.error is None or self.changes is None or self.status is Status.DRY_RUN:
            return ""
        if self.changes.is_nothing:
            return "the run did not change the table"
        if self.changes == Changes(unsure=self.changes.unsure):
            return f"the run may have changed the table; {self.changes.text()}"
        return f"the run had already changed the table: {self.changes.text()}"

    @property
    def replaced(self) -> Size:
        """The files that the run replaced (see `rewritten`)."""
        return self.before.without(self.untouched)

    @property
    def written(self) -> Size:
        """The files in the place of those that the run replaced."""
        return self.after.without(self.untouched)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a process with only this run."""
        if self.error is not None:
            return exit_code_of(self.error)
        if self.status in (Status.NOTHING_TO_DO, Status.SKIPPED):
            return ExitCode.NOTHING_TO_DO
        return ExitCode.SUCCESS

    def to_json(self) -> dict[str, object]:
        """The report as one JSON object (docs/cli.md)."""
        return {
            "job": self.job,
            "table": self.table,
            "warehouse": self.warehouse,
            "branch": self.branch,
            "run_id": self.run_id,
            "status": str(self.status),
            "why": self.why or None,
            "exit_code": int(self.exit_code),
            "engine": self.engine,
            "engine_why": self.engine_why,
            "application": None if self.application is None else asdict(self.application),
            "arguments": dict(self.arguments),
            "planned_from": None if self.pin is None else self.pin.to_json(),
            "snapshots": list(self.snapshots),
            "attempts": self.attempts,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "untouched": self.untouched.to_json(),
            "buckets": [b.to_json() for b in self.buckets],
            "failed_units": [f.to_json() for f in self.failed_units],
            "seconds": {k: round(v, 3) for k, v in self.seconds.items()},
            "findings": [dict(f) for f in self.findings],
            "details": dict(self.details),
            "parts": [dict(p) for p in self.parts],
            "warnings": list(self.warnings),
            "changes": None if self.changes is None else self.changes.to_json(),
            "plan": None if self.plan is None else dict(self.plan),
            "error": None if self.error is None else error_json(self.error),
        }

    def lines(self) -> Iterator[str]:
        """The report as text."""
        place = self.table if self.branch in (None, "main") else f"{self.table}@{self.branch}"
        head = f"{self.job} {place}: {str(self.status).replace('_', ' ')}"
        if self.snapshots:
            plural = "s" if len(self.snapshots) > 1 else ""
            head += f", snapshot{plural} {', '.join(map(str, self.snapshots))}"
            if self.pin is not None:
                head += f" (planned from {self.pin.id})"  # to undo the run
        if self.attempts > 1:
            head += f" after {self.attempts} attempts"
        yield f"{head}: {self.why}" if self.why else head
        if self.before != self.after:
            yield f"  before  {self.before.line()}"
            yield f"  after   {self.after.line()}"
        for change in self.buckets[:MAX_PRINTED_BUCKETS]:
            yield f"    {change.label}: {change.before.line()} -> {change.after.line()}"
        if len(self.buckets) > MAX_PRINTED_BUCKETS:
            yield f"    ... and {len(self.buckets) - MAX_PRINTED_BUCKETS:,} more buckets"
        for failed in self.failed_units:
            yield f"  failed  {failed.label}: {failed.error}"
        for finding in self.findings:
            yield f"  finding {finding.get('message', finding)}"
        if self.status is Status.NOTHING_TO_DO:
            yield from self.plan_lines[1:]  # why not
        yield from (f"  {text}" for text in detail_texts(self.details))
        for part in self.parts:
            yield from _part_lines(part)
        if self.done_before:
            yield f"  {self.done_before}"
        for warning in self.warnings:
            yield f"  warning {warning}"
        if self.engine:
            yield f"  engine  {self.engine}: {self.engine_why}"
        if self.seconds:
            spent = ", ".join(f"{k} {v:.2f} s" for k, v in self.seconds.items())
            yield f"  seconds {spent}"


def detail_texts(details: Mapping[str, object]) -> Iterator[str]:
    """Each detail as text: "expired snapshots 3 to 5"; empty values and zeros are left out."""
    for name, value in details.items():
        text = _value_text(name, value)
        if text and value:
            yield f"{name.replace('_', ' ')} {text}"


def _value_text(name: str, value: object) -> str:
    """The value of a detail as text; long lists are shortened, empty values are ""."""
    if isinstance(value, Mapping):
        parts = {str(key).replace("_", " "): _value_text(str(key), v) for key, v in value.items()}
        nested = any(isinstance(v, Mapping) for v in value.values())
        texts = [f"{k} ({v})" if nested else f"{k} {v}".strip() for k, v in parts.items()]
        return _few(texts)
    if isinstance(value, list | tuple):
        whole = [v for v in value if isinstance(v, int)]
        if len(whole) == len(value) > 1 and whole == list(range(whole[0], whole[-1] + 1)):
            return f"{whole[0]} to {whole[-1]}"
        if any(isinstance(v, Mapping | list | tuple) for v in value):
            return f"{len(value):,}"
        return _few([str(v) for v in value])
    if isinstance(value, int) and not isinstance(value, bool) and name.endswith("bytes"):
        return human_bytes(value)
    return "" if value is None else str(value)


def _few(texts: Sequence[str]) -> str:
    shown = ", ".join(texts[:MAX_PRINTED_NAMES])
    rest = len(texts) - MAX_PRINTED_NAMES
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def _part_lines(part: Mapping[str, object]) -> Iterator[str]:
    why, error, details = part.get("why"), part.get("error"), part.get("details")
    text = f"  {part.get('job')}: {str(part.get('status')).replace('_', ' ')}"
    if isinstance(error, Mapping):
        why = error.get("message")
    yield f"{text}: {why}" if why else text
    changes = part.get("changes")
    if error and isinstance(changes, Mapping) and (text := text_of(changes)):
        yield f"    changed before the failure: {text}"
    if isinstance(details, Mapping):
        yield from (f"    {text}" for text in detail_texts(details))
