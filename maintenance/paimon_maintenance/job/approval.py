"""The error of a run that waits for a person (`history.approval_store` has the requests)."""

from __future__ import annotations

from paimon_core.errors import MaintenanceError


class ApprovalNeeded(MaintenanceError):
    """The policy requires a person to approve the run first."""
