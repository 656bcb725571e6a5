"""The JSON Schema (2020-12) of policy files, for editors.

Made from the same tables as the reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from paimon_maintenance.health.thresholds import DEFAULTS
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.engine_choice import EngineName
from paimon_maintenance.job.exit_codes import OnRefused
from paimon_maintenance.job.job import Job
from paimon_maintenance.policy.load_needs import NOTIFIERS
from paimon_maintenance.policy.model import EnginePolicy, GuardPolicy
from paimon_maintenance.policy.needs import Approval, OnCommit, RescaleRule
from paimon_maintenance.registry import JOBS

_SCALAR: Final = {"type": ["string", "number", "boolean"]}
_TEXTS: Final = {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]}
_DURATION: Final = {"type": "string", "examples": ["10 min", "6 h", "1 d"]}
_SIZE: Final = {"type": ["string", "integer"], "examples": ["500 mb", "2 tb"]}
_WHOLE: Final = {"type": "integer", "minimum": 1}
_POSITIVE: Final = {"type": "number", "exclusiveMinimum": 0}
_WINDOWS: Final = {
    "description": "when jobs that rewrite data may start, in the scheduler's wall clock",
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    "examples": [["22:00-06:00", "sat-sun 00:00-24:00"]],
}


def schema() -> dict[str, Any]:
    """The schema of a policy file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Caretaker policy",
        **_object(
            {
                "version": {"enum": [1, "1"]},
                "budget": _object(
                    {
                        "seconds": _described(_POSITIVE, "compute, as predicted, on average"),
                        "most_seconds": _described(
                            _POSITIVE, "of a single round; default: ten times `seconds`"
                        ),
                        "bytes": _described(_SIZE, "to rewrite"),
                        "tables": _described(_WHOLE, "tables with a job"),
                        "applications": _described(_WHOLE, "runs that rewrite data"),
                        "windows": _WINDOWS,
                    },
                    "what one round of the scheduler may spend",
                ),
                "alert_targets": {
                    "type": "object",
                    "description": "where alerts go, by the names that rules use",
                    "additionalProperties": _object(
                        {
                            "notifier": {"type": "string", "examples": sorted(NOTIFIERS)},
                            "arguments": {"type": "object"},
                        },
                        required=["notifier"],
                    ),
                },
                "rules": {"type": "array", "items": _rule()},
            },
            required=["version", "rules"],
        ),
    }


def _rule() -> dict[str, Any]:
    threshold = _object(
        {
            "good": {"type": "number", "minimum": 0},
            "bad": {"type": "number", "minimum": 0},
            "weight": {"type": "number", "minimum": 0, "maximum": 1},
        }
    )
    return _object(
        {
            "name": _described(_SCALAR, "the name of the rule in messages"),
            "tables": _described(_TEXTS, "shell wildcards over database.table"),
            "excluding": _described(_TEXTS, "shell wildcards of tables to leave out"),
            "match": _object(
                {
                    "options": {"type": "object", "additionalProperties": _SCALAR},
                    "comment": _SCALAR,
                    "owner": _SCALAR,
                },
                "conditions on the table itself; values are shell wildcards",
            ),
            "options": _described(
                {"type": "object", "additionalProperties": _SCALAR},
                "table options, for tables that do not set them",
            ),
            **_limits(),
            "jobs": _object({name: _job(job) for name, job in sorted(JOBS.items())}),
            "scheduled": {"type": "boolean", "description": "whether the scheduler may act"},
            "owner": _described(_SCALAR, "who is responsible for the tables"),
            "alerts": _described(_TEXTS, "where alerts about these tables go"),
            "windows": _WINDOWS,
            "freshness": _described(_DURATION, "level 0 is not older than this"),
            "consumer_lag": _object(
                {"age": _DURATION, "snapshots": _WHOLE, "bytes": _SIZE},
                "a consumer beyond one of these is too far behind",
            ),
            "rescale": _described(
                {"enum": [*map(str, RescaleRule), False]},
                "what the scheduler does about buckets of the wrong size",
            ),
            "max_red": _described(_DURATION, "how long a table may stay red"),
            "priority": _described(_POSITIVE, "multiplies the benefit of the jobs"),
            "on_commit": _described(
                {"enum": [*map(str, OnCommit), False]},
                "how the partitions that a commit changed are compacted right after it",
            ),
            "approval": {
                "type": ["array", "string", "boolean"],
                "description": "what waits until a person approves it",
                "items": {"enum": [str(a) for a in Approval]},
            },
            "health": _object(
                dict.fromkeys(DEFAULTS, threshold), "thresholds and weights of the health score"
            ),
        },
        required=["tables"],
    )


def _job(job: Job) -> dict[str, Any]:
    settings = _object(
        {
            "enabled": _described({"type": "boolean"}, "whether the job may run on the tables"),
            "schedule": _described(
                {"type": ["string", "null", "boolean"]},
                "a cron expression, or @hourly and the like; null: only by hand",
            ),
            "arguments": {
                "type": "object",
                "properties": {a.name: _argument(a) for a in job.arguments},
            },
            **_limits(),
        },
        job.summary,
    )
    return {"anyOf": [{"type": ["boolean", "null"]}, settings], "description": job.summary}


def _argument(argument: Argument) -> dict[str, Any]:
    found: dict[str, Any] = {"description": argument.help}
    if argument.choices and argument.kind is Kind.CHOICE:
        found["enum"] = [*argument.choices]
    return found


def _limits() -> dict[str, Any]:
    """What a rule says of all its jobs, and a job of itself: guards, engine, refused tables."""
    engine = {
        "engine": _described({"enum": [str(e) for e in EngineName]}, "where data is rewritten"),
        "spark_threshold": _described(
            _SIZE, "with engine auto, plans that rewrite less than this run without Spark"
        ),
    }
    return {
        "guards": _object(
            {f.name: {"type": ["string", "number"]} for f in fields(GuardPolicy)},
            "limits on what a run deletes and rewrites",
        ),
        **{f.name: engine.get(f.name, _SCALAR) for f in fields(EnginePolicy)},
        "on_refused": _described(
            {"enum": [str(o) for o in OnRefused]},
            "whether a table with an unsupported feature fails a run over many tables",
        ),
    }


def _object(
    properties: Mapping[str, Any],
    description: str | None = None,
    *,
    required: list[str] | None = None,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "object",
        "properties": dict(properties),
        "additionalProperties": False,
    }
    if description is not None:
        found["description"] = description
    if required:
        found["required"] = required
    return found


def _described(of: Mapping[str, Any], description: str) -> dict[str, Any]:
    return {**of, "description": description}
