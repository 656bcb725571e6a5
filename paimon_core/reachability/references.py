"""Everything that keeps files of a table alive: snapshots, tags and changelogs of all branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from paimon_core.errors import CorruptTable, StalePlan
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import read_parallel
from paimon_core.paths import MAIN_BRANCH, table_paths
from paimon_core.refs.tags import Tag
from paimon_core.snapshot.snapshot import Snapshot

_LISTINGS: Final = 10


class RefKind(StrEnum):
    """The kind of a reference."""

    SNAPSHOT = "snapshot"
    TAG = "tag"
    CHANGELOG = "changelog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One snapshot, tag or changelog, and the table handle of its branch."""

    table: FileStoreTable
    kind: RefKind
    name: str
    snapshot: Snapshot

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of the reference, which differs even if a rollback reuses a snapshot id."""
        return (self.table.branch, self.kind, self.name, self.snapshot.identity)

    @property
    def label(self) -> str:
        """The text for messages: "snapshot 12", "tag t1 of branch b"."""
        place = "" if self.table.branch == MAIN_BRANCH else f" of branch {self.table.branch}"
        return f"{self.kind} {self.name}{place}"

    def is_alive(self) -> bool:
        """Return whether its file exists now and holds the snapshot that was read."""
        table = self.table
        match self.kind:
            case RefKind.TAG:
                tag = table.tags.get_or_none(self.name)
                now = None if tag is None else tag.snapshot
            case RefKind.CHANGELOG:
                now = table.changelogs.get_or_none(self.snapshot.id)
            case _:
                now = table.snapshots.get_or_none(self.snapshot.id)
        return now is not None and now.identity == self.snapshot.identity

    def prove_alive(self) -> None:
        """Raise StalePlan if the reference is not alive."""
        if not self.is_alive():
            raise StalePlan(
                f"{self.label} of table {self.table.name} was removed or replaced by another job",
                table=self.table.name,
                snapshot=self.snapshot.id,
                next_step="check what is left (`caretaker inspect`), then make a new plan",
            )


def on_branch(table: FileStoreTable, branch: str) -> FileStoreTable:
    """Return the table handle for another branch, with that branch's newest schema.

    Raises CorruptTable for a branch without a schema: nothing shows what its snapshots need, so a
    job that deletes must stop (as Java's orphan job does). An exception is a branch with only tags,
    which Java 1.4 leaves when it creates a branch from a tag whose snapshot has expired: it copies
    main's tag, then fails.  Its tags keep the files that they name, read with main's schemas.
    """
    if branch == table.branch:
        return table
    schemas = table.schemas.of_branch(branch)
    latest = schemas.latest()
    if latest is None and _holds_only_tags(table, branch):
        schemas = table.schemas.of_branch(MAIN_BRANCH)
        latest = schemas.latest()
    if latest is None:
        raise CorruptTable(
            f"branch {branch} of table {table.name} has no schema",
            table=table.name,
            file=table.paths.of_branch(branch).schema_dir,
            next_step=f"its creation did not finish: delete branch {branch}, or repair it",
        )
    schema = latest.with_options(table.dynamic_options)
    paths = table_paths(
        table.root,
        schema.partition_type,
        schema.options,
        branch=branch,
        limits=table.paths.limits,
    )
    return replace(
        table,
        branch=branch,
        schema=schema,
        schemas=schemas,
        paths=paths,
        snapshots=replace(table.snapshots, paths=paths),
        changelogs=replace(table.changelogs, paths=paths),
        tags=replace(table.tags, paths=paths),
        branches=replace(table.branches, paths=paths),
        consumers=replace(table.consumers, paths=paths),
    )


def _holds_only_tags(table: FileStoreTable, branch: str) -> bool:
    paths = table.paths.of_branch(branch)
    snapshots = replace(table.snapshots, paths=paths).ids()
    return not snapshots and not replace(table.changelogs, paths=paths).ids()


def branches_of(table: FileStoreTable) -> list[FileStoreTable]:
    """Return the table handle for every branch, main first."""
    return [on_branch(table, name) for name in table.branches.all_with_main()]


def references_of(branch: FileStoreTable) -> Iterator[Reference]:
    """Yield the snapshots (oldest first), then the tags, then the changelogs of one branch.

    References that expire while they are read are left out; CorruptTable for an unreadable one.
    """
    for snapshot in stable_snapshots(branch):
        yield snapshot_reference(branch, snapshot)
    for tag in branch.tags.all():
        yield tag_reference(branch, tag)
    for changelog in branch.changelogs.all():
        yield changelog_reference(branch, changelog)


def stable_snapshots(branch: FileStoreTable) -> list[Snapshot]:
    """Return all snapshots, oldest first; list again until a listing names no unread snapshot.

    One listing is not enough: if all of its snapshots expire before they are read, none is left
    although the table has newer ones, and everything would look like garbage (apache/paimon #7710).
    """
    known: dict[int, Snapshot] = {}
    for _ in range(_LISTINGS):
        ids = branch.snapshots.ids()
        new = [i for i in ids if i not in known]
        if not new:
            return [known[i] for i in ids]
        read = read_parallel(branch.io, branch.snapshots.get_or_none, new)
        known.update({s.id: s for s in read if s is not None})
    raise CorruptTable(
        f"the snapshots of table {branch.name} change faster than they can be read",
        table=branch.name,
        next_step="run again",
    )


def all_references(table: FileStoreTable) -> list[Reference]:
    """Return all references of all branches.

    Snapshots are read before tags and changelogs, so whatever moves from one to the other meanwhile
    (a tag of a snapshot that expires, a changelog that is kept) is found in one of them.
    """
    return [r for branch in branches_of(table) for r in references_of(branch)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedList:
    """A manifest list that two different versions name."""

    name: str
    owners: tuple[Reference, Reference]

    @property
    def problem(self) -> str:
        """What is wrong, for a message."""
        first, second = self.owners
        return (
            f"{first.label} and {second.label} name the same manifest list {self.name}, so one of "
            "them has lost its own"
        )


@dataclass(slots=True)
class ListOwners:
    """Which version names which manifest list.

    Each commit writes lists of its own.  Copies of a snapshot, in tags, branches and changelogs,
    have its identity.
    """

    _owners: dict[str, Reference] = field(default_factory=dict)

    def shared(self, reference: Reference) -> SharedList | None:
        """Note the lists of a reference; return one that another version names, None without."""
        snapshot = reference.snapshot
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            owner = self._owners.setdefault(name, reference)
            if owner.snapshot.identity != snapshot.identity:
                return SharedList(name=name, owners=(owner, reference))
        return None


def check_own_lists(table: FileStoreTable, references: Iterable[Reference]) -> None:
    """Raise CorruptTable if two versions that are alive name the same manifest list.

    For jobs that delete: nothing mentions the own lists of one of them, and what they name.
    """
    shared = next(filter(None, map(ListOwners().shared, references)), None)
    if shared is None or not all(owner.is_alive() for owner in shared.owners):
        return
    raise CorruptTable(
        f"table {table.name}: {shared.problem}",
        table=table.name,
        file=table.paths.manifest(shared.name),
        snapshot=shared.owners[1].snapshot.id,
        next_step="run `caretaker verify`, then restore the file of that version from a backup, or "
        "delete the version",
    )


def settled_references(table: FileStoreTable) -> list[Reference]:
    """Return all references as `all_references`, so that none is missed that moves meanwhile.

    A tag that is renamed, or a branch that takes the place of main, may be missed under both of its
    names in one reading.  But then the reading before has it, and it seems to be lost.
    """
    before = all_references(table)
    for _ in range(_LISTINGS):
        now = all_references(table)
        if not any(_may_have_moved(r, now) for r in without(before, now)):
            return now
        before = now
    raise CorruptTable(
        f"the tags and branches of table {table.name} change faster than they can be read",
        table=table.name,
        next_step="run again",
    )


def _may_have_moved(lost: Reference, left: Iterable[Reference]) -> bool:
    """Return whether the reference did not just expire, as the oldest snapshots of a branch do."""
    return lost.kind is not RefKind.SNAPSHOT or not any(
        r.kind is RefKind.SNAPSHOT
        and r.table.branch == lost.table.branch
        and r.snapshot.id > lost.snapshot.id
        for r in left
    )


def reference_names(table: FileStoreTable) -> frozenset[tuple[str, RefKind, str]]:
    """Return branch, kind and name of all references, from listings alone."""
    found: set[tuple[str, RefKind, str]] = set()
    for branch in table.branches.all_with_main():
        paths = table.paths.of_branch(branch)
        names = {
            RefKind.SNAPSHOT: map(str, replace(table.snapshots, paths=paths).ids()),
            RefKind.TAG: replace(table.tags, paths=paths).names(),
            RefKind.CHANGELOG: map(str, replace(table.changelogs, paths=paths).ids()),
        }
        found |= {(branch, kind, name) for kind, all_of in names.items() for name in all_of}
    return frozenset(found)


def tag_reference(table: FileStoreTable, tag: Tag) -> Reference:
    return Reference(table=table, kind=RefKind.TAG, name=tag.name, snapshot=tag.snapshot)


def snapshot_reference(table: FileStoreTable, snapshot: Snapshot) -> Reference:
    return Reference(table=table, kind=RefKind.SNAPSHOT, name=str(snapshot.id), snapshot=snapshot)


def changelog_reference(table: FileStoreTable, snapshot: Snapshot) -> Reference:
    return Reference(table=table, kind=RefKind.CHANGELOG, name=str(snapshot.id), snapshot=snapshot)


def without(references: Iterable[Reference], gone: Iterable[Reference]) -> list[Reference]:
    """Return the references except those in `gone`."""
    keys = {r.key for r in gone}
    return [r for r in references if r.key not in keys]
