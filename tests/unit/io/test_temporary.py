"""Temporary files that cannot be used: the error says so, and is none of the table's files."""

from __future__ import annotations

import errno
import pickle
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_core.errors import StorageError
from paimon_core.io.arrow_files import SpillFile, read_spilled
from paimon_core.io.temporary import temporary_files, temporary_folder
from paimon_core.write.external_sort import sorted_rows
from paimon_core.write.row_buffer import SpillFolder
from paimon_spark.source.writes.commit_marker import CommitMarker

BATCH = pa.record_batch({"k": pa.array(range(20), pa.int32())})


@pytest.fixture
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder takes temporary files, as on a full disk."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/none"])


@pytest.mark.usefixtures("no_folder")
def test_without_a_folder_the_error_says_what_to_do() -> None:
    for make in (
        lambda: temporary_folder("x-"),
        lambda: SpillFolder().new_path(),
        lambda: CommitMarker("user", 1),
        lambda: list(sorted_rows(iter([]), None, expected_bytes=1)),  # type: ignore[arg-type]
    ):
        with pytest.raises(StorageError, match="No usable temporary directory") as caught:
            make()
        assert not isinstance(caught.value, FileNotFoundError)
        assert "TMPDIR" in caught.value.next_step


def test_a_folder_that_somebody_deletes(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "1"
    with pytest.raises(StorageError, match=r"a temporary file cannot be used.*gone/1"):
        SpillFile(path).write(BATCH)
    with pytest.raises(StorageError, match=r"a temporary file cannot be used.*gone/1") as caught:
        next(read_spilled(path))
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(StorageError), temporary_files():
        raise OSError(errno.ENOSPC, "full")


def test_the_marker_of_a_commit_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that aborts may find another folder than the one that committed."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "first"))
    marker = CommitMarker("user", 1)
    sent = pickle.dumps(marker)
    marker.begin()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "second"))
    received = pickle.loads(sent)
    assert received.is_there
    received.clear()
    assert not marker.is_there
    (tmp_path / "first").rmdir()
    assert marker.is_there  # nobody can tell
