"""The findings of a verification: problem, severity, location and possible repair.

Problem names are a public interface: repairs and tests use them, not the message.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """ERROR: reads fail or return wrong rows.  WARNING: can cause errors later.  INFO: harmless."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Problem(StrEnum):
    """The kinds of findings."""

    MISSING_SCHEMA = "missing_schema"
    MISSING_MANIFEST_LIST = "missing_manifest_list"
    MISSING_MANIFEST = "missing_manifest"
    MISSING_INDEX_MANIFEST = "missing_index_manifest"
    MISSING_INDEX_FILE = "missing_index_file"
    MISSING_STATISTICS = "missing_statistics"
    MISSING_DATA_FILE = "missing_data_file"
    MISSING_CHANGELOG_FILE = "missing_changelog_file"
    MISSING_EXTRA_FILE = "missing_extra_file"
    UNREADABLE = "unreadable"
    WRONG_SIZE = "wrong_size"
    WRONG_ROW_COUNT = "wrong_row_count"
    WRONG_RECORD_TOTAL = "wrong_record_total"
    WRONG_ID = "wrong_id"
    SHARED_LIST = "shared_list"
    WRONG_NEXT_ROW_ID = "wrong_next_row_id"
    SHARED_ROW_IDS = "shared_row_ids"
    CONTRADICTING_ENTRIES = "contradicting_entries"
    KEY_OVERLAP = "key_overlap"
    MIXED_BUCKETS = "mixed_buckets"
    REPLACED_COLUMNS = "replaced_columns"
    KEY_IN_TWO_BUCKETS = "key_in_two_buckets"
    WRONG_STATISTICS = "wrong_statistics"
    HIDDEN_FILE = "hidden_file"
    VECTOR_WITHOUT_FILE = "vector_without_file"
    WRONG_HINT = "wrong_hint"
    SNAPSHOT_GAP = "snapshot_gap"
    LOST_CHANGELOG = "lost_changelog"
    UNFINISHED_BRANCH = "unfinished_branch"
    STALE_CONSUMER = "stale_consumer"
    CONSUMER_AHEAD = "consumer_ahead"


class Repair(StrEnum):
    """The possible repair of a finding."""

    REWRITE_HINT = "rewrite_hint"
    CORRECT_SIZES = "correct_sizes"
    MOVE_DOWN = "move_down"
    REMOVE_UNEXISTING_FILES = "remove_unexisting_files"
    ROLL_BACK = "roll_back"
    RESCALE = "rescale"
    DROP_VECTORS = "drop_vectors"
    COMPACT_MANIFEST = "compact_manifest"
    RESET_CONSUMER = "reset_consumer"
    DELETE_REFERENCE = "delete_reference"
    CLOSE_GAP = "close_gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem.

    `reference` is a label such as "snapshot 12" or "tag t1 of branch b".  `snapshot` is its
    snapshot id if it has one; `file` is a path or a name.
    """

    problem: Problem
    severity: Severity
    message: str
    reference: str | None = None
    branch: str = "main"
    snapshot: int | None = None
    partition: str | None = None
    bucket: int | None = None
    file: str | None = None
    repair: Repair | None = None

    def to_json(self) -> dict[str, object]:
        """The finding as JSON for `caretaker verify --json`."""
        return {
            "problem": str(self.problem),
            "severity": str(self.severity),
            "message": self.message,
            "reference": self.reference,
            "branch": self.branch,
            "snapshot": self.snapshot,
            "partition": self.partition,
            "bucket": self.bucket,
            "file": self.file,
            "repair": None if self.repair is None else str(self.repair),
        }

    def line(self) -> str:
        """The finding as text."""
        end = "" if self.repair is None else f" [repair: {self.repair}]"
        return f"{self.severity.upper():7} {self.problem}: {self.message}{end}"
