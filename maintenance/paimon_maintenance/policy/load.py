"""Reads and checks a policy file; errors name file, line and key.

::

    version: 1
    rules:
      - name: everything
        tables: "*.*"                      # shell wildcards over database.table, one or a list
        excluding: ["*.tmp_*"]
        options:                           # defaults for options that a table does not set
          snapshot.time-retained: 1 d
          tag.automatic-creation: process-time
        guards: { max_deleted_share: 0.3 }
        engine: auto                       # or local, spark
        spark_threshold: 256 mb            # auto: Spark from this many bytes to rewrite
        on_refused: skip                   # or fail; default: fail the first time only
        jobs:
          compact:
            schedule: "*/30 * * * *"
            arguments: { strategy: minor }
            guards: { max_rewrite: 500 gb }
          maintain: { schedule: "5 * * * *" }
          trigger_tag_automatic_creation:  # no schedule: a step of maintain
            arguments: { when_idle: latest }
      - name: archive
        tables: archive.*
        jobs:
          compact: off

The keys for the scheduler (`budget`, `match`, goals and limits) are read by `load_needs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Final

from paimon_core.errors import InvalidArgument, NotFound
from paimon_core.options import check_option, parse_memory_size, similar_option
from paimon_maintenance.job.arguments import with_underscores
from paimon_maintenance.job.engine_choice import engine_named
from paimon_maintenance.job.exit_codes import OnRefused
from paimon_maintenance.policy.load_needs import (
    NEEDS_KEYS,
    check_targets,
    read_budget,
    read_match,
    read_needs,
    read_targets,
)
from paimon_maintenance.policy.model import EnginePolicy, GuardPolicy, JobRule, Policy, Rule
from paimon_maintenance.policy.needs import Budget, Match
from paimon_maintenance.policy.schedule import wrong_schedule
from paimon_maintenance.policy.yaml_node import YamlNode, read_yaml
from paimon_maintenance.registry import JOBS, job_named
from paimon_maintenance.storage.options import HOW_TO_PASS_SECRETS, secret_keys

_VERSION: Final = "1"
_TOP: Final = frozenset({"version", "rules", "budget", "alert_targets"})
_STORAGE: Final = "storage"
_ENGINE: Final = frozenset(f.name for f in fields(EnginePolicy))
_RULE: Final = (NEEDS_KEYS | _ENGINE) | {
    *("name", "tables", "excluding", "match", "options", "guards", "on_refused", "jobs")
}
_JOB: Final = frozenset({"enabled", "schedule", "arguments", "guards", "on_refused"}) | _ENGINE
_GUARDS: Final = frozenset(f.name for f in fields(GuardPolicy))
_OPTIONS: Final = (
    "snapshot.",
    "changelog.num-retained.",
    "changelog.time-retained",
    "tag.",
    "consumer.",
    "partition.expiration-",
    "partition.timestamp-",
    "partition.mark-done-",
    "compaction.",
    "num-sorted-run.",
    "target-file-size",
    "commit.",
    "manifest.",
    "sink.process-time-zone",
    "sink.watermark-time-zone",
)
"""Prefixes of maintenance options; all other options define the table itself."""


def load_policy(path: str | Path) -> Policy:
    """The policy in this file.

    NotFound if there is no file, InvalidArgument for invalid content.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as e:
        raise NotFound(
            f"policy file {path} does not exist", next_step="check the path, or create the file"
        ) from e
    except (OSError, UnicodeDecodeError) as e:
        raise InvalidArgument(
            f"cannot read the policy file {path}: {e}",
            file=str(path),
            next_step="make sure that it is a readable UTF-8 text file",
        ) from e
    return read_policy(text, str(path))


def read_policy(text: str, file: str) -> Policy:
    """The policy in this YAML text; errors name it `file`."""
    top = read_yaml(text, file)
    entries = top.entries(_TOP | {_STORAGE})
    if _STORAGE in entries:
        entries[_STORAGE].wrong(
            "a policy cannot configure the store: set options in [storage] of caretaker.toml, "
            f"or with --storage; {HOW_TO_PASS_SECRETS}"
        )
    version = entries.get("version")
    if version is None:
        top.wrong("`version: 1` is missing")
    if version.text() != _VERSION:
        version.wrong(f"this version of Caretaker supports only version {_VERSION}")
    if "rules" not in entries:
        top.wrong("`rules` is missing")
    rules = [_rule(place, i) for i, place in enumerate(entries["rules"].items())]
    names: set[str] = set()
    for rule, place in zip(rules, entries["rules"].items(), strict=True):
        if rule.name in names:
            place.wrong(f"duplicate rule name {rule.name!r}")
        names.add(rule.name)
    targets = read_targets(entries["alert_targets"]) if "alert_targets" in entries else {}
    for place in entries["rules"].items():
        check_targets(place.entries(_RULE), targets)
    return Policy(
        file=file,
        rules=tuple(rules),
        budget=read_budget(entries["budget"]) if "budget" in entries else Budget(),
        alert_targets=targets,
    )


