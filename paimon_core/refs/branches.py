"""Branches: lines of metadata that share the table's data (Java: `utils/FileSystemBranchManager`).

A branch is a folder `branch/branch-NAME` with schemas, snapshots and tags of its own.  Whatever
deletes files of a table has to look at all its branches.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_core.errors import AlreadyExists, InvalidArgument, NotFound
from paimon_core.io.file_io import FileIO
from paimon_core.paths import BRANCH_PREFIX, MAIN_BRANCH, TablePaths
from paimon_core.refs.tags import TagStore
from paimon_core.snapshot.snapshot_json import snapshot_to_json


@dataclass(frozen=True, slots=True)
class BranchStore:
    """The branches of a table besides main; made and renamed from the branch of `paths`."""

    io: FileIO
    paths: TablePaths
    table: str

    def names(self) -> list[str]:
        """All names, sorted; main, which is no folder, is not among them."""
        return sorted(
            f.name.removeprefix(BRANCH_PREFIX)
            for f in self.io.list_dir(self.paths.branches_dir)
            if f.is_dir and f.name.startswith(BRANCH_PREFIX)
        )

    def all_with_main(self) -> list[str]:
        """The main branch and all others: what reachability has to look at."""
        return [MAIN_BRANCH, *self.names()]

    def exists(self, name: str) -> bool:
        return name == MAIN_BRANCH or name in self.names()

    def create(self, name: str, *, tag: str | None = None) -> None:
        """Make a branch: empty with the newest schema, or at the snapshot of a tag.

        InvalidArgument for a name that Java refuses (main, blank, digits only), AlreadyExists,
        NotFound for the tag or a table without schema.  What an interruption leaves is an
        incomplete branch, which `delete` removes.
        """
        check_branch_name(name)
        if self.exists(name):
            raise AlreadyExists(
                f"branch {name!r} of table {self.table} exists already", table=self.table
            )
        target = self.paths.of_branch(name)
        if tag is None:
            self._copy_schemas(target, None)
            return
        tagged = TagStore(self.io, self.paths, self.table).get(tag)
        self._copy_schemas(target, tagged.snapshot.schema_id)
        self.io.overwrite(target.tag(tag), self.io.read_bytes(self.paths.tag(tag)))
        # The snapshot last: without it the branch is empty, with it complete.  (Java copies the
        # snapshot's file, and so fails once the snapshot has expired.)
        self.io.overwrite(
            target.snapshot(tagged.snapshot.id), snapshot_to_json(tagged.snapshot).encode()
        )

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
        names = sorted(
            (int(f.name.removeprefix("schema-")), f.path)
            for f in self.io.list_dir(self.paths.schema_dir)
            if f.name.removeprefix("schema-").isdigit()
        )
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
    if "/" in name:
        raise InvalidArgument(f"the name of a branch must not hold a slash: {name!r}")
