"""The fixes for findings.  Each fix checks its finding again right before the change.

A fix does nothing if its finding is gone.  Each fix is one write or one commit, so after a crash it
is done or not done, and the next repair continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.manifest_merge import with_full_merge
from paimon_core.commit.request import CommitRequest
from paimon_core.environment import Environment
from paimon_core.errors import CorruptTable, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import parent
from paimon_core.io.read_retry import read_whole
from paimon_core.lsm.key_order import stored_key_order
from paimon_core.manifest.data_file import FileKind, ManifestEntry
from paimon_core.manifest.manifest_list import read_manifest_list
from paimon_core.paths import MAIN_BRANCH
from paimon_core.refs.consumers import Consumer
from paimon_core.scan.key_bounds import is_clustered
from paimon_core.scan.manifests import LEAST_BLOCK_BYTES, read_entries
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.numbered_files import LATEST
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.snapshot.snapshot_json import snapshot_to_json
from paimon_maintenance.job.metadata_job import Action
from paimon_maintenance.job.text import counted
from paimon_maintenance.jobs.repair.lost_files import lost_action, lost_files, remove_lost
from paimon_maintenance.verify.findings import Repair
from paimon_maintenance.verify.references import RefKind


@dataclass(frozen=True, slots=True, kw_only=True)
class FixResult:
    """The result of a fix; no change if `text` is empty.  `snapshot` is its commit."""

    text: str = ""
    snapshot: int | None = None


class Fix(Protocol):
    """A fix in one branch of a table."""

    @property
    def repair(self) -> Repair:
        """The kind of repair."""

    @property
    def branch(self) -> FileStoreTable:
        """The branch to change."""

    def actions(self) -> list[Action]:
        """The actions for the plan."""

    def apply(self, *, user: str, env: Environment) -> FixResult:
        """Do it."""


def place(branch: FileStoreTable) -> str:
    """The branch for messages: " of branch b", "" for main."""
    return "" if branch.branch == MAIN_BRANCH else f" of branch {branch.branch}"


# --- hints and consumers ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HintFix:
    """A wrong LATEST or EARLIEST hint of snapshots or changelogs."""

    branch: FileStoreTable
    path: str
    why: str
    repair: Repair = Repair.REWRITE_HINT

    def actions(self) -> list[Action]:
        return [Action(f"rewrite hint {self._name}{place(self.branch)}", self.why)]

    def apply(self, *, user: str, env: Environment) -> FixResult:  # noqa: ARG002 - as every fix
        # Without the hint, readers list the folder, so deleting it is always safe.
        self.branch.io.delete(self.path)
        right = self._right()
        if right is None:
            return FixResult(text=f"hint {self._name} deleted")
        self.branch.io.overwrite(self.path, str(right).encode())
        if self._right() != right:
            self.branch.io.delete(self.path)
            return FixResult(text=f"hint {self._name}{place(self.branch)} deleted")
        return FixResult(text=f"hint {self._name}{place(self.branch)} is {right}")

    @property
    def _name(self) -> str:
        """The label of the hint: "LATEST", "changelog LATEST"."""
        name = self.path.rpartition("/")[2]
        return f"changelog {name}" if self._of_changelogs else name

    @property
    def _of_changelogs(self) -> bool:
        return parent(self.path) == self.branch.paths.changelog_dir

    def _right(self) -> int | None:
        """The correct value of the hint; None without snapshots."""
        ids = (self.branch.changelogs if self._of_changelogs else self.branch.snapshots).ids()
        if not ids:
            return None
        return max(ids) if self.path.endswith(f"/{LATEST}") else min(ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFix:
    """A consumer at a position that expired or was rolled back."""

    branch: FileStoreTable
    consumer: Consumer
    why: str
    repair: Repair = Repair.RESET_CONSUMER

    def actions(self) -> list[Action]:
        details = {"consumer": self.consumer.id, "old": self.consumer.next_snapshot}
        return [
            Action(f"move consumer {self.consumer.id!r}{place(self.branch)}", self.why, details)
        ]

    def apply(self, *, user: str, env: Environment) -> FixResult:  # noqa: ARG002 - as every fix
        try:
            now = self.branch.consumers.get(self.consumer.id)
        except NotFound:
            return FixResult()
        ids = self.branch.snapshots.ids()
        if now != self.consumer or not ids:
            return FixResult()
        earliest = min([*ids, *self.branch.changelogs.ids()])
        right = min(max(now.next_snapshot, earliest), max(ids) + 1)
        if right == now.next_snapshot:
            return FixResult()
        self.branch.consumers.set(now.id, right)
        return FixResult(
            text=f"consumer {now.id} moved from snapshot {now.next_snapshot} to {right}"
        )


# --- snapshots ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesFix:
    """A wrong manifest list size in a snapshot; Java reads only this number of bytes."""

    branch: FileStoreTable
    snapshot: Snapshot
    right: Snapshot
    why: str
    repair: Repair = Repair.CORRECT_SIZES

    def actions(self) -> list[Action]:
        what = f"write the actual sizes to snapshot {self.snapshot.id}{place(self.branch)}"
        return [Action(what, self.why, {"snapshot": self.snapshot.id})]

    def apply(self, *, user: str, env: Environment) -> FixResult:  # noqa: ARG002 - as every fix
        now = self.branch.snapshots.get_or_none(self.snapshot.id)
        if now != self.snapshot:
            return FixResult()
        path = self.branch.paths.snapshot(self.snapshot.id)
        content = snapshot_to_json(self.right).encode()
        self.branch.io.overwrite(path, content)
        if self._is_removed():
            self.branch.snapshots.delete_unchanged(self.snapshot.id, content)
            return FixResult()
        return FixResult(text=f"sizes of snapshot {self.snapshot.id} corrected")

    def _is_removed(self) -> bool:
        """Whether an expiry or a rollback removed the snapshot right before it was written again.

        Its manifest lists, which were there, are gone then, or its neighbours are.
        """
        number, ids = self.snapshot.id, self.branch.snapshots.ids()
        if len(ids) > 1 and not {number - 1, number + 1} & set(ids):
            return True
        lists = (self.right.base_manifest_list, self.right.delta_manifest_list)
        return not all(self.branch.io.exists(self.branch.paths.manifest(n)) for n in lists)


def _contradicts(snapshot: Snapshot, rows: Mapping[str, int]) -> bool:
    """Whether the snapshot counts other records than its lists, by part, have."""
    pairs = [
        (snapshot.delta_record_count, rows.get("delta")),
        (snapshot.changelog_record_count, rows.get("changelog")),
    ]
    if {"base", "delta"} <= rows.keys():
        pairs.append((snapshot.total_record_count, rows["base"] + rows["delta"]))
    return any(told is not None and real is not None and told != real for told, real in pairs)


def _rows(entries: Iterable[ManifestEntry]) -> int:
    return sum(e.file.row_count if e.kind is FileKind.ADD else -e.file.row_count for e in entries)


def with_true_sizes(branch: FileStoreTable, snapshot: Snapshot) -> Snapshot | None:
    """The snapshot with the actual sizes of its manifest lists; None without a difference.

    Also None if one of the lists is missing, corrupt or shorter than the snapshot says, because the
    size is then not the problem: a list that was cut between two blocks reads like a whole one.
    And if the lists are not those of the snapshot by its numbers of records: with their sizes in
    the snapshot, jobs would believe them.
    """
    sizes: dict[str, int] = {}
    rows: dict[str, int] = {}
    for part in ("base", "delta", "changelog"):
        name = getattr(snapshot, f"{part}_manifest_list")
        size = getattr(snapshot, f"{part}_manifest_list_size")
        if name is None or size is None:
            continue
        try:
            found = read_manifest_list(branch.io, branch.paths.manifest(name))
            rows[part] = sum(_rows(read_entries(branch, meta)) for meta in found)
        except (FileNotFoundError, CorruptTable):
            return None
        if found.size <= size - LEAST_BLOCK_BYTES:
            return None
        sizes[f"{part}_manifest_list_size"] = found.size
    if _contradicts(snapshot, rows):
        return None
    right = replace(snapshot, **sizes)  # type: ignore[arg-type]  # sizes of lists only
    return None if right == snapshot else right


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceFix:
    """A tag or changelog with missing files, or an unreadable snapshot file.

    `content` is the content of its file at the time of the finding; other content is another
    reference.
    """

    branch: FileStoreTable
    kind: RefKind
    name: str
    why: str
    content: bytes
    repair: Repair = Repair.DELETE_REFERENCE

    def actions(self) -> list[Action]:
        return [Action(f"delete {self.kind} {self.name}{place(self.branch)}", self.why)]

    def apply(self, *, user: str, env: Environment) -> FixResult:  # noqa: ARG002 - as every fix
        if reference_content(self.branch, self.kind, self.name) != self.content:
            return FixResult()
        if self.kind is RefKind.TAG:
            self.branch.tags.delete(self.name)
        elif self.kind is RefKind.CHANGELOG:
            self.branch.changelogs.delete(int(self.name))
            self.branch.changelogs.delete_hints()
        else:
            self._delete_snapshot(int(self.name))
        return FixResult(text=f"{self.kind} {self.name} deleted")

    def _delete_snapshot(self, number: int) -> None:
        """Delete the snapshot; the hint first if it is the newest, as a rollback does."""
        snapshots = self.branch.snapshots
        left = [i for i in snapshots.ids() if i != number]
        if left and number > max(left):
            snapshots.write_latest_hint(max(left))
        snapshots.delete(number)
        if left and number < min(left):
            snapshots.write_earliest_hint(min(left))


def reference_content(branch: FileStoreTable, kind: RefKind, name: str) -> bytes | None:
    """The content of the file of a snapshot, tag or changelog; None if it does not exist."""
    paths = branch.paths
    if kind is RefKind.TAG:
        path = paths.tag(name)
    else:
        path = paths.snapshot(int(name)) if kind is RefKind.SNAPSHOT else paths.changelog(int(name))
    try:
        return read_whole(branch.io, path, table=branch.name)
    except FileNotFoundError:
        return None


# --- data files ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFilesFix:
    """Missing live data files of the newest snapshot."""

    branch: FileStoreTable
    lost: tuple[ManifestEntry, ...]
    repair: Repair = Repair.REMOVE_UNEXISTING_FILES

    def actions(self) -> list[Action]:
        return [lost_action(self.branch, entry) for entry in self.lost]

    def apply(self, *, user: str, env: Environment) -> FixResult:
        latest = self.branch.latest_or_not_found()
        lost = lost_files(self.branch, scan_files(self.branch, latest))
        planned = {e.identity for e in self.lost}
        still = [e for e in lost if e.identity in planned]
        made = remove_lost(self.branch, still, user=user, env=env)
        if made is None:
            return FixResult()
        return FixResult(text=f"{len(still)} missing files removed", snapshot=made.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapFix:
    """Files of a level >= 1 with overlapping keys; readers treat such a level as one sorted run.

    In level 0 each file is a separate run, so readers and the next compaction merge the files.
    """

    branch: FileStoreTable
    files: tuple[ManifestEntry, ...]
    repair: Repair = Repair.MOVE_DOWN

    def actions(self) -> list[Action]:
        return [
            Action(
                f"move {e.file.file_name}{place(self.branch)} from level {e.file.level} to 0",
                "its keys overlap with those of another file of the level",
                {"file": e.file.file_name, "level": e.file.level, "bucket": e.bucket},
            )
            for e in self.files
        ]

    def apply(self, *, user: str, env: Environment) -> FixResult:
        latest = self.branch.latest_or_not_found()
        live = {e.identity for e in scan_files(self.branch, latest)}
        moving = [e for e in self.files if e.identity in live]
        if not moving:
            return FixResult()
        down = [replace(e, file=replace(e.file, level=0)) for e in moving]
        changes = ManifestChanges((*(e.as_delete() for e in moving), *down))
        made = commit_changes(
            with_full_merge(self.branch),
            lambda _: changes,
            CommitRequest(user=user, kind=CommitKind.COMPACT),
            env=env,
        )
        return FixResult(text=f"{counted(len(moving), 'files')} moved to level 0", snapshot=made.id)


def overlapping(branch: FileStoreTable, live: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """The files to move, so that the remaining files of each level do not overlap.

    None where the levels are not sorted by key.
    """
    if is_clustered(branch):
        return []
    order = stored_key_order(branch.schema.key_type)
    runs: dict[tuple[bytes, int, int], list[ManifestEntry]] = {}
    for entry in live:
        if entry.file.level > 0:
            runs.setdefault((entry.partition, entry.bucket, entry.file.level), []).append(entry)
    found: dict[object, ManifestEntry] = {}
    for files in runs.values():
        files.sort(key=lambda e: order(e.file.min_key))
        reach = files[0]
        for left, right in pairwise(files):
            if order(left.file.max_key) > order(reach.file.max_key):
                reach = left
            if order(right.file.min_key) <= order(reach.file.max_key):
                found[reach.identity] = reach
                found[right.identity] = right
    return list(found.values())
