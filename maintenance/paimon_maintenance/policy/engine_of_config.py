"""Where runs do their work by default: `engine` and `spark_threshold` under [caretaker] in
caretaker.toml.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from paimon_core.errors import InvalidArgument
from paimon_maintenance.job.engine_choice import engine_named, threshold_of
from paimon_maintenance.policy.model import EnginePolicy
from paimon_maintenance.storage.config_file import read_config


def engine_of_config() -> EnginePolicy:
    """What the configuration file says; InvalidArgument names the file and a wrong value."""
    file, raw = read_config(os.environ)
    common = raw.get("caretaker", {})
    found = common if isinstance(common, Mapping) else {}
    return engine_from(found.get("engine"), found.get("spark_threshold"), f"{file}: [caretaker]")


def engine_from(engine: object, spark_threshold: object, where: str) -> EnginePolicy:
    """The policy of these values; None means not set. InvalidArgument for an invalid value."""
    try:
        return EnginePolicy(
            engine=None if engine is None else str(engine_named(str(engine))),
            spark_threshold=None if spark_threshold is None else _size(spark_threshold),
        )
    except InvalidArgument as e:
        raise InvalidArgument(f"{where}: {e.message}") from e


def _size(value: object) -> str:
    threshold_of(str(value))
    return str(value)
