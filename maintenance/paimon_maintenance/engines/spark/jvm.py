"""The options with which the JVMs of Spark's driver and executors start.

Jobs read and write in Python, and the JVM only passes bytes on.  The optimizing compiler takes more
processor time than it saves: without it, Spark starts in two thirds of the time.  An archive of
classes (`class_archive`) spares nearly half of what is left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from paimon_maintenance.engines.spark.class_archive import (
    SUBMIT_OPTIONS,
    archive_options,
    archive_options_elsewhere,
)

JAVA_OPTIONS: Final = "JDK_JAVA_OPTIONS"
"""The variable with options of every JVM that a process starts."""
QUICK: Final = "-XX:TieredStopAtLevel=1"
EXECUTOR_OPTIONS: Final = "spark.executor.defaultJavaOptions"
"""Spark's setting for the JVMs of executors, before `spark.executor.extraJavaOptions`."""


def driver_environment(*, queries: bool = False) -> dict[str, str]:
    """Return the variables to set for a process that starts the driver's JVM.

    What this process's environment says comes last and wins.  With `queries`, which the JVM runs
    itself, its optimizing compiler pays.
    """
    ours = {JAVA_OPTIONS: "" if queries else QUICK, SUBMIT_OPTIONS: archive_options()}
    return {
        name: f"{options} {os.environ.get(name, '')}".strip()
        for name, options in ours.items()
        if options
    }


def executor_options(java_home: Path, *, queries: bool = False) -> str:
    """Return the value of `EXECUTOR_OPTIONS`; empty if there is nothing to set.

    `java_home` is that of the driver, which executors mostly have, too.
    """
    return " ".join(filter(None, ("" if queries else QUICK, archive_options_elsewhere(java_home))))


@contextmanager
def in_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set these variables of this process while the block runs."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
