"""The names of the steps of `maintain`, in execution order."""

from __future__ import annotations

from typing import Final

USUAL: Final = (
    "trigger_tag_automatic_creation",
    "expire_partitions",
    "expire_consumers",
    "expire_snapshots",
)
"""The default steps in Java's order (`TableCommitImpl.maintain`); the first also expires tags."""
ON_DEMAND: Final = ("expire_changelogs", "compact_manifest", "remove_orphan_files", "analyze")
"""Steps that run after the default ones on request."""
