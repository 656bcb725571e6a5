"""Overwrites of the branches of a chain table, whose partitions need each other.

Java: `metastore/ChainTableCommitPreCallback`, `metastore/ChainTableOverwriteCommitCallback`.

A partition of the snapshot branch is dropped only if no delta needs it: no partition of the delta
branch follows it, or an earlier partition of the snapshot branch takes its place as anchor.  An
overwrite of the delta branch drops the same partitions of the snapshot branch, which are outdated
then.  Java finds only after the commit that it may not; here the overwrite is refused before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from paimon_core.commit import overwrite
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.overwrite import Check, PartitionTest
from paimon_core.environment import Environment
from paimon_core.errors import InvalidArgument
from paimon_core.features import ChainRole, chain_role
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.chain.partitions import ChainKeys, Values, byte_order
from paimon_core.table.chain.read import branch_of_chain


def replace_partitions(
    table: FileStoreTable,
    test: PartitionTest | None,
    *,
    user: str,
    env: Environment,
    check: Check | None = None,
) -> Snapshot:
    """Empty the partitions that pass `test`, also of chains; as `overwrite.replace_partitions`.

    InvalidArgument if deltas need one of the partitions.
    """
    chain = ChainOverwrite.of(table)
    made = overwrite.replace_partitions(
        table, test, user=user, env=env, check=check_with_chain(chain, check)
    )
    if chain is not None:
        chain.follow(env)
    return made


def check_with_chain(chain: ChainOverwrite | None, check: Check | None) -> Check | None:
    """Return the check of an overwrite: that of the chain, and `check`."""
    if chain is None or check is None:
        return check if chain is None else chain.check

    def both(changes: ManifestChanges) -> None:
        check(changes)
        chain.check(changes)

    return both


@dataclass(slots=True)
class ChainOverwrite:
    """One overwrite of a chain table's branch: `check` goes with the commit, `follow` after it."""

    table: FileStoreTable
    role: ChainRole
    _changed: frozenset[bytes] = field(default_factory=frozenset)

    @staticmethod
    def of(table: FileStoreTable) -> ChainOverwrite | None:
        """None for tables that are no such branch."""
        role = chain_role(table)
        return None if role is None else ChainOverwrite(table, role)

    def check(self, changes: ManifestChanges) -> None:
        """Raise InvalidArgument if these changes drop a partition that deltas need."""
        self._changed = frozenset(e.partition for e in changes.files)
        if self.role is ChainRole.DELTA:
            snapshot = self._branch(ChainRole.SNAPSHOT)
            new = {e.partition for e in changes.files if e.kind is FileKind.ADD}
            deltas = (_partitions(self.table) - self._changed) | new
            going = self._changed & _partitions(snapshot)
            _check_not_needed(snapshot, self.table.branch, deltas, going)
            return
        kinds = {e.kind for e in changes.files} | {e.kind for e in changes.index_files}
        if kinds <= {FileKind.DELETE}:
            gone = self._changed | {e.partition for e in changes.index_files}
            delta = self._branch(ChainRole.DELTA)
            _check_not_needed(self.table, delta.branch, _partitions(delta), gone)

    def follow(self, env: Environment) -> None:
        """After an overwrite of the delta branch, drop its partitions from the snapshot branch."""
        if self.role is not ChainRole.DELTA or not self._changed:
            return
        replace_partitions(
            self._branch(ChainRole.SNAPSHOT),
            self._changed.__contains__,
            user=env.new_uuid(),
            env=env,
        )

    def _branch(self, role: ChainRole) -> FileStoreTable:
        name = self.table.options.get(role, "").strip()
        if not name:
            raise InvalidArgument(
                f"branch {self.table.branch} of chain table {self.table.name} lacks the option {role}",
                table=self.table.name,
                next_step=f"set {role} on the table and on both branches",
            )
        return branch_of_chain(self.table, name)


def _check_not_needed(
    snapshot: FileStoreTable, branch: str, deltas: Collection[bytes], going: Collection[bytes]
) -> None:
    """Raise InvalidArgument if one of the `deltas`, of that branch, needs what is going."""
    if not going:
        return
    keys = ChainKeys.of(snapshot)
    anchors = _by_group(keys, _partitions(snapshot))
    following = _by_group(keys, deltas)
    for partition in sorted(going):
        group, values = keys.divided(partition)
        own = byte_order(values)
        others = [byte_order(v) for v in anchors.get(group, ())]
        if any(other < own for other in others):
            continue
        end = min((other for other in others if other > own), default=None)
        later = [byte_order(v) for v in following.get(group, ())]
        needing = [v for v in later if v > own and (end is None or v < end)]
        if needing:
            raise InvalidArgument(
                f"Snapshot partition cannot be dropped: {b','.join(min(needing)).decode()} of branch "
                f"{branch} needs {','.join(values)} of branch {snapshot.branch}",
                table=snapshot.name,
                next_step="write a complete partition before it, or drop the deltas first",
            )


def _partitions(table: FileStoreTable) -> set[bytes]:
    latest = table.snapshots.latest()
    return set() if latest is None else {e.partition for e in scan_files(table, latest)}


def _by_group(
    keys: ChainKeys, partitions: Collection[bytes]
) -> Mapping[tuple[object, ...], Sequence[Values]]:
    groups: dict[tuple[object, ...], list[Values]] = {}
    for partition in partitions:
        group, values = keys.divided(partition)
        groups.setdefault(group, []).append(values)
    return groups
