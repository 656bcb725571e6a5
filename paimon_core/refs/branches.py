"""Branches: lines of metadata that share the table's data (Java: `utils/FileSystemBranchManager`).

A branch is a folder `branch/branch-NAME` with schemas, snapshots and tags of its own.  Whatever
deletes files of a table has to look at all its branches.

A branch that is being made holds the file `.creating` until it is complete: with it, an
interrupted creation is taken up again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_core.errors import AlreadyExists, InvalidArgument, NotFound
from paimon_core.io.file_io import FileIO, map_parallel
from paimon_core.io.settled import read_whole
from paimon_core.names import file_number
from paimon_core.paths import (
    BRANCH_PREFIX,
    CHANGELOG_PREFIX,
    MAIN_BRANCH,
    SCHEMA_PREFIX,
    SNAPSHOT_PREFIX,
    TAG_PREFIX,
    TablePaths,
)
from paimon_core.refs.tags import TagStore
from paimon_core.snapshot.changelog import without_lost_changelog
from paimon_core.snapshot.snapshot_json import snapshot_to_json

_CREATING: Final = ".creating"


@dataclass(frozen=True, slots=True)
class BranchStore:
    """The branches of a table besides main; made and renamed from the branch of `paths`."""

    io: FileIO
    paths: TablePaths
    table: str

    def names(self) -> list[str]:
        """All names, sorted; main, which is no folder, is not among them.

        Nor is a folder without schema, snapshot, tag or changelog, which a deletion that was
        interrupted leaves behind: it needs no file of the table.
        """
        names = sorted(
            f.name.removeprefix(BRANCH_PREFIX)
            for f in self.io.list_dir(self.paths.branches_dir)
            if f.is_dir and f.name.startswith(BRANCH_PREFIX)
        )
        holds = map_parallel(self.io, self._holds_metadata, names)
        return [name for name, there in zip(names, holds, strict=True) if there]

    def _holds_metadata(self, name: str) -> bool:
        paths = self.paths.of_branch(name)
        return any(
            file.name.startswith(prefix)
            for folder, prefix in (
                (paths.schema_dir, SCHEMA_PREFIX),
                (paths.snapshot_dir, SNAPSHOT_PREFIX),
                (paths.tag_dir, TAG_PREFIX),
                (paths.changelog_dir, CHANGELOG_PREFIX),
            )
            for file in self.io.list_dir(folder)
        )

    def all_with_main(self) -> list[str]:
        """The main branch and all others: what reachability has to look at."""
        return [MAIN_BRANCH, *self.names()]

    def exists(self, name: str) -> bool:
        return name == MAIN_BRANCH or name in self.names()

    def check_new(self, name: str, *, tag: str | None = None) -> None:
        """InvalidArgument for a name that Java refuses, AlreadyExists for one that is taken.

        One whose creation from the same tag was interrupted is not taken.
        """
        check_branch_name(name)
        if not self.exists(name):
            return
        begun = self._begun(name)
        if begun is None:
            raise AlreadyExists(
                f"branch {name!r} of table {self.table} exists already", table=self.table
            )
        if begun != (tag or ""):
            raise AlreadyExists(
                f"branch {name!r} of table {self.table} was begun "
                + (f"at tag {begun!r}" if begun else "empty")
                + " and not finished",
                table=self.table,
                next_step="create it so again, or delete it first",
            )

    def create(self, name: str, *, tag: str | None = None) -> None:
        """Make a branch: empty with the newest schema, or at the snapshot of a tag.

        InvalidArgument for a name that Java refuses (main, blank, digits only), AlreadyExists,
        NotFound for the tag or a table without schema.  Interrupted, it can be called again.
        """
        self.check_new(name, tag=tag)
        target = self.paths.of_branch(name)
        tagged = None if tag is None else TagStore(self.io, self.paths, self.table).get(tag)
        marker = f"{self.paths.branch_dir(name)}/{_CREATING}"
        self.io.overwrite(marker, (tag or "").encode())
        self._copy_schemas(target, None if tagged is None else tagged.snapshot.schema_id)
        if tag is not None and tagged is not None:
            self.io.overwrite(target.tag(tag), self.io.read_bytes(self.paths.tag(tag)))
            # Java copies the snapshot's file, and so fails once the snapshot has expired.
            snapshot = without_lost_changelog(self.io, self.paths, tagged.snapshot)
            self.io.overwrite(target.snapshot(snapshot.id), snapshot_to_json(snapshot).encode())
        self.io.delete(marker)

    def _begun(self, name: str) -> str | None:
        """The tag of a creation that was interrupted, "" for one without; None for a whole branch."""
        try:
            marker = f"{self.paths.branch_dir(name)}/{_CREATING}"
            return read_whole(self.io, marker, table=self.table).decode(errors="replace")
        except FileNotFoundError:
            return None

    def delete(self, name: str) -> None:
        """Delete the branch's metadata; NotFound if there is none.  Its data become orphans."""
        if name == MAIN_BRANCH:
            raise InvalidArgument("the main branch cannot be deleted")
        if not self.exists(name):
            raise self._not_found(name)
        self.io.delete_dir(self.paths.branch_dir(name))

    def rename(self, name: str, new_name: str) -> None:
        """Give the branch another name; NotFound, AlreadyExists, InvalidArgument."""
        if name == MAIN_BRANCH:
            raise InvalidArgument("the main branch cannot be renamed")
        check_branch_name(new_name)
        if not self.exists(name):
            raise self._not_found(name)
        if self.exists(new_name) or not self.io.rename(
            self.paths.branch_dir(name), self.paths.branch_dir(new_name)
        ):
            raise AlreadyExists(
                f"branch {new_name!r} of table {self.table} exists already", table=self.table
            )

    def _copy_schemas(self, target: TablePaths, newest: int | None) -> None:
        listed = self.io.list_dir(self.paths.schema_dir)
        numbered = ((file_number(f.name.removeprefix(SCHEMA_PREFIX)), f.path) for f in listed)
        names = sorted((number, path) for number, path in numbered if number is not None)
        if not names:
            raise NotFound(f"table {self.table} has no schema", table=self.table)
        for schema_id, path in names:
            if newest is None or schema_id <= newest:
                self.io.overwrite(target.schema(schema_id), self.io.read_bytes(path))

    def _not_found(self, name: str) -> NotFound:
        return NotFound(f"branch {name!r} of table {self.table} does not exist", table=self.table)


def check_branch_name(name: str) -> None:
    """InvalidArgument for a name that a branch must not have (Java: `validateBranch`)."""
    if name == MAIN_BRANCH:
        raise InvalidArgument("'main' is the name of the main branch")
    if not name.strip():
        raise InvalidArgument("the name of a branch must not be blank")
    if name.isdigit():
        raise InvalidArgument(f"the name of a branch must not be a number: {name!r}")
    if "/" in name or "\0" in name:
        raise InvalidArgument(f"the name of a branch must not hold a slash or NUL: {name!r}")
