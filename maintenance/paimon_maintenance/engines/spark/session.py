"""Starts the Spark session of an engine, or joins one that is active; ends what it started.

Several threads share one session: each has a scheduler pool of its own, so that the tasks of a
small table do not wait for all tasks of a large one.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paimon_core.errors import MaintenanceError, how_to_get
from paimon_core.io.temporary import temporary_folder
from paimon_maintenance.engines.process import executor_settings, prepare_libraries
from paimon_maintenance.engines.shipping import package_parents, write_packages
from paimon_maintenance.engines.spark.jvm import (
    EXECUTOR_OPTIONS,
    driver_environment,
    executor_options,
    in_environment,
)
from paimon_maintenance.engines.spark.loss import is_not_of_py4j, jvm_exit_code
from paimon_maintenance.engines.spark.output import StartupOutput
from paimon_maintenance.job.engine import SparkApplication

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

APP_NAME: Final = "caretaker"
CONNECT_SCHEME: Final = "sc://"
DEFAULT_MASTER: Final = "local[*]"
FAIR_SCHEDULING: Final = {"spark.scheduler.mode": "FAIR"}
"""Configuration of an application whose threads share its executors."""
_HISTORY_SERVER: Final = "spark.yarn.historyServer.address"
"""Spark's name for the address of its history server; used here with every master."""
_END_SECONDS: Final = 10.0
"""Time for a killed JVM to end."""
_POOL: Final = "spark.scheduler.pool"
_WORKER_ENVIRONMENT: Final = "PYSPARK_PYTHON"
_FIND_JAVA: Final = "CARETAKER_FIND_JAVA"
"""Set by the script of a checkout, whose package `bootstrap` finds or installs a Java."""
_LOCAL_FOLDERS: Final = "SPARK_LOCAL_DIRS"
_LOCAL_SETTING: Final = "spark.local.dir"
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, which then controls master and configuration."""


class SparkUnavailable(MaintenanceError):
    """Spark cannot start."""

    default_next_step = (
        "check that a JDK 17 or newer is installed and that the master is reachable, or use "
        "--engine local to run without Spark"
    )


@dataclass(frozen=True, slots=True)
class StartedSession:
    """A session, whether to stop it at the end, and the folder with the packages for executors."""

    session: SparkSession
    owned: bool = False
    shipped: tempfile.TemporaryDirectory[str] | None = None


@dataclass(slots=True)
class SharedSession:
    """The session that an engine and all its copies use; the first thread that needs it starts it.

    `application` is that of the newest session, also after its end.
    """

    started: StartedSession | None = None
    application: SparkApplication | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _changed: dict[str, tuple[int, str | None]] = field(default_factory=dict)

    def start(
        self, master: str | None, conf: dict[str, str], *, verbose: bool, queries: bool
    ) -> SparkSession:
        """The session, started if necessary; SparkUnavailable if it cannot start."""
        with self._lock:
            if self.started is None:
                with in_environment(driver_environment(queries=queries)):
                    self.started = _start(master, conf, verbose=verbose, queries=queries)
                self.application = _application_of(self.started.session)
            return self.started.session

    def close(self) -> None:
        """Stop the session if it was started here; a lost session counts as stopped."""
        with self._lock:
            started, self.started = self.started, None
        if started is None:
            return
        if started.owned:
            try:
                started.session.stop()
            except Exception:  # report the run anyway
                logger.debug("cannot stop the Spark session", exc_info=True)
        if started.shipped is not None:
            started.shipped.cleanup()

    def drop_if_ended(self, session: SparkSession) -> None:
        """Drop the session if its JVM has ended, so that the next work starts another one.

        Only for a JVM that this process started: others belong to spark-submit or to a cluster.
        """
        with self._lock:
            if self.started is None or self.started.session is not session:
                return
            if jvm_exit_code(session) is None:
                return
            started, self.started = self.started, None
            _forget_jvm(session)
        if started.shipped is not None:
            started.shipped.cleanup()

    @contextmanager
    def configured(self, session: SparkSession, key: str, value: str) -> Iterator[None]:
        """Set the key while the block runs in any thread, and restore it after the last one."""
        with self._lock:
            users, before = self._changed.get(key, (0, None))
            if not users:
                before = session.conf.get(key, None)
                session.conf.set(key, value)
            self._changed[key] = (users + 1, before)
        try:
            yield
        finally:
            with self._lock:
                users, before = self._changed[key]
                self._changed[key] = (users - 1, before)
                if users == 1 and before is None:
                    session.conf.unset(key)
                elif users == 1:
                    session.conf.set(key, str(before))


@contextmanager
def own_pool(session: SparkSession) -> Iterator[None]:
    """Run the Spark jobs of the block in this thread's scheduler pool; classic Spark only.

    A pool is named after the thread, so that there are only as many as threads.
    """
    if not hasattr(session, "_jsparkSession"):
        yield
        return
    context = session.sparkContext
    before = context.getLocalProperty(_POOL)
    context.setLocalProperty(_POOL, threading.current_thread().name)
    try:
        yield
    finally:
        try:
            context.setLocalProperty(_POOL, before)  # type: ignore[arg-type]  # None: no pool
        except Exception:  # the job reports a lost session
            logger.debug("cannot leave the scheduler pool", exc_info=True)


def _application_of(session: SparkSession) -> SparkApplication | None:
    """The application of the session; None for Spark Connect, which does not say.

    The UI in the driver ends with it, so the history server comes first where Spark knows one.
    """
    try:
        context = session.sparkContext
        server = context.getConf().get(_HISTORY_SERVER)
        ui = context.uiWebUrl
    except Exception:  # noqa: BLE001 - Spark Connect has no context, and several errors to say so
        return None
    if server:
        root = server if "://" in server else f"http://{server}"
        ui = f"{root.rstrip('/')}/history/{context.applicationId}/jobs/"
    return SparkApplication(id=context.applicationId, ui=ui)


def _forget_jvm(session: SparkSession) -> None:
    """Make pyspark forget a JVM that has ended; it keeps its gateway for the whole process."""
    _forget_context(session.sparkContext)
    _forget_gateway()
    logger.warning("Spark's JVM has ended; the next work starts another one")


def _forget_context(context: SparkContext) -> None:
    context._jsc = None  # noqa: SLF001 - `stop` would call the JVM
    context.stop()


def _forget_gateway() -> None:
    """Make pyspark forget its gateway if the JVM behind it has ended, even while starting."""
    from pyspark import SparkContext  # noqa: PLC0415 - see `_start`

    gateway = SparkContext._gateway  # noqa: SLF001 - nothing public has it
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    try:
        # A killed JVM stops answering some time before its process ends.
        process.wait(0.0 if _answers(gateway) else _END_SECONDS)
    except subprocess.TimeoutExpired:
        return
    started = SparkContext._active_spark_context  # noqa: SLF001 - as above
    if started is not None:
        _forget_context(started)
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - or resets it


def _answers(gateway: JavaGateway) -> bool:
    try:
        gateway.jvm.System.nanoTime()
    except Exception:  # noqa: BLE001 - py4j raises errors of several kinds
        return False
    return True


def _start(
    master: str | None, conf: dict[str, str], *, verbose: bool, queries: bool
) -> StartedSession:
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - the point of this module
    except ImportError as e:
        raise SparkUnavailable(
            f"PySpark is not installed ({e})",
            next_step=f"use --engine local; or {how_to_get('spark')}",
        ) from e
    if master is None:
        active = SparkSession.getActiveSession()
        if active is not None:
            return StartedSession(active)
    _forget_gateway()  # of a JVM whose end was not known yet when the last session failed
    submitted = _SUBMITTED in os.environ
    logging.getLogger().addFilter(is_not_of_py4j)
    prepare_workers()
    if not submitted:
        find_java()
    session_of = partial(
        _session, master, conf, submitted=submitted, verbose=verbose, queries=queries
    )
    with _as_unavailable(conf):
        if _is_connect(master) or not (submitted or _is_local(master)):
            return _with_packages(session_of)
        return StartedSession(session_of(), owned=True)


def _with_packages(session_of: Callable[[], SparkSession]) -> StartedSession:
    """A session with the packages for its executors; spark-submit ships them itself (--py-files).

    The folder must exist as long as the session: executors fetch from it when they start.
    """
    folder = temporary_folder("caretaker-")
    try:
        # This process waits for its JVM meanwhile.
        with ThreadPoolExecutor(1) as pool:
            packed = pool.submit(write_packages, Path(folder.name) / "caretaker.zip")
            session = session_of()
            session.addArtifacts(str(packed.result()), pyfile=True)
    except BaseException:
        folder.cleanup()
        raise
    return StartedSession(session, owned=True, shipped=folder)


@contextmanager
def _as_unavailable(conf: Mapping[str, str]) -> Iterator[None]:
    """Raise what goes wrong while Spark starts as SparkUnavailable."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - see `_start`
    from pyspark.errors import PySparkException  # noqa: PLC0415 - see `_start`

    try:
        yield
    except (PySparkException, Py4JError, OSError, RuntimeError) as e:
        _forget_gateway()
        check_local_folders(conf)
        raise SparkUnavailable(f"Spark did not start: {e}") from e


