"""The steps of `maintain`, by name and in the order in which they run."""

from __future__ import annotations

from typing import Final

USUAL: Final = (
    "trigger_tag_automatic_creation",
    "expire_partitions",
    "expire_consumers",
    "expire_snapshots",
)
"""Java's order (`TableCommitImpl.maintain`); the first one also expires tags."""
ON_DEMAND: Final = ("expire_changelogs", "compact_manifest", "remove_orphan_files", "analyze")
"""These run after the usual steps, if asked for."""
