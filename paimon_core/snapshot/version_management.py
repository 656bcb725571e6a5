"""Catalogs that change a table's history themselves (Java: `Catalog.supportsVersionManagement`).

Where a catalog makes the commits, it also creates and removes branches, and rolls back: snapshots
that disappear from the folder alone would still be the newest for every other client.
"""

from __future__ import annotations

from typing import Protocol


class VersionManagement(Protocol):
    """Changes of one table's history that its catalog makes.  Picklable.

    Errors as of other requests to the catalog; after a StorageError the outcome is unknown.
    """

    def rollback_to(self, snapshot: int, *, tag: str | None = None, base: int) -> None:
        """Roll back to the snapshot, or to the tag that holds it, if `base` is the newest snapshot.

        Later snapshots and tags are removed.
        """

    def create_branch(self, branch: str, *, tag: str | None = None) -> None:
        """Create a branch: empty, or at the snapshot of a tag."""

    def drop_branch(self, branch: str) -> None:
        """Delete the branch."""

    def rename_branch(self, branch: str, new_branch: str) -> None:
        """Give the branch another name."""

    def fast_forward(self, branch: str) -> None:
        """Replace the newer part of main by the branch."""
