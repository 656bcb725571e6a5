"""Numbers at the limits of 64 bits, and levels that no file has: no commit leaves what nobody can read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import Ran, caretaker, read_rows
from evolving_tables import EVOLVING
from lakes import ENV, Lake

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.errors import CorruptTable
from paimon_core.manifest.data_file import DataFileMeta, FileKind
from paimon_core.manifest.entries.decoding import read_zigzag
from paimon_core.manifest.entries.walk import EncodedBlocks
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind
from paimon_maintenance.job.exit_codes import ExitCode

MOST = 2**63 - 1


def _run(lake: Lake, *words: object) -> Ran:
    return caretaker(*words, "db.t", "-w", lake.warehouse)


def _lie(lake: Lake, change: Callable[[DataFileMeta], DataFileMeta]) -> None:
    """Commit other entries for the files of the newest snapshot."""
    table = lake.table()
    entries = scan_files(table, table.latest_or_not_found())
    gone = [replace(e, kind=FileKind.DELETE) for e in entries]
    changes = ManifestChanges((*gone, *(replace(e, file=change(e.file)) for e in entries)))
    request = CommitRequest(user="liar", kind=CommitKind.OVERWRITE, check=False)
    commit_changes(table, lambda _: changes, request, env=ENV)


def test_a_count_beyond_64_bits_is_not_committed(lake: Lake) -> None:
    lake.primary_key()
    lake.fill(2)
    path = Path(lake.table().paths.snapshot(2))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"totalRecordCount": MOST}))
    before = lake.on_disk()
    with pytest.raises(CorruptTable, match=r"totalRecordCount of the next snapshot of table db\.t"):
        lake.fill(1)
    assert len(read_rows(lake.warehouse)) == 10
    assert lake.table().snapshots.latest_id() == 2
    assert len(list((path.parents[1] / "manifest").iterdir())) == 6
    assert before <= lake.on_disk()


@pytest.mark.parametrize("bucket", ["1", "-2", "append"])
def test_sequence_numbers_that_are_used_up(lake: Lake, bucket: str) -> None:
    if bucket == "append":
        lake.create(primary_key=False, options={"bucket": "1", "bucket-key": "k"})
    else:
        lake.primary_key(buckets=int(bucket))
    lake.fill(1)
    if bucket == "-2":
        assert _run(lake, "run", "compact", "--engine", "local").code == ExitCode.SUCCESS
    _lie(lake, lambda f: replace(f, max_sequence_number=MOST))
    if bucket == "-2":
        lake.fill(1)
        ran = _run(lake, "run", "compact", "--engine", "local")
        assert ran.code == ExitCode.CORRUPT_TABLE, ran.err
        assert "sequence numbers up to" in ran.err
    else:
        with pytest.raises(CorruptTable, match=r"sequence numbers up to|64 bits"):
            lake.fill(1)
    assert len(read_rows(lake.warehouse)) == 10


def test_row_ids_that_end_beyond_64_bits_are_not_written(lake: Lake) -> None:
    lake.create(primary_key=False, options=EVOLVING)
    lake.fill(1)
    with pytest.raises(CorruptTable, match="cannot write metadata file"):
        _lie(lake, lambda f: replace(f, first_row_id=MOST))
    assert len(read_rows(lake.warehouse)) == 10


def test_a_negative_level_is_named(lake: Lake) -> None:
    lake.primary_key()
    lake.fill(1)
    _lie(lake, lambda f: replace(f, level=-1))
    for words in (["read"], ["health"], ["verify"], ["run", "compact"]):
        ran = _run(lake, *words)
        assert ran.code == ExitCode.CORRUPT_TABLE, (words, ran.err)
        assert "_LEVEL -1 is negative" in ran.err + ran.out


@pytest.mark.parametrize("last", [1, 2, 0x7F])
def test_numbers_of_manifests_have_at_most_64_bits(last: int) -> None:
    """In columns as in objects: of more bits, columns would show another number."""
    data = b"\x80" * 9 + bytes([last])
    blocks = EncodedBlocks([data])
    if last == 1:
        assert blocks.longs(np.zeros(1, np.int64)).tolist() == [read_zigzag(data, 0)[0]]
        return
    for read in (lambda: blocks.longs(np.zeros(1, np.int64)), lambda: read_zigzag(data, 0)):
        with pytest.raises(ValueError, match="more than 64 bits"):
            read()
