from __future__ import annotations

import pytest

from paimon_core.write.on_failure import aborted_on_failure, write_all


class Writer:
    def __init__(self, log, name="w"):
        self.log, self.name = log, name

    def write(self, batch):
        self.log.append(f"write {batch}")

    def close(self):
        self.log.append("close")
        return ["file"]

    def abort(self):
        self.log.append(f"abort {self.name}")


def test_all_batches_are_written_and_the_writer_is_closed():
    log = []
    assert write_all(Writer(log), iter([1, 2])) == ["file"]
    assert log == ["write 1", "write 2", "close"]


def test_a_failure_of_the_rows_deletes_the_files():
    def rows():
        yield 1
        raise OSError("lost")

    log = []
    with pytest.raises(OSError, match="lost"):
        write_all(Writer(log), rows())
    assert log == ["write 1", "abort w"]


def test_writers_that_join_later_are_aborted_in_their_order():
    log, writers = [], {}

    def work():
        with aborted_on_failure(writers.values()):
            writers["a"] = Writer(log, "a")
            writers["b"] = Writer(log, "b")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert log == ["abort a", "abort b"]
