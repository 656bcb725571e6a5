"""The name of a table in a statement, and the errors about tables by their names."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.paths import MAIN_BRANCH
from paimon_spark.sql.catalogs import CATALOG
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.text.names import quoted

SYSTEM_DATABASE: Final = "sys"
"""The database of the tables about all tables (`global_tables`)."""


@dataclass(frozen=True, slots=True)
class TableName:
    """A Paimon table of a catalog, with the branch and system table of its name."""

    database: str
    table: str
    branch: str | None = None
    system: str | None = None
    catalog: str = CATALOG
    typed: tuple[str, ...] = field(default=(), compare=False)
    """The parts of the name in the statement, without what the session adds."""

    @property
    def identifier(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def with_branch(self) -> str:
        """The identifier with the branch, as procedures take it."""
        return self.identifier if self.branch is None else f"{self.identifier}$branch_{self.branch}"

    @property
    def written(self) -> str:
        """The name of the table with its branch and system table, as a statement writes it."""
        table = self.with_branch.removeprefix(f"{self.database}.")
        return table if self.system is None else f"{table}${self.system}"

    @property
    def shown(self) -> str:
        """The name as errors and results show it."""
        return f"`{self.catalog}`.`{self.database}`.`{self.table}`"


def check_no_system_table(name: TableName) -> None:
    """AnalysisError for a system table or one of `sys`, which no statement makes or changes."""
    if name.system is not None or name.database == SYSTEM_DATABASE:
        shown = name.shown if name.system is None else f"{name.shown}${name.system}"
        raise AnalysisError(
            f"[NOT_A_TABLE] {shown} is a system table and cannot be changed",
            table=name.identifier,
            next_step="name the table itself",
        )


def refused_for_formats(name: TableName) -> UnsupportedFeature:
    """The error for a statement that needs snapshots, on a format table."""
    return UnsupportedFeature(
        "statements that need snapshots, on format tables",
        f"[UNSUPPORTED_FEATURE.TABLE_OPERATION] The feature is not supported: Table {name.shown} is "
        "a format table: it has files and no snapshots, so no UPDATE, DELETE, MERGE, TRUNCATE, "
        "time travel, tags, branches and system tables",
        table=name.identifier,
        next_step="use SELECT and INSERT, or copy its rows into a table USING paimon",
    )


def on_branch(name: TableName, branch: str) -> TableName:
    """The table on this branch.  InvalidArgument if its name has another one."""
    if name.branch is not None and name.branch != branch:
        raise InvalidArgument(
            f"the name of {name.shown} has the branch {name.branch}, the option branch is {branch}",
            table=name.identifier,
            next_step="name one branch",
        )
    return replace(name, branch=None if branch == MAIN_BRANCH else branch)


def not_found(name: TableName) -> AnalysisError:
    """The error for a table that does not exist."""
    if name.branch is not None:
        return AnalysisError(
            f"[TABLE_OR_VIEW_NOT_FOUND] The branch {name.branch} of the table {name.shown} cannot "
            "be found",
            table=name.identifier,
            next_step=f"check the name; `{name.table}$branches` lists the branches",
        )
    shown = ".".join(map(quoted, name.typed)) or name.shown
    return AnalysisError(
        f"[TABLE_OR_VIEW_NOT_FOUND] The table or view {shown} cannot be found",
        table=name.identifier,
        next_step="check the name; SHOW TABLES lists the tables",
    )