def _session(
    master: str | None, conf: dict[str, str], *, submitted: bool, verbose: bool, queries: bool
) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - see `_start`

    builder = SparkSession.builder.appName(APP_NAME)
    if master is not None and _is_connect(master):
        return builder.remote(master).getOrCreate()
    if master is not None or not submitted:
        builder = builder.master(master or DEFAULT_MASTER)
    conf = {**_defaults(master, submitted=submitted), **conf}
    for key, value in conf.items():
        builder = builder.config(key, value)
    at_start = {**conf, "spark.master": master or DEFAULT_MASTER}
    with nullcontext() if submitted or verbose else _quiet_jvm(at_start):
        if not _is_set(EXECUTOR_OPTIONS, at_start):
            options = executor_options(_java_home(), queries=queries)
            builder = builder.config(EXECUTOR_OPTIONS, options) if options else builder
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    if submitted and _is_local(session.sparkContext.master):
        # The JVM was started before this process could set the workers' path.
        session.sparkContext.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return session


def check_local_folders(conf: Mapping[str, str]) -> None:
    """SparkUnavailable if Spark has no folder for its temporary files: then its JVM just ends.

    The variable replaces the configuration; one usable folder is enough (Spark:
    `Utils.getConfiguredLocalDirs`).
    """
    setting, value = _LOCAL_FOLDERS, os.environ.get(_LOCAL_FOLDERS)
    if value is None:
        setting, value = _LOCAL_SETTING, conf.get(_LOCAL_SETTING)
    folders = [folder.strip() for folder in (value or "").split(",") if folder.strip()]
    problems = []
    for folder in folders:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="caretaker-", dir=folder):
                return
        except OSError as e:
            problems.append(f"{folder}: {e.strerror or e}")
    if problems:
        raise SparkUnavailable(
            f"Spark did not start: it can make no folder where {setting} says ({'; '.join(problems)})",
            next_step=f"let {setting} name a folder on a disk that is there and that this user may "
            "write to, or use --engine local to run without Spark",
        )


