"""Which compiler the JVMs of Spark's driver and executors use.

Jobs read and write in Python, and the JVM only passes bytes on.  The optimizing compiler takes more
processor time than it saves: without it, Spark starts in two thirds of the time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

VARIABLE: Final = "JDK_JAVA_OPTIONS"
QUICK: Final = "-XX:TieredStopAtLevel=1"
EXECUTOR_OPTIONS: Final = "spark.executor.defaultJavaOptions"
"""Spark's setting for the JVMs of executors, before `spark.executor.extraJavaOptions`."""


@contextmanager
def quick_compiler() -> Iterator[None]:
    """Let the JVM that the block starts compile quickly, unless the environment says otherwise."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = java_options()
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def java_options() -> str:
    """Return the value of `VARIABLE` for a JVM that runs jobs; what the environment has wins."""
    return f"{QUICK} {os.environ.get(VARIABLE, '')}".strip()  # of two options the last one holds
