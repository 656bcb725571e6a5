"""Spark that went away, and what to say about it: which process ended, how, and what to do.

A dead JVM shows itself as a refused connection, which looks like trouble with the network or the
storage.  It is neither, and whoever is on call must not look there.
"""

from __future__ import annotations

import logging
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from paimon_core.errors import MaintenanceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUT_OF_MEMORY: Final = "OutOfMemoryError"
MORE_MEMORY: Final = (
    "raise spark.driver.memory (with a local master, executors share it), or do less at once "
    "(--parallelism), then run again"
)
_GONE_TYPES: Final = frozenset(
    {"BrokenPipeError", "ConnectionRefusedError", "ConnectionResetError", "Py4JNetworkError"}
)
_GONE_TEXT: Final = re.compile(
    r"Answer from Java side is empty|Error while sending or receiving"
    r"|StatusCode\.UNAVAILABLE|failed to connect to all addresses"
)
_TELLING: Final = re.compile(r"worker exited|ExecutorLost|OutOfMemory|Caused by: .*Exception: ")
_CRASHES: Final = frozenset({"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV"})
_SHELL_SIGNAL: Final = 128
_END_SECONDS: Final = 3.0
"""How long a JVM may take to end once its connection is gone."""
_LONGEST_REASON: Final = 300


class SparkLost(MaintenanceError):
    """Spark had started and then went away: its JVM, its server, or all of its executors."""

    default_next_step = (
        "look for why it ended (the kernel's log for an out-of-memory kill, the container's "
        "events, hs_err_pid*.log for a crash), give it more memory (spark.driver.memory; in a "
        "container, its limit) or less to do at once (--parallelism), then run again"
    )


class UnitLost(MaintenanceError):
    """The worker that ran a unit died without saying why, twice."""

    default_next_step = (
        "look at the executor's log; most often it ran out of memory: give executors more "
        "(spark.executor.memoryOverhead), then run again"
    )


def raise_if_lost(session: SparkSession, error: Exception) -> None:
    """Raise SparkLost if the error says that Spark itself is gone; then no task was to blame."""
    if isinstance(error, SparkLost):
        raise error
    if not any(
        type(cause).__name__ in _GONE_TYPES or _GONE_TEXT.search(str(cause))
        for cause in _causes(error)
    ):
        return
    code = _exit_code_of_jvm(session)
    if code is None:
        raise SparkLost(f"the connection to Spark is lost: {reason_of(error)}") from error
    raise SparkLost(f"Spark's JVM {how_it_ended(code)}") from error


def is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Filter for the root logger, where py4j logs each lost connection with its trace.

    The error comes as an exception too, and is reported as what it means.
    """
    return "py4j" not in Path(record.pathname).parts


def all_tasks_died(first: Exception | None) -> SparkLost:
    """The error to raise when no task came through; `first` is how the first of them ended."""
    text = getattr(first, "message", str(first))
    return SparkLost(
        f"every Spark task died; the first: {text}",
        next_step=MORE_MEMORY if OUT_OF_MEMORY in text else UnitLost.default_next_step,
    )


def how_it_ended(code: int) -> str:
    """What an exit code tells, as the end of a sentence."""
    name = signal_of(code)
    if name is None:
        return f"ended with exit code {code}"
    if name == "SIGKILL":
        return "was killed (SIGKILL), most often because the machine or container ran out of memory"
    if name in _CRASHES:
        return f"crashed ({name})"
    return f"was ended from outside ({name})"


def signal_of(code: int) -> str | None:
    """The signal that ended a process: -9, or 137 as shells say it, is SIGKILL; None without."""
    number = -code if code < 0 else code - _SHELL_SIGNAL
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def reason_of(error: BaseException) -> str:
    """The one line of a Spark failure that says most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)]
    return (telling or lines or [type(error).__name__])[0][:_LONGEST_REASON]


def _exit_code_of_jvm(session: SparkSession) -> int | None:
    """The exit code of the JVM that this process started; None if there is none, or it lives."""
    try:
        gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - nothing public has it
        return int(gateway.proc.wait(_END_SECONDS))
    except Exception:  # noqa: BLE001 - spark-submit's JVM, Spark Connect, or one that still runs
        return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what caused it."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
