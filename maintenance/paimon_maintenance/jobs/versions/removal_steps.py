"""The steps of every job that removes the newest snapshots of a table: before, and after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paimon_core.commit.iceberg.publish import republish
from paimon_core.errors import StorageError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.reachability.references import Reference, RefKind
from paimon_core.reachability.release import finish_interrupted
from paimon_core.refs.tags import Tag
from paimon_core.retention.registered_partitions import synchronise_partitions
from paimon_core.snapshot.line import unbroken_ids
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.jobs.versions.consumers_ahead import consumers_ahead
from paimon_maintenance.jobs.versions.inflight_commits import check_no_new_commits
from paimon_maintenance.rules.safety_tag import make_safety_tag


def prepare_removal(
    table: FileStoreTable,
    context: RunContext,
    *,
    interrupted: Sequence[str],
    safety: Tag | None,
    latest: Snapshot | None,
    going: Sequence[Reference],
) -> dict[str, object]:
    """Finish interrupted runs, create the safety tag, and wait for commits that are in flight.

    Returns the details for the report: `finished` and `safety_tag`.  Raises StalePlan if a commit
    lands on top of `latest`, NotFound if the snapshot of the safety tag is gone.
    """
    details: dict[str, object] = {}
    if interrupted:
        context.fence()
        details["finished"] = finish_interrupted(table, interrupted).to_json()
    if safety is not None:
        context.fence()
        make_safety_tag(table, safety)
        details["safety_tag"] = safety.name
    if latest is not None and any(r.kind is RefKind.SNAPSHOT for r in going):
        check_no_new_commits(table, latest, context.env)
    return details


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


def follow_removal(
    table: FileStoreTable, context: RunContext, *, going: Sequence[Reference]
) -> dict[str, object]:
    """Make the catalog's partitions and Iceberg's metadata those of the newest snapshot.

    Returns the detail `consumers_ahead` for the report if some consumers are ahead of the table.
    Raises CorruptTable if the snapshots have a gap.
    """
    unbroken_ids(table.snapshots)
    synchronise_partitions(table)
    republish(table, context.env)
    ahead = consumers_ahead(table, going)
    return {"consumers_ahead": ahead} if ahead else {}
