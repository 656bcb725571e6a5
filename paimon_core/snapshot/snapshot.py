"""A snapshot: one version of a table (Java: `Snapshot`, and `Changelog` with the same JSON)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

BATCH_COMMIT_IDENTIFIER = 2**63 - 1
"""The identifier of every batch commit, which is why each batch needs its own commit user."""


FIELDS_OF_ONE_COMMIT: Final = frozenset({"uuid", "operation", "writerVersion", "logOffsets"})
"""Fields of other versions that only describe the commit which made the snapshot.

`logOffsets` is one of Paimon before 1.4; later versions drop it.
"""


STREAM_QUERY: Final = "caretaker.spark-query-id"
"""The property of a snapshot that holds the id of the Spark stream that committed it."""


class CommitKind(StrEnum):
    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


Identity = tuple[int, str, int, CommitKind, int]
"""What tells snapshots of one id apart: the id, commit user and identifier, kind and time."""
NO_SNAPSHOT: Final[Identity] = (0, "", 0, CommitKind.APPEND, 0)
"""Stands for the identity of a snapshot where a table has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The JSON of `snapshot/snapshot-N`; unknown fields are in `extra`.

    `time_millis` is milliseconds since the epoch; record counts are physical rows, before merging.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    version: int = 3
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    total_record_count: int | None = None
    delta_record_count: int | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] | None = None
    next_row_id: int | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def identity(self) -> Identity:
        """The identity that distinguishes snapshots of the same id (rollback reuses ids)."""
        return (
            self.id,
            self.commit_user,
            self.commit_identifier,
            self.commit_kind,
            self.time_millis,
        )

    def list_size(self, name: str) -> int | None:
        """Return the size in bytes that the snapshot names for one of its manifest lists."""
        sizes = {
            self.changelog_manifest_list: self.changelog_manifest_list_size,
            self.delta_manifest_list: self.delta_manifest_list_size,
            self.base_manifest_list: self.base_manifest_list_size,
        }
        return sizes.get(name)

    def list_records(self, name: str) -> int:
        """Return how many records the files of one of its manifest lists hold, by its counts.

        Below 0 if a delta deletes more than it adds; 0 if no count tells.
        """
        added, total = self.delta_record_count or 0, self.total_record_count or 0
        records = {
            self.changelog_manifest_list: self.changelog_record_count or 0,
            self.delta_manifest_list: added,
            # The totals of the first versions of Paimon may be too small.
            self.base_manifest_list: max(0, total - added),
        }
        return records.get(name, 0)

    @property
    def unknown(self) -> Mapping[str, object]:
        """The fields that this version does not know."""
        return {k: v for k, v in self.extra.items() if k not in FIELDS_OF_ONE_COMMIT}

    @property
    def operation(self) -> str | None:
        """The statement that made it, such as MERGE, as far as its writer says so (2.0)."""
        told = self.extra.get("operation")
        return told if isinstance(told, str) else None

    @property
    def written_by_2_0(self) -> bool:
        """Whether Java 2.0 wrote it, so that its reading rules apply (java-rules N1)."""
        return "uuid" in self.extra
