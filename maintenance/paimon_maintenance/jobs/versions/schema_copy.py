"""Copies the schemas of a branch to main, and can restore those of main."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from paimon_core.errors import StalePlan
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.read_retry import read_whole


@dataclass(slots=True)
class SchemaCopy:
    """Copies the schemas of `branch` to `table`, and remembers the replaced ones."""

    table: FileStoreTable
    branch: FileStoreTable
    fence: Callable[[], None]
    _replaced: dict[int, bytes | None] = field(default_factory=dict)

    def copy(self) -> None:
        """Write the different schemas, and delete those that the branch does not have.

        StalePlan, before any change, if the branch does not exist.
        """
        io = self.table.io
        theirs = {n: stored_schema(self.branch, n) for n in self.branch.schemas.ids()}
        if not theirs or None in theirs.values():
            raise StalePlan(
                f"branch {self.branch.branch} of table {self.table.name} was removed after the plan",
                table=self.table.name,
            )
        for number, content in theirs.items():
            if content is None:
                continue
            now = stored_schema(self.table, number)
            if now != content:
                self.fence()
                self._replaced[number] = now
                io.overwrite(self.table.paths.schema(number), content)
        for number in self.table.schemas.ids():
            if number > max(theirs):
                self.fence()
                self._replaced[number] = stored_schema(self.table, number)
                io.delete(self.table.paths.schema(number))

    def undo(self) -> None:
        """Restore replaced and deleted schemas, and delete new ones."""
        for number, content in self._replaced.items():
            self.fence()
            path = self.table.paths.schema(number)
            if content is None:
                self.table.io.delete(path)
            else:
                self.table.io.overwrite(path, content)
        self._replaced.clear()


def stored_schema(table: FileStoreTable, number: int) -> bytes | None:
    """The content of the file of a schema; None if it does not exist."""
    try:
        return read_whole(table.io, table.paths.schema(number), table=table.name)
    except FileNotFoundError:
        return None
