"""One table's metadata, read from the lake on request: files, snapshots, schemas and plans.

The API server needs access to the store for these: options come from `CARETAKER_STORAGE`, catalogs
from `caretaker.toml`, as on the command line.  Only tables that the history knows can be read.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from paimon_airflow.page.models import PlanAnswer
from paimon_core.environment import system_environment
from paimon_core.errors import MaintenanceError
from paimon_core.file_store_table import FileStoreTable
from paimon_maintenance.health.picture import FilePicture, file_picture
from paimon_maintenance.health.schemas import SchemaHistory, schema_history
from paimon_maintenance.health.timeline import Timeline, timeline_of
from paimon_maintenance.policy.load import load_policy
from paimon_maintenance.policy.model import TablePolicy
from paimon_maintenance.policy.needs import TableFacts
from paimon_maintenance.policy.resolve import resolve
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.runner import RunServices, plan_table
from paimon_maintenance.storage.catalogs import open_table_of, options_of
from paimon_maintenance.storage.options import options_of_environment
from paimon_maintenance.storage.variables import POLICY_VARIABLE

_MOST_LINES: Final = 200
_AT_ONCE: Final = 4
_MOST_WAITING: Final = 16
"""Each takes one of the server's 40 threads, which all of Airflow's API needs."""
_WAIT_SECONDS: Final = 10.0
_reading = threading.BoundedSemaphore(_AT_ONCE)
_waiting = threading.BoundedSemaphore(_MOST_WAITING)


class TooBusy(MaintenanceError):
    """Too many requests read the lake at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A table that the history knows."""

    warehouse: str
    table: str
    branch: str

    def open(self) -> FileStoreTable:
        """The table under its newest schema."""
        storage = options_of(self.warehouse, options_of_environment())
        return open_table_of(
            self.warehouse, self.table, branch=self._branch(), file_io_options=storage
        )

    def _branch(self) -> str | None:
        return None if self.branch == "main" else self.branch


def read_files(named: Named, partition: str | None) -> FilePicture:
    """The live files of one partition, for the picture."""
    with _one_of_few():
        return file_picture(named.open(), system_environment(), partition=partition)


def read_timeline(named: Named) -> Timeline:
    """The snapshots with tags, branches and consumers."""
    with _one_of_few():
        return timeline_of(named.open(), system_environment())


def read_schemas(named: Named) -> SchemaHistory:
    """Columns, options and schema history."""
    with _one_of_few():
        return schema_history(named.open())


def make_plan(named: Named, job: str, arguments: dict[str, object]) -> PlanAnswer:
    """The plan of the job under the policy of `CARETAKER_POLICY`; records and changes nothing."""
    with _one_of_few():
        storage = options_of(named.warehouse, options_of_environment())
        request = resolve(job_named(job), _policy_of(named), typed=arguments).request(
            warehouse=named.warehouse,
            table=named.table,
            branch=named._branch(),  # noqa: SLF001 - of this module
            storage=storage,
            dry_run=True,
        )
        plan = plan_table(request, RunServices())
    if plan.failure is not None:
        raise plan.failure
    lines = list(plan.lines())
    return PlanAnswer(
        job=job,
        empty=plan.is_empty,
        lines=lines[:_MOST_LINES],
        left_out=max(0, len(lines) - _MOST_LINES),
        effect=plan.effect.to_json(),
    )


def _policy_of(named: Named) -> TablePolicy:
    file = os.environ.get(POLICY_VARIABLE)
    if not file:
        return TablePolicy(table=named.table)

    def facts() -> TableFacts:
        schema = named.open().schema
        return TableFacts(dict(schema.options), schema.comment)

    return load_policy(file).for_table(named.table, facts)


@contextmanager
def _one_of_few() -> Iterator[None]:
    """Bounds how many requests read the lake at once: they share the API server's threads."""
    if not (_reading.acquire(blocking=False) or _wait()):
        raise TooBusy(
            f"{_AT_ONCE} other requests read the lake", next_step="try again in a few seconds"
        )
    try:
        yield
    finally:
        _reading.release()


def _wait() -> bool:
    """Wait for another request to end; False if that takes too long, or if too many wait."""
    if not _waiting.acquire(blocking=False):
        return False
    try:
        return _reading.acquire(timeout=_WAIT_SECONDS)
    finally:
        _waiting.release()
