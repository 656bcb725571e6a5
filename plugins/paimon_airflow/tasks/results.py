"""The result of a run for each table: small enough for XCom, complete enough for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from paimon_airflow.tasks.credentials import are_refused
from paimon_maintenance.job.text import human_bytes

Outcome = Literal["done", "nothing", "planned", "skipped", "refused", "failed"]

OUTCOME_WORDS: dict[Outcome, str] = {
    "failed": "FAILED",
    "refused": "refused",
    "done": "done",
    "planned": "planned",
    "skipped": "skipped",
    "nothing": "nothing to do",
}
# Errors that no retry changes: the table, the request, or a bug in Caretaker causes them.  After a
# lost reply of a commit, a person must look before anything runs again.
_PERMANENT = frozenset(
    {
        "AlreadyExists",
        "AssertionError",
        "AttributeError",
        "BucketCountChanged",
        "CommitStateUnknown",
        "CorruptTable",
        "GuardTripped",
        "ImportError",
        "IndexError",
        "InvalidArgument",
        "KeyError",
        "ModuleNotFoundError",
        "NoSuchVersion",
        "NotFound",
        "NotImplementedError",
        "NullInRequiredColumn",
        "OutsideTable",
        "PermissionError",
        "ReferenceExists",
        "SchemaError",
        "ForbiddenChange",
        "ImmutableOption",
        "StorageAccessDenied",
        "TableGone",
        "TypeError",
        "UnknownKeyColumn",
        "UnsupportedFeature",
        "ValueError",
    }
)
SPARK_LOST = "SparkApplicationLost"


def retry_helps(error: str, text: str = "") -> bool:
    """Whether a retry may succeed after an error of this class with this text.

    It may after a conflict or a stale plan (a new plan sees the other commit), after errors of
    storage or network, and when the Spark application was lost; not when credentials are refused.
    """
    return error not in _PERMANENT and not are_refused(f"{error}: {text}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableResult:
    """The result of a run on one table.

    - `summary`: one line of text; for a skipped table, why it was skipped.
    - `error`: the name of the error's class; None without an error.
    - `seconds`: the duration of the run.
    - `figures`: numbers before and after the run ("files": [480, 12]): the replaced files and the
      new ones, their bytes, and the sorted runs of their buckets.
    - `fails`: a refused table makes its task and the run fail, like a failed one.
    - `changed`: a table that failed may have been changed before the failure.
    - `engine`: the engine that did the work, and why: "local: 12 MB to rewrite, below
      spark_threshold 256 MB".
    - `spark_ui`: the address of the UI of the Spark application.
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
    spark_ui: str = ""

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
            "spark_ui": self.spark_ui,
        }
        return {name: value for name, value in parts.items() if value not in (None, "", {}, [])}

    @classmethod
    def from_json(cls, parts: Mapping[str, object]) -> TableResult:
        """The result that `to_json` wrote."""
        return cls(**cast("dict[str, object]", dict(parts)))  # type: ignore[arg-type]  # as written

    def line(self) -> str:
        """The result on one line: "db.t  done  files 480 -> 12  snapshot 41  3.2 s"."""
        parts = [self.table, OUTCOME_WORDS[self.outcome]]
        parts += [change(name, pair) for name, pair in self.figures.items()]
        if self.summary:
            parts.append(self.summary)
        if self.snapshot is not None:
            parts.append(f"snapshot {self.snapshot}")
        if self.seconds:
            parts.append(f"{self.seconds:.1f} s")
        if self.engine:
            parts.append(self.engine)
        return "  ".join(parts)


def lost(table: str, reason: str, *, snapshot: int | None = None) -> TableResult:
    """The result of a table that its Spark application did not reach or did not report.

    `snapshot` is the newest snapshot that it had committed.
    """
    return TableResult(
        table=table,
        outcome="failed",
        error=SPARK_LOST,
        summary=reason,
        snapshot=snapshot,
        changed=True,
    )


def change(name: str, pair: Sequence[int]) -> str:
    """A figure before and after: "files 480 -> 12"."""
    return f"{name} {pair_text(name, pair)}"


def pair_text(name: str, pair: Sequence[int] | None) -> str:
    """The two values for people; "" if the table has no such figure."""
    if pair is None:
        return ""
    show = human_bytes if name == "bytes" else "{:,}".format
    return f"{show(pair[0])} -> {show(pair[1])}"
