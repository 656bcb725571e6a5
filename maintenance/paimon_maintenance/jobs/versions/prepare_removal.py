"""The steps that every job takes before it removes the newest snapshots of a table."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_core.file_store_table import FileStoreTable
from paimon_core.reachability.references import Reference, RefKind
from paimon_core.reachability.release import finish_interrupted
from paimon_core.refs.tags import Tag
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.job.job import RunContext
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
