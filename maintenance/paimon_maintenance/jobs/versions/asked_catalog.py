"""Looks whether a catalog that removes snapshots itself has done so."""

from __future__ import annotations

from collections.abc import Iterable

from paimon_core.errors import StorageError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.reachability.references import Reference, RefKind
from paimon_core.snapshot.snapshot import Snapshot


def prove_moved(table: FileStoreTable, latest: Snapshot | None, going: Iterable[Reference]) -> None:
    """StorageError if `latest`, which was to go, is still the newest snapshot.

    A proxy may answer 200 without a word of the server's.
    """
    gone = {r.snapshot.identity for r in going if r.kind is RefKind.SNAPSHOT}
    if latest is None or latest.identity not in gone:
        return
    now = table.snapshots.latest()
    if now is None or now.identity != latest.identity:
        return
    raise StorageError(
        f"{table.snapshots.owner} reported success, but snapshot {latest.id} is still the newest of "
        f"table {table.name}",
        table=table.name,
        snapshot=latest.id,
        next_step="check what answers at the option uri, then run again",
    )
