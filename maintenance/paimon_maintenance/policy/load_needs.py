"""Reads the keys of a policy that the scheduler needs: conditions, goals, limits, the budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from paimon_core.errors import InvalidArgument
from paimon_core.options import parse_duration_millis, parse_memory_size
from paimon_maintenance.health.thresholds import DEFAULTS
from paimon_maintenance.policy.needs import (
    AlertTarget,
    Approval,
    Budget,
    Match,
    OnCommit,
    RescaleRule,
)
from paimon_maintenance.policy.windows import Window
from paimon_maintenance.policy.yaml_node import YamlNode
from paimon_maintenance.storage.options import secret_keys

NEEDS_KEYS: Final = frozenset(
    {
        "scheduled",
        "owner",
        "alerts",
        "windows",
        "freshness",
        "consumer_lag",
        "rescale",
        "max_red",
        "priority",
        "on_commit",
        "approval",
        "health",
    }
)
MATCH_KEYS: Final = frozenset({"options", "comment", "owner"})
CONSUMER_KEYS: Final = frozenset({"age", "snapshots", "bytes"})
BUDGET_KEYS: Final = frozenset(
    {"seconds", "most_seconds", "bytes", "tables", "applications", "windows"}
)
TARGET_KEYS: Final = frozenset({"notifier", "arguments"})
NOTIFIERS: Final = frozenset({"email", "webhook"})
"""Notifiers with a short name; others have their import path."""
THRESHOLD_KEYS: Final = frozenset({"good", "bad", "weight"})


def read_needs(entries: Mapping[str, YamlNode]) -> dict[str, Any]:
    """The fields of TableNeeds that a rule sets, for `TableNeeds.with_changes`."""
    found: dict[str, Any] = {}
    for name, place in entries.items():
        if name in NEEDS_KEYS:
            found.update(_READERS[name](place))
    return found


def read_match(place: YamlNode) -> Match:
    """The conditions of a rule."""
    entries = place.entries(MATCH_KEYS)
    match = Match(
        options={k: v.text() for k, v in entries["options"].entries().items()}
        if "options" in entries
        else {},
        comment=entries["comment"].text() if "comment" in entries else None,
        owner=entries["owner"].text() if "owner" in entries else None,
    )
    if match.is_empty:
        place.wrong("no condition given (options, comment or owner)")
    return match


def read_budget(place: YamlNode) -> Budget:
    """The budget of a round."""
    entries = place.entries(BUDGET_KEYS)
    seconds = _positive(entries["seconds"]) if "seconds" in entries else None
    most = _positive(entries["most_seconds"]) if "most_seconds" in entries else None
    if most is not None and (seconds is None or most < seconds):
        entries["most_seconds"].wrong("`most_seconds` must not be less than `seconds`")
    return Budget(
        seconds=seconds,
        most_seconds=most,
        bytes=_size(entries["bytes"]) if "bytes" in entries else None,
        tables=_whole(entries["tables"]) if "tables" in entries else None,
        applications=_whole(entries["applications"]) if "applications" in entries else None,
        windows=_windows(entries["windows"]) if "windows" in entries else (),
    )


def read_targets(place: YamlNode) -> dict[str, AlertTarget]:
    """The targets of alerts by name; secrets are refused, because other users can read a policy."""
    found = {}
    for name, at in place.entries().items():
        entries = at.entries(TARGET_KEYS)
        if "notifier" not in entries:
            at.wrong("`notifier` is missing")
        notifier = entries["notifier"].text()
        if notifier not in NOTIFIERS and "." not in notifier:
            known = ", ".join(sorted(NOTIFIERS))
            entries["notifier"].wrong(
                f"{notifier!r} is neither one of {known} nor the import path of a notifier"
            )
        arguments: dict[str, object] = {}
        if "arguments" in entries:
            arguments = {k: v.plain() for k, v in entries["arguments"].entries().items()}
            for key in secret_keys(arguments):
                entries["arguments"].wrong(
                    f"{key} is secret, and other users can read a policy: use a connection of Airflow"
                )
        found[name] = AlertTarget(notifier=notifier, arguments=arguments)
    return found


def check_targets(rule: Mapping[str, YamlNode], targets: Mapping[str, AlertTarget]) -> None:
    """Refuse a rule with a target that the policy does not define: its alerts could not be sent."""
    if "alerts" not in rule:
        return
    for name in rule["alerts"].texts():
        if name not in targets:
            known = ", ".join(sorted(targets)) or "none"
            rule["alerts"].wrong(f"there is no alert target {name!r} (in `alert_targets`: {known})")


def _windows(place: YamlNode) -> tuple[Window, ...]:
    found = []
    for text in place.texts():
        try:
            found.append(Window.of(text))
        except ValueError as e:
            place.wrong(str(e))
    return tuple(found)


def _scheduled(place: YamlNode) -> dict[str, Any]:
    if place.flag is None:
        place.wrong("expected true or false")
    return {"scheduled": place.flag}


def _consumer_lag(place: YamlNode) -> dict[str, Any]:
    entries = place.entries(CONSUMER_KEYS)
    found: dict[str, Any] = {}
    if "age" in entries:
        found["consumer_millis"] = _duration(entries["age"])
    if "snapshots" in entries:
        found["consumer_snapshots"] = _whole(entries["snapshots"])
    if "bytes" in entries:
        found["consumer_bytes"] = _size(entries["bytes"])
    return found


def _choice(place: YamlNode, choices: type[RescaleRule | OnCommit]) -> RescaleRule | OnCommit:
    # YAML reads `off` as false.
    text = "off" if place.flag is False else place.text()
    try:
        return choices(text)
    except ValueError:
        place.wrong(f"{text!r} is not one of {', '.join(choices)}")


def _approval(place: YamlNode) -> dict[str, Any]:
    found = []
    for text in () if place.flag is False else place.texts():
        try:
            found.append(Approval(text))
        except ValueError:
            place.wrong(f"{text!r} is not one of {', '.join(Approval)}")
    return {"approval": tuple(found)}


def _health(place: YamlNode) -> dict[str, Any]:
    found: dict[str, dict[str, float]] = {}
    for name, at in place.entries(frozenset(DEFAULTS)).items():
        values = {key: _number(node) for key, node in at.entries(THRESHOLD_KEYS).items()}
        if not 0 <= values.get("weight", 0) <= 1:
            at.wrong("weight is not between 0 and 1")
        good = values.get("good", DEFAULTS[name].good)
        if values.get("bad", DEFAULTS[name].bad) <= good:
            at.wrong("bad is not greater than good")
        found[name] = values
    return {"criteria": found}


_READERS: Final[Mapping[str, Callable[[YamlNode], dict[str, Any]]]] = {
    "scheduled": _scheduled,
    "owner": lambda place: {"owner": place.text()},
    "alerts": lambda place: {"alerts": place.texts()},
    "windows": lambda place: {"windows": _windows(place)},
    "freshness": lambda place: {"freshness_millis": _duration(place)},
    "consumer_lag": _consumer_lag,
    "rescale": lambda place: {"rescale": _choice(place, RescaleRule)},
    "on_commit": lambda place: {"on_commit": _choice(place, OnCommit)},
    "approval": _approval,
    "max_red": lambda place: {"max_red_millis": _duration(place)},
    "priority": lambda place: {"priority": _positive(place)},
    "health": _health,
}


def _duration(place: YamlNode) -> int:
    text = place.text()
    try:
        millis = parse_duration_millis(text)
    except InvalidArgument as e:
        place.wrong(e.message)
    if millis <= 0:
        place.wrong("expected a duration greater than 0")
    return millis


def _size(place: YamlNode) -> int:
    text = place.text()
    try:
        size = parse_memory_size(text)
    except InvalidArgument as e:
        place.wrong(e.message)
    if size == 0:
        place.wrong("expected a size greater than 0")
    return size


def _number(place: YamlNode) -> float:
    text = place.text()
    try:
        number = float(text)
    except ValueError:
        place.wrong(f"{text!r} is not a number")
    if not 0 <= number < float("inf"):
        place.wrong(f"{text!r} is negative or not finite")
    return number


def _positive(place: YamlNode) -> float:
    number = _number(place)
    if number <= 0:
        place.wrong("expected a number greater than 0")
    return number


def _whole(place: YamlNode) -> int:
    number = place.whole()
    if number == 0:
        place.wrong("expected a whole number greater than 0")
    return number
