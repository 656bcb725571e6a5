"""Races of our jobs with our own writers and commits that lost tables, at every change, without Java.

The rounds with Java's operations are in test_races.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from races import Pristine, ours_alone, pristine, run_rounds

pytestmark = pytest.mark.crash
PAIRS = [
    # The target of a rollback expires, or an expiry follows a line that a rollback shortens.
    ("rollback", "expire_snapshots"),
    ("expire_snapshots", "rollback"),
    ("fast_forward", "expire_snapshots"),
    ("expire_snapshots", "fast_forward"),
    # The tag that holds the target of a rollback disappears or moves.
    ("rollback to a tag", "delete_tag"),
    ("rollback to a tag", "replace_tag"),
    ("rollback_to_as_latest", "expire_snapshots"),
    ("rollback_to_as_latest of a tag", "delete_tag"),
    ("rollback_to_as_latest of a tag", "replace_tag"),
    # The branch disappears or gets another name.
    ("fast_forward", "delete_branch"),
    ("fast_forward", "rename_branch"),
    ("create_branch", "delete_tag"),
    # A commit lands between the re-check of a rollback and its deletions.
    ("rollback", "java write"),
    ("rollback without safety tag", "java writes twice"),
    ("rollback to a tag", "java write"),
    ("fast_forward", "java write"),
    # The branch goes on while main becomes what it is.
    ("fast_forward", "java write to the branch"),
    ("delete_branch", "java write to the branch"),
    # A commit is in flight while its base is rolled back.
    ("compact", "rollback without safety tag"),
    ("compact_manifest", "rollback without safety tag"),
    ("drop_partition", "rollback to a tag"),
    ("expire_partitions", "fast_forward"),
    # A commit is removed by a rollback before it could look back at its base.
    ("analyze", "rollback to a tag"),
    # A tag is made while its snapshot expires.
    ("create_tag", "expire_snapshots"),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Pristine:
    return pristine("primary key", tmp_path_factory.mktemp("races") / "pristine")


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_nothing_is_lost(a: str, b: str, table: Pristine, tmp_path: Path) -> None:
    run_rounds(table, [(a, b)], ours_alone, tmp_path)


def test_a_rescale_that_meets_a_commit_is_finished(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """With one of two partitions rescaled, writers would be refused in the other."""
    table = pristine("vectors", tmp_path_factory.mktemp("races") / "pristine")
    pairs = [
        ("rescale", "java compact"),
        ("rescale", "rollback to a tag"),
        ("rollback_to_as_latest of a tag", "rescale"),
    ]
    run_rounds(table, pairs, ours_alone, tmp_path)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["changelog", "branch of its own"])
def test_main_is_never_empty_during_a_fast_forward(
    name: str, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """A writer that finds no snapshot would begin a new history, and main would be lost."""
    table = pristine(name, tmp_path_factory.mktemp("races") / "pristine")
    run_rounds(table, [("fast_forward", "java writes twice")], ours_alone, tmp_path)


@pytest.mark.parametrize(("a", "b"), [("compact", "rollback"), ("sort_compact", "fast_forward")])
def test_a_safety_tag_keeps_the_files_of_a_commit_that_was_rolled_back(
    a: str, b: str, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """The commit looks back, finds itself removed, and must not delete its files."""
    table = pristine("append", tmp_path_factory.mktemp("races") / "pristine")
    run_rounds(table, [(a, b)], ours_alone, tmp_path)
