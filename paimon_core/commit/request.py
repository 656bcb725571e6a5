"""The request of a commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from paimon_core.commit.row_group_conflict import RowGroup
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Identity


class Origin(StrEnum):
    """The kind of changes that a commit makes: those of a job, or rows of a writer.

    `ROWS` may rewrite files (an update), `REPLACEMENT` replaces whole partitions.
    """

    MAINTENANCE = "maintenance"
    ROWS = "rows"
    REPLACEMENT = "replacement"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """Who commits, and what the snapshot holds besides the files.

    `check`: look for conflicts; a plain append does not need this.  `exact`: afterwards the changed
    partitions must hold only what this commit adds (a rewrite pinned to the snapshot that it read).
    `row_groups`: the files whose rows the new files update, as they were read.  `buckets_at`: the
    oldest of the messages' own; None if one does not tell.  `rows_at`: the snapshot from whose rows
    those of new keys, or those in place of whole partitions, were computed, or which lacks the new
    rows of an append table; None if they do not depend on rows of the table.
    """

    user: str
    kind: CommitKind
    identifier: int = BATCH_COMMIT_IDENTIFIER
    watermark: int | None = None
    properties: Mapping[str, str] | None = None
    statistics: str | None = None
    check: bool = True
    exact: bool = False
    row_groups: Sequence[RowGroup] = ()
    buckets_at: Identity | None = None
    rows_at: Identity | None = None
    origin: Origin = Origin.MAINTENANCE

    @property
    def rewrites(self) -> bool:
        """Whether rows of deleted files may be in the new ones: a compaction, a rewrite, an update.

        Otherwise rows are dropped or replaced.
        """
        return self.kind is CommitKind.COMPACT or self.exact or self.origin is Origin.ROWS
