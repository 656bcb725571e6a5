"""Counters of the runs in one process, in the Prometheus text format.

    >>> metrics = Metrics()
    >>> metrics.add(RUNS, 1, job="compact", table="db.t", outcome="success")
    >>> print(metrics.to_text(), end="")
    # HELP paimon_maintenance_runs_total Runs by outcome.
    # TYPE paimon_maintenance_runs_total counter
    paimon_maintenance_runs_total{job="compact",outcome="success",table="db.t"} 1

The CLI writes them with `--metrics-file`, for the textfile collector of the node exporter.  Details
of a single run are in its report.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from paimon_core.io.store_retries import BACKOFF_SECONDS
from paimon_maintenance.job.report import Report, Status


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: name, help text and type."""

    name: str
    help: str
    kind: Literal["counter", "gauge"] = "counter"


RUNS: Final = Metric("paimon_maintenance_runs_total", "Runs by outcome.")
FILES_DELETED: Final = Metric(
    "paimon_maintenance_files_deleted_total",
    "Files that runs removed from the latest snapshot (kind=logical) or from storage.",
)
FILES_WRITTEN: Final = Metric(
    "paimon_maintenance_files_written_total", "Data files that runs committed."
)
BYTES_READ: Final = Metric("paimon_maintenance_bytes_read_total", "Bytes of the files rewritten.")
BYTES_WRITTEN: Final = Metric(
    "paimon_maintenance_bytes_written_total", "Bytes of the files committed."
)
BYTES_RECLAIMED: Final = Metric(
    "paimon_maintenance_bytes_reclaimed_total",
    "Bytes saved by rewriting data or deleted from storage.",
)
DURATION: Final = Metric(
    "paimon_maintenance_duration_seconds", "Seconds spent, by phase.", "counter"
)
COMMIT_RETRIES: Final = Metric(
    "paimon_maintenance_commit_retries_total",
    "New plans after a conflict with a concurrent commit.",
)
RETRIES: Final = Metric(
    "paimon_maintenance_store_retries_total", "Store requests that were sent again, by reason."
)
BACKOFF: Final = Metric(
    "paimon_maintenance_store_backoff_seconds_total",
    "Seconds waited before requests were sent again, summed over all threads.",
)
LAST_SUCCESS: Final = Metric(
    "paimon_maintenance_last_success_timestamp_seconds",
    "Time of the last successful run, including runs with nothing to do.",
    "gauge",
)


STORE_RETRIES: Final = "store_retries"
"""The detail of a report with `StoreRetries.to_json`."""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


@dataclass(slots=True)
class Metrics:
    """A set of labelled numbers, one per process; any thread may record a report."""

    _values: dict[Metric, dict[tuple[tuple[str, str], ...], float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, metric: Metric, value: float, **labels: str) -> None:
        """Add `value` to the counter with these labels."""
        series = self._values.setdefault(metric, {})
        key = tuple(sorted(labels.items()))
        series[key] = series.get(key, 0) + value

    def put(self, metric: Metric, value: float, **labels: str) -> None:
        """Set the gauge with these labels."""
        self._values.setdefault(metric, {})[tuple(sorted(labels.items()))] = value

    def record(self, report: Report, *, now_millis: int) -> None:
        """Count everything in a report."""
        with self._lock:
            self._record(report, now_millis)

    def _record(self, report: Report, now_millis: int) -> None:
        job, table = report.job, report.table
        self.add(RUNS, 1, job=job, table=table, outcome=str(report.status))
        for phase, seconds in report.seconds.items():
            self.add(DURATION, seconds, job=job, table=table, phase=phase)
        if report.attempts > 1:
            self.add(COMMIT_RETRIES, report.attempts - 1, job=job, table=table)
        if report.status in (Status.SUCCESS, Status.NOTHING_TO_DO):
            self.put(LAST_SUCCESS, now_millis / 1000, job=job, table=table)
        if report.snapshots:
            replaced, written = report.replaced, report.written
            self.add(FILES_DELETED, replaced.files, job=job, table=table, kind="logical")
            self.add(FILES_WRITTEN, written.files, job=job, table=table)
            self.add(BYTES_READ, replaced.bytes, job=job, table=table)
            self.add(BYTES_WRITTEN, written.bytes, job=job, table=table)
            self.add(BYTES_RECLAIMED, max(0, replaced.bytes - written.bytes), job=job, table=table)
        self._retried(job, table, report.details.get(STORE_RETRIES))
        self._stored(job, table, report.details)
        for part in report.parts:
            # A step of a composite job counts as its own job.
            self._stored(str(part.get("job")), table, part.get("details"))

    def _retried(self, job: str, table: str, retries: object) -> None:
        if not isinstance(retries, Mapping):
            return
        for reason, value in retries.items():
            if reason == BACKOFF_SECONDS:
                self.add(BACKOFF, value, job=job, table=table)
            else:
                self.add(RETRIES, value, job=job, table=table, reason=reason)

    def _stored(self, job: str, table: str, details: object) -> None:
        """Count the files deleted from storage, including those of a finished interrupted run."""
        if not isinstance(details, Mapping):
            return
        files, size = details.get("deleted_files"), details.get("deleted_bytes")
        if isinstance(files, int) and files:
            self.add(FILES_DELETED, files, job=job, table=table, kind="storage")
        if isinstance(size, int) and size:
            self.add(BYTES_RECLAIMED, size, job=job, table=table)
        self._stored(job, table, details.get("finished"))

    def to_text(self) -> str:
        """All metrics in Prometheus' text exposition format, sorted."""
        lines = []
        for metric in sorted(self._values, key=lambda m: m.name):
            lines.append(f"# HELP {metric.name} {metric.help}")
            lines.append(f"# TYPE {metric.name} {metric.kind}")
            for labels, value in sorted(self._values[metric].items()):
                text = ",".join(f'{name}="{_escaped(v)}"' for name, v in labels)
                lines.append(f"{metric.name}{{{text}}} {_number(value)}")
        return "".join(line + "\n" for line in lines)

    def write(self, path: str) -> None:
        """Write `to_text` to a local file atomically, because collectors read it at any time."""
        target = Path(path)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(self.to_text())
            # Only the owner can read a file from mkstemp, but the collector is another user.
            Path(temporary).chmod(0o644)
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(round(value, 6))