def _rule(place: YamlNode, index: int) -> Rule:
    entries = place.entries(_RULE)
    if "tables" not in entries:
        place.wrong("`tables` is missing")
    return Rule(
        name=entries["name"].text() if "name" in entries else f"rule {index + 1}",
        line=place.line,
        tables=_patterns(entries["tables"]),
        excluding=_patterns(entries["excluding"]) if "excluding" in entries else (),
        match=read_match(entries["match"]) if "match" in entries else Match(),
        needs=read_needs(entries),
        options=_options(entries["options"]) if "options" in entries else {},
        guards=_guards(entries["guards"]) if "guards" in entries else GuardPolicy(),
        engine=_engine(entries),
        on_refused=_on_refused(entries["on_refused"]) if "on_refused" in entries else None,
        jobs={
            name: _job(name, job)
            for name, job in (entries["jobs"].entries() if "jobs" in entries else {}).items()
        },
    )


def _patterns(place: YamlNode) -> tuple[str, ...]:
    patterns = place.texts()
    if not patterns:
        place.wrong("the list of tables is empty")
    for pattern in patterns:
        if "." not in pattern:
            place.wrong(f"{pattern!r} is not a database.table pattern (for example 'sales.*')")
    return patterns


def _options(place: YamlNode) -> dict[str, str]:
    found = {}
    for key, value in place.entries().items():
        if not key.startswith(_OPTIONS):
            value.wrong(f"{key!r} is not a maintenance option: set it on the table")
        found[key] = value.text()
        if secret_keys({key: found[key]}):
            value.wrong(
                f"{key!r} is secret, and other users can read a policy: set it on the table"
            )
        near = similar_option(key)
        if near is not None:
            value.wrong(f"unknown option {key!r}; did you mean {near}?")
        try:
            check_option(key, found[key])
        except InvalidArgument as e:
            value.wrong(e.message)
    return found


def _guards(place: YamlNode) -> GuardPolicy:
    entries = place.entries(_GUARDS)
    share: float | None = None
    if "max_deleted_share" in entries:
        at = entries["max_deleted_share"]
        try:
            share = float(at.text())
        except ValueError:
            at.wrong(f"{at.text()!r} is not a number")
        if not 0 <= share <= 1:
            at.wrong(f"{at.text()} is not between 0 and 1")
    return GuardPolicy(
        max_deleted_share=share,
        max_deleted_snapshots=_number(entries, "max_deleted_snapshots"),
        max_deleted_files=_number(entries, "max_deleted_files"),
        max_deleted_bytes=_size(entries, "max_deleted_bytes"),
        max_rewrite=_size(entries, "max_rewrite"),
    )


def _number(entries: Mapping[str, YamlNode], name: str) -> int | None:
    if name not in entries:
        return None
    return entries[name].whole()


def _size(entries: Mapping[str, YamlNode], name: str) -> str | None:
    """The size as written, after a check that it is valid."""
    if name not in entries:
        return None
    at = entries[name]
    text = at.text()
    try:
        parse_memory_size(text)
    except InvalidArgument as e:
        at.wrong(e.message)
    return text


def _engine(entries: Mapping[str, YamlNode]) -> EnginePolicy:
    engine: str | None = None
    if "engine" in entries:
        at = entries["engine"]
        text = at.text()
        try:
            engine = str(engine_named(text))
        except InvalidArgument as e:
            at.wrong(e.message)
    return EnginePolicy(engine=engine, spark_threshold=_size(entries, "spark_threshold"))


def _on_refused(place: YamlNode) -> OnRefused:
    try:
        return OnRefused(place.text())
    except ValueError:
        place.wrong(f"{place.text()!r} is not one of {', '.join(OnRefused)}")


def _job(name: str, place: YamlNode) -> JobRule:
    if name not in JOBS:
        try:
            job_named(name)
        except InvalidArgument as e:
            place.wrong(e.message)
        place.wrong(f"use the name {job_named(name).name} instead of {name!r}")
    if place.flag is not None:
        return JobRule(job=name, enabled=place.flag)
    entries = place.entries(_JOB)
    enabled: bool | None = None
    if "enabled" in entries:
        enabled = entries["enabled"].flag
        if enabled is None:
            entries["enabled"].wrong("expected true or false")
    schedule: str | None = None
    by_hand = False
    if "schedule" in entries:
        at = entries["schedule"]
        by_hand = at.is_null or at.flag is False
        if not by_hand:
            schedule = at.text()
            reason = wrong_schedule(schedule)
            if reason is not None:
                at.wrong(reason)
    return JobRule(
        job=name,
        enabled=enabled,
        schedule=schedule,
        by_hand=by_hand,
        arguments=_arguments(name, entries["arguments"]) if "arguments" in entries else {},
        guards=_guards(entries["guards"]) if "guards" in entries else GuardPolicy(),
        engine=_engine(entries),
        on_refused=_on_refused(entries["on_refused"]) if "on_refused" in entries else None,
    )


def _arguments(job_name: str, place: YamlNode) -> dict[str, object]:
    job = job_named(job_name)
    known = {name: a.name for a in job.arguments for name in (a.name, *a.aliases)}
    found: dict[str, object] = {}
    for key, value in place.entries().items():
        name = known.get(with_underscores(key))
        if name is None:
            names = ", ".join(sorted(set(known.values()))) or "none"
            value.wrong(f"{job_name} has no argument {key!r} (known arguments: {names})")
        raw = value.plain()
        try:
            job.read_arguments({name: raw})
        except InvalidArgument as e:
            value.wrong(e.message)
        if name in found:
            value.wrong(f"{job_name} has the argument {name} twice")
        found[name] = raw
    reason = job.contradiction(job.read_arguments(found))
    if reason is not None:
        place.wrong(f"{job_name}: {reason}")
    return found
