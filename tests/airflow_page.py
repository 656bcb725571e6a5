"""Airflow's own API application with the plugin, a history with odd tables, and logins."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from paimon_core.table.open import open_table
from paimon_maintenance.health.measure import measure_table
from paimon_maintenance.health.score import health_of
from paimon_maintenance.health.thresholds import Thresholds
from paimon_maintenance.history.entry import Entry
from paimon_maintenance.history.status import StatusStore, TableStatus, status_of
from paimon_maintenance.history.store import SqlHistory

ROOT = Path(__file__).resolve().parents[1]
ODD_NAMES = (
    'db."><img src=x onerror="window.hacked=1">',
    "db.'); window.hacked=1; ('",
    "db.../../../etc/passwd",
    "db.<script>window.hacked=1</script>",
    "db.ünï çödé %2e%2e%2f & javascript:alert(1)",
    "db.\u202etxet fo redro",
    f"db.{'long' * 50}",
)
USERS = {"admin": "ADMIN", "viewer": "VIEWER", "user": "USER"}


@cache
def make_app() -> Any:
    """Airflow's application, with the plugin of the checkout mounted in it; made once."""
    import airflow.settings
    from airflow import plugins_manager
    from airflow.api_fastapi import app as airflow_app

    before = airflow.settings.PLUGINS_FOLDER
    try:
        airflow.settings.PLUGINS_FOLDER = str(ROOT / "plugins")
        _forget(plugins_manager)
        return airflow_app.create_app(apps="core")
    finally:
        airflow.settings.PLUGINS_FOLDER = before


def _forget(plugins_manager: Any) -> None:
    for value in vars(plugins_manager).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()


def token_of(name: str) -> str:
    """A login of this user, as Airflow makes it."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    user = SimpleAuthManagerUser(username=name, role=USERS[name], teams=None)
    return str(get_auth_manager().generate_jwt(user))


@contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Variables of the environment, for a while."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def fill_history(url: str, warehouse: str, tables: list[str], *, now: int) -> None:
    """Real tables with their health, and odd names that no lake should have."""
    from paimon_core.environment import system_environment

    history = SqlHistory(url)
    env = system_environment()
    found = []
    for name in tables:
        measured = measure_table(open_table(warehouse, name), env)
        found.append(status_of(measured, health_of(measured, Thresholds(), now), owner="<b>me</b>"))
    reason = {"criterion": "small_files", "points": 70.0, "severity": 1.0, "value": 9.0}
    for number, name in enumerate(ODD_NAMES):
        text = f"{name} has {number} files"
        found.append(
            TableStatus(
                table=name,
                at_millis=now,
                score=30 + number,
                color="red",
                criterion="small_files",
                reason=text,
                owner=name[3:],
                files=number,
                next_job="compact",
                next_action="later",
                next_reason=text,
                health={"reasons": [{**reason, "text": text, "job": "compact"}], "partitions": []},
            )
        )
    StatusStore(history, warehouse).put(found)
    StatusStore(history, warehouse).add_totals(now - 1000)
    StatusStore(history, warehouse).add_totals(now)
    history.add(
        [
            Entry(
                at_millis=now - 5000 + number,
                event="run",
                job="compact",
                table=name,
                warehouse=warehouse,
                status="failed" if number % 2 else "success",
                run_id=f"r{number}",
                origin="airflow",
                actor=f"caretaker_compact {name}",
                seconds=1.5,
                error_type="<i>GuardTripped</i>" if number % 2 else None,
                error=f"error of {name}" if number % 2 else None,
                next_step=f"look at {name}" if number % 2 else None,
                application_id=name,
                application_url=None if number % 2 else "javascript:window.hacked=1",
            )
            for number, name in enumerate((*tables, *ODD_NAMES))
        ]
    )
