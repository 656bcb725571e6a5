"""What people do about problems that the scheduler only reports.

Owners change their tables; who is on call starts the job that the health reason names.  The
scheduler does the rest afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from paimon_core.ddl.schema_change import RemoveOption, SchemaChange, SetOption
from paimon_core.environment import system_environment
from paimon_maintenance.demo.lake import DATABASE
from paimon_maintenance.demo.problems import INVALID_OPTION, MISSPELT_OPTION, MONTHLY_TAGS
from paimon_maintenance.demo.run_here import run_here
from paimon_maintenance.history.entry import History
from paimon_maintenance.storage.catalogs import catalog_of

PROPOSED: Final = f"{DATABASE}.stock"
"""The table whose rescale the scheduler proposes: it waits in Airflow until a person approves
it."""
ORPHANS: Final = f"{DATABASE}.upload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What one person does for one table: changes its options, or runs a job."""

    name: str
    who: str
    changes: tuple[SchemaChange, ...] = ()
    job: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict)
    then: str = ""

    @property
    def table(self) -> str:
        """The name with the database."""
        return f"{DATABASE}.{self.name}"

    @property
    def text(self) -> str:
        """What is done, as one would type it."""
        if self.job:
            return " ".join(["caretaker run", self.job, self.table, *self._flags()])
        return "; ".join(f"ALTER TABLE {self.table} {_sql(change)}" for change in self.changes)

    def _flags(self) -> list[str]:
        return [f"--{name} {_word(value)}" for name, value in self.arguments.items()]


def acts() -> tuple[Act, ...]:
    """All of them, in order."""
    return (
        Act(
            name="price",
            who="its owner",
            changes=(
                RemoveOption(MISSPELT_OPTION[0]),
                SetOption("snapshot.num-retained.max", MISSPELT_OPTION[1]),
            ),
        ),
        Act(name="quote", who="its owner", changes=(RemoveOption(INVALID_OPTION[0]),)),
        Act(
            name="visit",
            who="its owner",
            changes=(SetOption("partition.timestamp-formatter", "yyyyMMdd"),),
            then="the scheduler expires its partitions",
        ),
        Act(
            name="device",
            who="its owner",
            changes=(
                SetOption("partition.expiration-time", "90 d"),
                SetOption("partition.timestamp-formatter", "yyyy-MM-dd"),
            ),
            then="the scheduler expires its partitions",
        ),
        Act(
            name="contract",
            who="its owner",
            job="delete_tag",
            arguments={"tag": list(MONTHLY_TAGS)},
        ),
        Act(
            name="search",
            who="its owner",
            job="reassign_row_id",
            then="the scheduler compacts its files",
        ),
        Act(name="refund", who="on call", job="repair", arguments={"repair": ["close_gap"]}),
        Act(name="upload", who="on call", job="remove_orphan_files", arguments={"mode": "delete"}),
    )


def do(act: Act, warehouse: str, history: History) -> None:
    """Do it, or raise the error."""
    if act.job:
        run_here(act.job, warehouse, act.table, act.arguments, history=history)
    else:
        now = system_environment().now_millis()
        catalog_of(warehouse).alter_table(act.table, act.changes, now_millis=now)


def search_for_orphans(warehouse: str, history: History) -> None:
    """The weekly search: health knows of orphan files only from the history."""
    run_here(
        "remove_orphan_files", warehouse, ORPHANS, {"mode": "delete"}, history=history, dry_run=True
    )


def _sql(change: SchemaChange) -> str:
    if isinstance(change, SetOption):
        return f"SET TBLPROPERTIES ('{change.key}' = '{change.value}')"
    assert isinstance(change, RemoveOption)
    return f"UNSET TBLPROPERTIES ('{change.key}')"


def _word(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
