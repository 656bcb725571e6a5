"""Races that lost tables, each at every change of the first job, without the lease and without Java.

Jobs of ours take turns by the lease; these tests show that the proofs hold without it, too.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from races import Pristine, ours_alone, pristine, rounds_of, run_round

pytestmark = pytest.mark.crash
PAIRS = [
    # The target of a rollback expires, and everything newer was rolled back.
    ("rollback without safety tag", "expire_snapshots"),
    ("expire_snapshots", "rollback without safety tag"),
    ("rollback", "expire_snapshots"),
    ("fast_forward", "expire_snapshots"),
    # The branch goes on, or goes, while main becomes what it is.
    ("fast_forward", "java write to the branch"),
    ("fast_forward", "java expire of the branch"),
    # What a version came from is deleted before its files are live again.
    ("rollback_to_as_latest of a tag", "delete_tag"),
    ("rollback_to_as_latest of a tag", "replace_tag"),
    ("rollback_to_as_latest", "expire_snapshots"),
    ("rollback to a tag", "delete_tag"),
    ("rollback to a tag", "replace_tag"),
    # A commit is in flight while its base is rolled back.
    ("compact", "rollback without safety tag"),
    ("compact_manifest", "rollback without safety tag"),
    ("drop_partition", "rollback without safety tag"),
    ("expire_partitions", "fast_forward"),
    # A commit lands between the re-check of a rollback and its deletions.
    ("rollback", "java write"),
    ("rollback without safety tag", "java writes twice"),
    ("rollback to a tag", "java write"),
    ("fast_forward", "java write"),
    ("create_branch", "delete_tag"),
    ("create_tag", "expire_snapshots"),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Pristine:
    return pristine("primary key", tmp_path_factory.mktemp("races") / "pristine")


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_nothing_is_lost(a: str, b: str, table: Pristine, tmp_path: Path) -> None:
    for what in rounds_of(table, [(a, b)], tmp_path / "count", leased=False):
        run_round(table, what, ours_alone, tmp_path / "round")
