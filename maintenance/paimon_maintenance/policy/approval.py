"""Which runs wait for a person: what the policy calls the approval of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_maintenance.policy.needs import Approval, TableNeeds

OF_JOB: Final[Mapping[str, Approval]] = {
    "rescale": Approval.RESCALE,
    "rollback": Approval.ROLLBACK,
    "rollback_to_as_latest": Approval.ROLLBACK,
    "fast_forward": Approval.ROLLBACK,
}


def approval_wanted(
    needs: TableNeeds, job: str, *, force: bool, proposed: bool = False
) -> Approval | None:
    """Why a run of the job on the table needs an approval; None if it does not.

    `force`: the run ignores guards, or raises the limit of one.  `proposed`:
    the scheduler proposes it.
    """
    own = OF_JOB.get(job)
    if own is not None and (own in needs.approval or (proposed and own is Approval.RESCALE)):
        return own
    return Approval.FORCE if force and Approval.FORCE in needs.approval else None