def find_java() -> None:
    """Set JAVA_HOME to a Java that the checkout finds; SparkUnavailable if it finds none."""
    if not os.environ.pop(_FIND_JAVA, None) or os.environ.get("JAVA_HOME"):
        return
    home = os.environ.get("CARETAKER_HOME", "")
    command = [sys.executable, "-P", "-m", "bootstrap.java", home]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode:
        raise SparkUnavailable("there is no Java for Spark on this machine")
    os.environ["JAVA_HOME"] = found.stdout.strip()


@contextmanager
def _quiet_jvm(conf: dict[str, str]) -> Iterator[None]:
    """Start the JVM for the session of the block, and hide its output unless the block fails.

    Does nothing if this process already has a JVM.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - see `_start`
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - see `_start`

    if SparkContext._gateway is not None:  # noqa: SLF001 - nothing public has it
        yield
        return
    output = StartupOutput()
    try:
        try:
            settings = SparkConf().setAll(list(conf.items()))
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                settings, popen_kwargs={"stderr": output.write_end}
            )
        finally:
            output.close_write_end()
        SparkContext._ensure_initialized(gateway=gateway, conf=settings)  # noqa: SLF001 - as above
        yield
    except BaseException:
        output.release()
        raise
    output.discard()


def _is_set(key: str, conf: Mapping[str, str]) -> bool:
    """Whether the configuration, or else that of Spark's installation, has the key.

    Starts the JVM if there is none, because only it knows the latter.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - see `_start`

    settings = SparkConf().setAll(list(conf.items()))
    SparkContext._ensure_initialized(conf=settings)  # noqa: SLF001 - as above
    return key in conf or SparkConf().contains(key)


def _java_home() -> Path:
    """Return the Java of the driver's JVM, which runs."""
    from pyspark import SparkContext  # noqa: PLC0415 - see `_start`

    jvm = SparkContext._jvm  # noqa: SLF001 - nothing public has it
    return Path(jvm.System.getProperty("java.home"))  # type: ignore[union-attr]


def _is_connect(master: str | None) -> bool:
    return master is not None and master.startswith(CONNECT_SCHEME)


def _is_local(master: str | None) -> bool:
    return (master or DEFAULT_MASTER).startswith("local")


def _defaults(master: str | None, *, submitted: bool) -> dict[str, str]:
    conf = {"spark.ui.showConsoleProgress": "false", **FAIR_SCHEDULING, **executor_settings()}
    if not submitted and _is_local(master):
        # Local Spark also works on a machine whose host name does not resolve.
        conf |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
        }
    return conf


def prepare_workers() -> None:
    """Make workers use this Python and find these packages, unless the environment says how."""
    prepare_libraries()
    os.environ.setdefault(_WORKER_ENVIRONMENT, sys.executable)
    known = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*package_parents(), *known]))
