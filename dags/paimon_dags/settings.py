"""Where and how the DAGs run: defaults, and what `caretaker.toml` beside the DAG file says.

A plain file, so that every process that parses a DAG sees the same one, and a change of a schedule
is reviewed like any other::

    [caretaker]
    warehouse = "s3://lake/warehouse"    # default: the environment's CARETAKER_WAREHOUSE
    spark_connection = "spark_default"
    engine = "auto"                      # or "local", "spark"; the form and the policy override it
    spark_threshold = "256 mb"           # auto: Spark from so many bytes to rewrite on; 0: for all
    batch_size = "20 gb"                 # bytes to read that one Spark application gets at most
    batch_tables = 50
    parallel_batches = 4                 # Spark applications at the same time, for each DAG
    policy = "/etc/caretaker.yaml"       # default: the environment's CARETAKER_POLICY
    pool = "caretaker"                   # of the working tasks; must exist; default: default_pool
    results = "s3://lake/.caretaker"     # only needed when drivers run on the cluster
    packages = "/opt/caretaker.zip"      # paimon_core and maintenance for executors
    timezone = "Europe/Berlin"           # of the tables' writers; default: the worker's
    storage_connection = "lake"          # an Airflow connection with the store's credentials

    [storage]                            # options of the store; secret ones are refused
    "s3.endpoint" = "https://s3.example.com"

    [catalogs.prod]                      # warehouse = "catalog:prod"; secrets: CARETAKER_CATALOGS
    metastore = "rest"
    uri = "https://catalog.example.com"

    [spark_conf]
    "spark.pyspark.python" = "/opt/venv/bin/python"

    [submit]                             # more arguments of the provider's SparkSubmitOperator
    num_executors = 8
    executor_memory = "4g"

    [on_commit]                          # makes caretaker_on_commit; without it there is none
    tables = ["*.*"]                     # which the watcher looks at
    poll_seconds = 5
    linger_seconds = 45                  # how long a task waits for more commits
    assets = ["sales.orders"]            # tables whose asset events compact a partition
    spark = true                         # plans for Spark run there at once; default: false

    [scheduler]                          # makes caretaker_schedule; without it there is none
    schedule = "*/10 * * * *"
    tables = ["*.*"]

    [alerts]                             # makes caretaker_alerts; without it there is none
    schedule = "*/5 * * * *"

    [jobs.compact]
    schedule = "*/15 * * * *"            # or false: only by hand
    pool = "spark"
    retries = 2
    defaults = { strategy = "minor" }    # where neither the form nor the policy gives a value
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Final, cast

from paimon_airflow.tasks.batches import parse_size
from paimon_maintenance.storage.catalogs import catalogs_from
from paimon_maintenance.storage.config_file import CONFIG_VARIABLE
from paimon_maintenance.storage.options import HOW_TO_PASS_SECRETS, secret_keys
from paimon_maintenance.storage.variables import (
    POLICY_VARIABLE,
    WAREHOUSE_VARIABLE,
)
from paimon_maintenance.storage.warehouse import canonical_warehouse


class SettingsError(ValueError):
    """The settings file is wrong; the message names the file and the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """The settings of one job; None: the value of its page.

    `schedule` is a cron expression, or "" for a DAG that only runs by hand.
    """

    enabled: bool = True
    schedule: str | None = None
    pool: str | None = None
    retries: int | None = None
    retry_minutes: int = 5
    defaults: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnCommitSettings:
    """Maintenance on commit: which tables are watched, and how often.

    `assets` are tables whose asset events with a partition key compact that partition.  With
    `spark`, plans for Spark run on the master of `spark_connection`; without, the scheduler runs
    them.
    """

    tables: tuple[str, ...] = ("*.*",)
    assets: tuple[str, ...] = ()
    poll_seconds: int = 5
    linger_seconds: int = 45
    spark: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """The DAG that runs rounds of the scheduler."""

    schedule: str = "*/10 * * * *"
    tables: tuple[str, ...] = ("*.*",)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    """The DAG that sends alerts."""

    schedule: str = "*/5 * * * *"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of all DAGs.

    `packages` None: made when a task needs it (see `paimon_airflow`).
    """

    warehouse: str | None = None
    policy: str | None = None
    spark_connection: str = "spark_default"
    engine: str | None = None
    spark_threshold: str | None = None
    batch_size: str = "20 gb"
    batch_tables: int = 50
    parallel_batches: int = 4
    pool: str | None = None
    results: str | None = None
    packages: str | None = None
    timezone: str | None = None
    storage_connection: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict)
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    submit: Mapping[str, object] = field(default_factory=dict)
    jobs: Mapping[str, JobSettings] = field(default_factory=dict)
    on_commit: OnCommitSettings | None = None
    scheduler: SchedulerSettings | None = None
    alerts: AlertSettings | None = None

    def job(self, name: str) -> JobSettings:
        """The settings of this job; the pool for all jobs where it has none of its own."""
        own = self.jobs.get(name, JobSettings())
        return own if own.pool is not None or self.pool is None else replace(own, pool=self.pool)


def load_settings(file: Path, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of this file; the defaults if it does not exist.  SettingsError if wrong."""
    raw: dict[str, object] = {}
    if file.is_file():
        try:
            raw = tomllib.loads(file.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as e:
            message = f"{file}: {e}"
            raise SettingsError(message) from e
    return settings_from(raw, environ=environ, where=str(file))


def use_catalogs_of(file: Path) -> None:
    """Let the tasks of this process find the catalogs that the file defines."""
    if file.is_file():
        os.environ.setdefault(CONFIG_VARIABLE, str(file))


def settings_from(
    raw: Mapping[str, object], *, environ: Mapping[str, str], where: str = "settings"
) -> Settings:
    """The settings that these tables of a TOML file mean."""
    parts = {"storage", "spark_conf", "submit", "jobs", *_DAGS}
    _known(raw, {"caretaker", "catalogs", *parts}, where)
    _check_catalogs(raw, where)
    common = dict(_table(raw, "caretaker", where))
    if isinstance(common.get("spark_threshold"), int):
        common["spark_threshold"] = str(common["spark_threshold"])
    own = {f.name for f in fields(Settings)} - parts
    _known(common, own, f"{where}: [caretaker]")
    _typed(common, Settings(), f"{where}: [caretaker]")
    common.setdefault("warehouse", environ.get(WAREHOUSE_VARIABLE) or None)
    if common["warehouse"]:
        common["warehouse"] = canonical_warehouse(str(common["warehouse"]))
    common.setdefault("policy", environ.get(POLICY_VARIABLE) or None)
    settings = Settings(
        **common,  # type: ignore[arg-type]  # checked by _typed
        storage={k: str(v) for k, v in _table(raw, "storage", where).items()},
        spark_conf={k: str(v) for k, v in _table(raw, "spark_conf", where).items()},
        submit=dict(_table(raw, "submit", where)),
        jobs={
            name: _job_settings(cast("Mapping[str, object]", part), f"{where}: [jobs.{name}]")
            for name, part in _table(raw, "jobs", where).items()
        },
        **{n: _dag_settings(raw, n, where) for n in _DAGS if n in raw},  # type: ignore[arg-type]
    )
    for name in ("storage", "spark_conf", "submit"):
        _refuse_secrets(getattr(settings, name), f"{where}: [{name}]")
    _check_engine(settings, where)
    try:
        parse_size(settings.batch_size)
    except ValueError as e:
        message = f"{where}: [caretaker] batch_size: {e}"
        raise SettingsError(message) from e
    for name in ("batch_tables", "parallel_batches"):
        if getattr(settings, name) < 1:
            message = f"{where}: [caretaker] {name} must be 1 or more"
            raise SettingsError(message)
    return settings


def _check_engine(settings: Settings, where: str) -> None:
    from paimon_core.errors import InvalidArgument
    from paimon_maintenance.policy.engine_of_config import engine_from  # noqa: PLC0415 - fast parsing

    try:
        engine_from(settings.engine, settings.spark_threshold, f"{where}: [caretaker]")
    except InvalidArgument as e:
        raise SettingsError(str(e)) from e


def _check_catalogs(raw: Mapping[str, object], where: str) -> None:
    """Tasks read the catalogs from the file by themselves; a wrong one is an import error here."""
    from paimon_core.errors import InvalidArgument

    try:
        catalogs_from(raw.get("catalogs", {}), where)
    except InvalidArgument as e:
        raise SettingsError(str(e)) from e


def _refuse_secrets(options: Mapping[str, object], where: str) -> None:
    """Refuse secrets: DAGs are stored with these options, and Spark shows its configuration to all
    users.
    """
    found = secret_keys(options)
    for name, value in options.items():
        if isinstance(value, Mapping):  # such as env_vars of the operator
            found += [f"{name}.{key}" for key in secret_keys(value)]
    if found:
        message = (
            f"{where}: {', '.join(found)} must not be set here, because others can read it; "
            f"{HOW_TO_PASS_SECRETS}"
        )
        raise SettingsError(message)


def _job_settings(raw: object, where: str) -> JobSettings:
    if not isinstance(raw, Mapping):
        message = f"{where} must be a table"
        raise SettingsError(message)
    parts = dict(raw)
    if parts.get("schedule") is False:
        parts["schedule"] = ""
    _known(parts, {f.name for f in fields(JobSettings)}, where)
    _typed(parts, JobSettings(), where)
    return JobSettings(**parts)


_DAGS: Final[Mapping[str, type[OnCommitSettings | SchedulerSettings | AlertSettings]]] = {
    "on_commit": OnCommitSettings,
    "scheduler": SchedulerSettings,
    "alerts": AlertSettings,
}
"""The tables of the file that make a DAG each."""


def _dag_settings(
    raw: Mapping[str, object], name: str, where: str
) -> OnCommitSettings | SchedulerSettings | AlertSettings:
    kind = _DAGS[name]
    place = f"{where}: [{name}]"
    parts = dict(_table(raw, name, where))
    for key, value in parts.items():
        if isinstance(value, list):
            parts[key] = tuple(map(str, value))
    _known(parts, {f.name for f in fields(kind)}, place)
    _typed(parts, kind(), place)
    found = kind(**parts)  # type: ignore[arg-type]  # checked by _typed
    if isinstance(found, OnCommitSettings) and found.poll_seconds < 1:
        message = f"{place}: poll_seconds must be 1 or more"
        raise SettingsError(message)
    return found


def _table(raw: Mapping[str, object], name: str, where: str) -> Mapping[str, object]:
    part = raw.get(name, {})
    if not isinstance(part, Mapping):
        message = f"{where}: [{name}] must be a table"
        raise SettingsError(message)
    return part


def _known(raw: Mapping[str, object], names: set[str], where: str) -> None:
    unknown = sorted(set(raw) - names)
    if unknown:
        message = f"{where}: unknown {', '.join(unknown)}; known: {', '.join(sorted(names))}"
        raise SettingsError(message)


_TYPES: Final[Mapping[type, str]] = {
    int: "a whole number",
    str: "a text",
    bool: "true or false",
    tuple: "a list of strings",
    Mapping: "a table",
}


def _typed(raw: Mapping[str, object], defaults: object, where: str) -> None:
    """Refuse values whose type is not that of the default (mostly text if the default is None)."""
    for name, value in raw.items():
        default = getattr(defaults, name)
        if default is None:
            wanted: type = int if name == "retries" else str
        else:
            wanted = type(default)
        if wanted is dict:
            wanted = Mapping
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            message = f"{where}: {name} = {value!r} must be {_TYPES[wanted]}"
            raise SettingsError(message)
