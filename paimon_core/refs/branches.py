"""Branches: separate metadata, shared data files (Java: `utils/FileSystemBranchManager`).

A branch is a folder `branch/branch-NAME` with its own schemas, snapshots and tags.  Every job that
deletes files of a table must check all its branches.

A new branch holds the file `.creating` until it is complete, so that an interrupted creation can be
resumed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from paimon_core.errors import (
    SEE_INSPECT,
    CorruptTable,
    InvalidArgument,
    NotFound,
    ReferenceExists,
    StalePlan,
)
from paimon_core.io.file_io import FileIO, map_parallel, renames_atomically
from paimon_core.io.named_files import check_is_folder, files_named
from paimon_core.io.read_retry import read_whole
from paimon_core.manifest.manifest_list import read_manifest_list
from paimon_core.paths import (
    BRANCH_PREFIX,
    CHANGELOG_PREFIX,
    MAIN_BRANCH,
    SCHEMA_PREFIX,
    SNAPSHOT_PREFIX,
    TAG_PREFIX,
    TablePaths,
)
from paimon_core.refs.tags import Tag, TagStore, tag_to_json
from paimon_core.schema.store import SchemaStore
from paimon_core.snapshot.changelog import without_lost_changelog
from paimon_core.snapshot.metadata_files import first_missing_metadata
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.snapshot_json import snapshot_from_json, snapshot_to_json
from paimon_core.snapshot.store import SnapshotStore

_CREATING: Final = ".creating"
_LOOKS: Final = 5
"""The number of checks for commits that land in a folder while it is deleted or moved."""


@dataclass(frozen=True, slots=True)
class BranchStore:
    """The branches of a table besides main; creates and renames them from the branch of `paths`."""

    io: FileIO
    paths: TablePaths
    table: str

    def names(self) -> list[str]:
        """Return all names, sorted, without main, which has no folder.

        A folder without schema, snapshot, tag or changelog is left out too: an interrupted deletion
        leaves it behind, and it needs no file of the table.  CorruptTable for what is no folder.
        """
        folders = files_named(self.io, self.paths.branches_dir, BRANCH_PREFIX)
        for folder in folders:
            check_is_folder(folder, self.table)
        names = sorted(f.name.removeprefix(BRANCH_PREFIX) for f in folders)
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
        """Return the main branch and all others: the branches that reachability must check."""
        return [MAIN_BRANCH, *self.names()]

    def exists(self, name: str) -> bool:
        return name == MAIN_BRANCH or name in self.names()

    def check_new(self, name: str, *, tag: str | None) -> None:
        """Raise InvalidArgument for a name that Java refuses, ReferenceExists for one in use.

        A name is not in use if its creation from the same tag was interrupted.
        """
        check_branch_name(name)
        if not self.exists(name):
            return
        begun = self.begun(name)
        if begun is None:
            raise self._in_use(name)
        if begun != (tag or ""):
            raise ReferenceExists(
                f"branch {name!r} of table {self.table} was started "
                + (f"at tag {begun!r}" if begun else "empty")
                + " and not finished",
                table=self.table,
                next_step="create it with the same source again, or delete it first",
            )

    def create(
        self, name: str, *, tag: str | None = None, expected: Snapshot | None = None
    ) -> None:
        """Create a branch: empty with the newest schema, or at the snapshot of a tag.

        `expected` is the snapshot that the tag had at planning time.  The tag and the metadata of
        its snapshot are checked before anything is written, and again when the branch holds its own
        references: a later deletion of the tag finds these and keeps their files.  If the tag was
        deleted in between, the branch is removed again.

        Raises InvalidArgument for a name that Java refuses (main, blank, digits only),
        ReferenceExists, NotFound for a missing tag or a table without schema, StalePlan for a tag
        that was moved or a schema that was deleted meanwhile, CorruptTable for an unreadable tag.
        After an interruption it can be called again.
        """
        self.check_new(name, tag=tag)
        tags = TagStore(self.io, self.paths, self.table)
        source = None
        if tag is not None:
            source = tags.get(tag)
            if expected is not None and source.snapshot.identity != expected.identity:
                raise self._moved(tag)
            self._check_metadata(source.snapshot)
        marker = f"{self.paths.branch_dir(name)}/{_CREATING}"
        self.io.create_if_absent(marker, (tag or "").encode())
        try:
            self._copy(name, source)
            if source is not None:
                now = tags.get(source.name)
                if now.snapshot.identity != source.snapshot.identity:
                    raise self._moved(source.name)
                self._check_metadata(source.snapshot)
        except (NotFound, StalePlan, CorruptTable):
            self._revert(name, source)
            raise
        self.io.delete(marker)

    def begun(self, name: str) -> str | None:
        """Return the tag of an interrupted creation, "" without a tag.

        None for a complete branch.
        """
        if name == MAIN_BRANCH:
            return None
        try:
            marker = f"{self.paths.branch_dir(name)}/{_CREATING}"
            return read_whole(self.io, marker, table=self.table).decode(errors="replace")
        except FileNotFoundError:
            return None

    def _copy(self, name: str, source: Tag | None) -> None:
        """Write the branch's files, schemas first: a branch without one stops other jobs."""
        target = self.paths.of_branch(name)
        self._copy_schemas(target, None if source is None else source.snapshot.schema_id)
        if source is None:
            return
        self._put(target.tag(source.name), tag_to_json(source).encode(), name)
        # Java copies the snapshot file, so it fails once the snapshot has expired.
        snapshot = without_lost_changelog(self.io, self.paths, source.snapshot)
        if self._snapshots(target)[:1] not in ([], [snapshot.id]):
            raise self._taken(name)
        self._put(target.snapshot(snapshot.id), snapshot_to_json(snapshot).encode(), name)
        if self._snapshots(target)[:1] != [snapshot.id]:
            # A writer found the branch empty and committed snapshot 1: the branch belongs to it.
            self.io.delete(target.snapshot(snapshot.id))
            raise self._taken(name)

    def _copy_schemas(self, target: TablePaths, newest: int | None) -> None:
        schemas = SchemaStore(self.io, self.paths, self.table)
        ids = schemas.ids()
        if not ids:
            raise NotFound(f"table {self.table} has no schema", table=self.table)
        if newest is not None and newest not in ids:
            raise CorruptTable(
                f"schema {newest} of table {self.table} is missing",
                table=self.table,
                file=self.paths.schema(newest),
            )
        for schema_id in ids:
            if newest is not None and schema_id > newest:
                break
            try:
                content = self.io.read_bytes(self.paths.schema(schema_id))
            except FileNotFoundError as e:
                raise StalePlan(
                    f"schema {schema_id} of table {self.table} was deleted while the branch was created",
                    table=self.table,
                    next_step="another job replaces the schemas; run again when it is done",
                ) from e
            self._put(target.schema(schema_id), content, target.branch)

    def _put(self, path: str, content: bytes, branch: str) -> None:
        """Write a file of the branch; ReferenceExists if it exists with other content.

        Only a snapshot or tag of the same identity is replaced: an earlier attempt wrote it.
        """
        if self.io.create_if_absent(path, content):
            return
        there = self.io.read_bytes(path)
        if there == content:
            return
        with suppress(ValueError, KeyError, TypeError):
            if snapshot_from_json(there).identity == snapshot_from_json(content).identity:
                self.io.overwrite(path, content)
                return
        raise self._taken(branch)

    def _check_metadata(self, snapshot: Snapshot) -> None:
        """CorruptTable unless every metadata file that a reader of the snapshot needs exists."""
        missing = first_missing_metadata(
            self.io,
            self.paths,
            snapshot,
            lambda name: read_manifest_list(self.io, self.paths.manifest(name)),
        )
        if missing is not None:
            raise self._hollow(snapshot, missing)

    def _revert(self, name: str, source: Tag | None) -> None:
        """Delete an incomplete branch; StalePlan if another process wrote to it meanwhile.

        References are deleted first: a branch with only schemas needs no file of the table.
        """
        target = self.paths.of_branch(name)
        mine = [] if source is None else [source.snapshot.id]
        if set(self._snapshots(target)) - set(mine):
            raise StalePlan(
                f"branch {name!r} of table {self.table} lost the tag that it starts from, and "
                "another process has already committed to it",
                table=self.table,
                next_step=f"stop its writers, check it with `caretaker verify`, then run "
                f"delete_branch for {name!r}",
            )
        for folder in (target.snapshot_dir, target.tag_dir, target.schema_dir):
            self.io.delete_dir(folder)
        self.io.delete_dir(self.paths.branch_dir(name))

    def _snapshots(self, target: TablePaths) -> list[int]:
        return SnapshotStore(self.io, target, self.table).ids()

    def _moved(self, tag: str) -> StalePlan:
        return StalePlan(
            f"tag {tag!r} of table {self.table} was moved to another snapshot while a branch was "
            "made from it",
            table=self.table,
        )

    def _hollow(self, snapshot: Snapshot, path: str) -> CorruptTable:
        return CorruptTable(
            f"metadata file {path} of table {self.table} is missing, which the tagged snapshot "
            f"{snapshot.id} needs",
            table=self.table,
            file=path,
            snapshot=snapshot.id,
            next_step="run `caretaker verify` on the table; no branch was created",
        )

    def _taken(self, name: str) -> ReferenceExists:
        return ReferenceExists(
            f"another process wrote to branch {name!r} of table {self.table} during its creation",
            table=self.table,
            next_step="check it with `caretaker verify`; delete it first if it is not needed",
        )

    def delete(self, name: str) -> None:
        """Delete the branch's metadata; NotFound if it does not exist.

        Its data files become orphans.

        A commit that lands meanwhile is deleted too: alone it would be an unreadable branch.  One
        that lands later finds no base and reverts itself.  Raises StalePlan if commits keep coming.
        """
        if name == MAIN_BRANCH:
            raise InvalidArgument("the main branch cannot be deleted")
        if not self.exists(name):
            raise self._not_found(name)
        for _ in range(_LOOKS):
            self.io.delete_dir(self.paths.branch_dir(name))
            if not self._holds_metadata(name):
                return
        raise StalePlan(
            f"branch {name!r} of table {self.table} is committed to while it is deleted",
            table=self.table,
            next_step=f"stop the writers of branch {name!r}, then run delete_branch again",
        )

    def rename(self, name: str, new_name: str) -> None:
        """Rename the branch; NotFound, ReferenceExists, InvalidArgument.

        On object stores, files move one by one, and the same call finishes a rename that was
        interrupted.  A commit that lands under the old name meanwhile is moved too; one that lands
        later finds no base and reverts itself.
        """
        if name == MAIN_BRANCH:
            raise InvalidArgument("the main branch cannot be renamed")
        if not self.exists(name):
            raise self._not_found(name)
        self.check_free(name, new_name)
        try:
            done = self.io.rename(self.paths.branch_dir(name), self.paths.branch_dir(new_name))
        except FileNotFoundError as e:  # another client has renamed or deleted it meanwhile
            raise self._not_found(name) from e
        if not done:
            raise self._in_use(new_name)
        self._move_stragglers(self.paths.of_branch(name), self.paths.of_branch(new_name))

    def check_free(self, name: str, new_name: str) -> None:
        """Raise InvalidArgument for a new name that Java refuses, ReferenceExists for one in use.

        One is not in use that an interrupted rename has left on an object store: the copies of the
        schemas come last, and the originals go first, so one of the two branches has none.
        """
        check_branch_name(new_name)
        if not self.exists(new_name):
            return
        of_both = [self.paths.of_branch(n).schema_dir for n in (name, new_name)]
        atomic = renames_atomically(self.paths.branch_dir(name))
        if atomic or all(self.io.list_dir(folder) for folder in of_both):
            raise self._in_use(new_name)

    def _in_use(self, name: str) -> ReferenceExists:
        return ReferenceExists(
            f"branch {name!r} of table {self.table} already exists", table=self.table
        )

    def _move_stragglers(self, source: TablePaths, target: TablePaths) -> None:
        for _ in range(_LOOKS):
            left = self._snapshots(source)
            if not left:
                return
            following = max(self._snapshots(target), default=0) + 1
            if following not in left:
                return  # it builds on no moved snapshot: its writer reverts it
            try:
                content = self.io.read_bytes(source.snapshot(following))
            except FileNotFoundError:
                continue
            self.io.create_if_absent(target.snapshot(following), content)
            self.io.delete(source.snapshot(following))

    def _not_found(self, name: str) -> NotFound:
        return NotFound(
            f"branch {name!r} of table {self.table} does not exist",
            table=self.table,
            next_step=SEE_INSPECT,
        )


def check_branch_name(name: str) -> None:
    """Raise InvalidArgument for an invalid branch name (Java: `validateBranch`)."""
    if name == MAIN_BRANCH:
        raise InvalidArgument("'main' is the name of the main branch")
    if not name.strip():
        raise InvalidArgument("the name of a branch must not be blank")
    if name.isdigit():
        raise InvalidArgument(f"the name of a branch must not be a number: {name!r}")
    if "/" in name or "\0" in name:
        raise InvalidArgument(f"the name of a branch must not hold a slash or NUL: {name!r}")
