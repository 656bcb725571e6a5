"""Explains the loss of Spark: which process ended, how it ended, and the next step.

A dead JVM causes a refused connection, which looks like a network or storage problem.  The error
must not send operators in that direction.
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
    "increase spark.driver.memory (a local master shares it with executors) or reduce "
    "--parallelism, then run again"
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
"""Time for the JVM to end after its connection is lost."""
_LONGEST_REASON: Final = 300
_FULL_DISK: Final = "No space left on device"


class SparkLost(MaintenanceError):
    """Spark was lost while running: its JVM, its server, or all of its executors."""

    default_next_step = (
        "find out why it ended (kernel log for an out-of-memory kill, container events, "
        "hs_err_pid*.log for a crash), increase its memory (spark.driver.memory, or the limit of "
        "the container) or reduce --parallelism, then run again"
    )


class UnitLost(MaintenanceError):
    """The worker of a unit died twice without an error."""

    default_next_step = (
        "check the log of the executor; usually it ran out of memory: increase "
        "spark.executor.memoryOverhead, then run again"
    )


def raise_if_lost(session: SparkSession, error: Exception) -> None:
    """Raise SparkLost if the error shows that Spark itself is lost; then no task caused it."""
    if isinstance(error, SparkLost):
        raise error
    if not any(
        type(cause).__name__ in _GONE_TYPES or _GONE_TEXT.search(str(cause))
        for cause in _causes(error)
    ):
        return
    code = jvm_exit_code(session, wait_seconds=_END_SECONDS)
    if code is None:
        raise SparkLost(f"the connection to Spark is lost: {reason_of(error)}") from error
    raise SparkLost(f"Spark's JVM {how_it_ended(code)}") from error


def is_not_of_py4j(record: logging.LogRecord) -> bool:
    """A filter for the root logger, where py4j logs each lost connection with a stack trace.

    The exception carries the same error, which is reported with an explanation.
    """
    return "py4j" not in Path(record.pathname).parts


def all_tasks_died(first: Exception | None) -> SparkLost:
    """The error to raise if all tasks died; `first` is the error of the first one."""
    text = getattr(first, "message", str(first))
    return SparkLost(
        f"all Spark tasks died; the first one: {text}",
        next_step=MORE_MEMORY if OUT_OF_MEMORY in text else UnitLost.default_next_step,
    )


def how_it_ended(code: int) -> str:
    """The meaning of an exit code, as the end of a sentence."""
    name = signal_of(code)
    if name is None:
        return f"ended with exit code {code}"
    if name == "SIGKILL":
        return "was killed (SIGKILL), usually because the machine or container ran out of memory"
    if name in _CRASHES:
        return f"crashed ({name})"
    return f"was terminated by a signal ({name})"


def signal_of(code: int) -> str | None:
    """The signal that ended a process, for example SIGKILL for -9 and for 137 (shells).

    None if no signal ended it.
    """
    number = -code if code < 0 else code - _SHELL_SIGNAL
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def reason_of(error: BaseException) -> str:
    """The most informative line of a Spark failure."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)]
    return (telling or lines or [type(error).__name__])[0][:_LONGEST_REASON]


def next_step_after(error: BaseException) -> str:
    """What to do after a Spark failure."""
    if _FULL_DISK in str(error):
        return (
            "free some space in the folders that spark.local.dir names on the executors, or name "
            "others, then run again"
        )
    return "check the logs of the executors, then run again"


def jvm_exit_code(session: SparkSession, *, wait_seconds: float = 0.0) -> int | None:
    """The exit code of the JVM that this process started.

    None if there is none or it still runs.
    """
    try:
        gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - nothing public has it
        return int(gateway.proc.wait(wait_seconds))
    except Exception:  # noqa: BLE001 - spark-submit's JVM, Spark Connect, or one that still runs
        return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
