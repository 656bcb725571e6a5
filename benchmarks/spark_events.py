"""What the event log of a Spark application says about its time: its start and each job."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LOGGED: Final = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
"""Configuration of an application with an event log, apart from `spark.eventLog.dir`."""
_MILLIS: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Job:
    """A Spark job: when it started after the application, and how long it took, in seconds.

    `tasks` are the seconds of each task of its largest stage, and `seconds` the time from the
    launch of the first of them to the end of the last; stages before it only hand out the units.
    """

    started: float
    wall: float
    seconds: float
    tasks: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Application:
    """`executors`: when each of them had registered, in seconds; the jobs in order."""

    executors: tuple[float, ...]
    jobs: tuple[Job, ...]


def read_application(folder: Path) -> Application:
    """The only application in this folder of event logs."""
    (log,) = (p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("."))
    events = [json.loads(line) for line in log.read_text().splitlines()]
    (begin,) = (e["Timestamp"] for e in _of("ApplicationStart", events))
    tasks: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in _of("TaskEnd", events):
        if event["Task End Reason"]["Reason"] == "Success":
            tasks[event["Stage ID"]].append(event["Task Info"])
    ends = {e["Job ID"]: e["Completion Time"] for e in _of("JobEnd", events)}
    return Application(
        executors=tuple((e["Timestamp"] - begin) / _MILLIS for e in _of("ExecutorAdded", events)),
        jobs=tuple(_job(e, begin, ends[e["Job ID"]], tasks) for e in _of("JobStart", events)),
    )


def _of(kind: str, events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (e for e in events if e["Event"] == f"SparkListener{kind}")


def _job(
    event: dict[str, Any], begin: int, end: int, tasks: dict[int, list[dict[str, Any]]]
) -> Job:
    def spent(task: dict[str, Any]) -> int:
        return int(task["Finish Time"]) - int(task["Launch Time"])

    stages = [tasks[s] for s in event["Stage IDs"] if tasks[s]]
    longest = max(stages, key=lambda found: sum(map(spent, found)))
    stage = max(t["Finish Time"] for t in longest) - min(t["Launch Time"] for t in longest)
    return Job(
        started=(event["Submission Time"] - begin) / _MILLIS,
        wall=(end - event["Submission Time"]) / _MILLIS,
        seconds=stage / _MILLIS,
        tasks=tuple(spent(t) / _MILLIS for t in longest),
    )
