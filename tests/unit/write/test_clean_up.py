"""What a writer leaves when it fails: nothing that can be deleted, and the failure that it met."""

from __future__ import annotations

import pyarrow as pa
import pytest
from failing_io import FailingFileIO, Injected, Trigger, When
from lakes import ENV, Lake

from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.local import LocalFileIO
from paimon_core.table.open import open_table_at
from paimon_core.write.row_writer import RowWriter

ROWS = pa.table({"k": pa.array(range(8), pa.int32()), "v": [f"v{i}" for i in range(8)]})


def failing(lake: Lake, trigger: Trigger) -> FileStoreTable:
    return open_table_at(FailingFileIO(trigger), lake.table().root, "db.t")


@pytest.fixture(params=["primary key", "append", "indexed"])
def lake(lake: Lake, request: pytest.FixtureRequest) -> Lake:
    if request.param == "primary key":
        lake.primary_key(buckets=4)
    else:
        options = {"bucket": "4", "bucket-key": "k"}
        if request.param == "indexed":
            options |= {
                "file-index.bloom-filter.columns": "v",
                "file-index.in-manifest-threshold": "1 b",
            }
        lake.create(primary_key=False, options=options)
    return lake


@pytest.mark.parametrize("when", ["before", "after"])
def test_nothing_stays_whatever_call_fails(when: When, lake: Lake) -> None:
    for number in range(40):
        trigger = Trigger(at=number, when=when)
        writer = RowWriter(failing(lake, trigger), env=ENV)
        try:
            write_all(writer)
        except Injected:
            writer.abort()
        if not trigger.fired:
            break
        assert lake.on_disk() == set(), f"call {number}"
    assert 4 <= number < 40


def test_a_store_that_is_down_is_told_once(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """The failure of the writing is raised, not that of cleaning up after it."""
    trigger = Trigger(at=3, when="after", down=True)
    writer = RowWriter(failing(lake, trigger), env=ENV)
    with pytest.raises(Injected, match="reply was lost"):
        write_all(writer)
    writer.abort()
    assert "left behind" in caplog.text


def test_a_full_disk_is_told_with_the_name_of_the_file(lake: Lake) -> None:
    class Full(LocalFileIO):
        def open_output(self, path: str) -> pa.NativeFile:
            super().open_output(path).close()
            return pa.OSFile("/dev/full", "ab")

    writer = RowWriter(open_table_at(Full(), lake.table().root, "db.t"), env=ENV)
    with pytest.raises(OSError, match=r"No space left on device: '.*/bucket-\d/data-.*") as raised:
        write_all(writer)
    assert "/bucket-" in raised.value.filename
    writer.abort()
    assert lake.on_disk() == set()


def write_all(writer: RowWriter) -> None:
    writer.write(ROWS)
    writer.prepare_commit()
