"""The retention of an expiry: the arguments of the run, else the options of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, cast

from paimon_core.environment import Environment
from paimon_core.retention.expiry_range import Retention
from paimon_maintenance.rules.times import parse_older_than

_ARGUMENTS: Final = {"num_min": "retain_min", "num_max": "retain_max", "limit": "max_deletes"}


def with_arguments(
    options: Retention, arguments: Mapping[str, object], env: Environment
) -> Retention:
    """The retention that the table's options give, with the arguments that are set."""
    chosen = {
        field: cast("int", arguments[name])
        for field, name in _ARGUMENTS.items()
        if arguments.get(name) is not None
    }
    older_than = cast("str | None", arguments.get("older_than"))
    if older_than is not None:
        chosen["older_than_millis"] = parse_older_than(older_than, env)
    return replace(options, **chosen)
