"""Converts the guards of a policy for the runner."""

from __future__ import annotations

from paimon_core.errors import InvalidArgument
from paimon_core.options import parse_memory_size
from paimon_maintenance.job.guards import DEFAULT_MAX_DELETED_SHARE, Guards
from paimon_maintenance.policy.model import GuardPolicy


def guards_of(policy: GuardPolicy) -> Guards:
    """The guards, with defaults for missing settings.

    InvalidArgument for an invalid size, ValueError for a share that is not a number.
    """
    share = policy.max_deleted_share
    return Guards(
        max_deleted_share=DEFAULT_MAX_DELETED_SHARE if share is None else float(share),
        max_deleted_snapshots=policy.max_deleted_snapshots,
        max_deleted_files=policy.max_deleted_files,
        max_deleted_bytes=_bytes("max_deleted_bytes", policy.max_deleted_bytes),
        max_rewrite_bytes=_bytes("--max-rewrite", policy.max_rewrite),
    )


def _bytes(name: str, text: str | None) -> int | None:
    try:
        return None if text is None else parse_memory_size(text)
    except InvalidArgument as e:
        raise InvalidArgument(f"argument {name}: {e.message}") from e
