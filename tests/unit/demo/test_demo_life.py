"""The demo's chapters after compaction, all of them in this process."""

from __future__ import annotations

from dataclasses import replace

from paimon_core.table.open import open_table
from paimon_maintenance.demo import lake, life
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.verify.check import Scope, check_table


def test_every_chapter_changes_what_it_shows(tmp_path, capsys):
    warehouse = str(tmp_path)
    lake.create_tables(warehouse)
    for writer in range(3):
        lake.write(warehouse, writer, 8)
    capsys.readouterr()
    history = SqlHistory(f"sqlite:///{tmp_path}/history.db")
    told = {}
    for chapter in life.chapters():
        rows = life.tell(
            replace(chapter, in_airflow=False), warehouse, lambda job, conf: {}, history
        )
        told[chapter.title] = {name: (before, after) for name, before, after in rows}
    tag, partition, held, consumer, rest, rescale, orphans = told.values()
    assert tag == {"tags": ("none", "end-of-week")}
    assert partition["partitions"] == ("3", "2")
    assert partition["rows"][0] != partition["rows"][1]
    assert held["snapshots"] == ("25 (1 to 25)", "6 (20 to 25)")
    assert held["consumers"] == ("nightly-report", "nightly-report")
    assert consumer == {"consumers": ("nightly-report", "none")}
    assert rest["snapshots"] == ("6 (20 to 25)", "1 (25 to 25)")
    assert rescale["buckets of 2026-03-03"] == ("5", "10")
    assert orphans["files of no snapshot"] == ("10", "0")
    assert check_table(open_table(warehouse, life.TABLE), Scope()).findings == []
    recorded = [e.job for e in history.newest() if e.event == "run" and e.part_of is None]
    assert recorded[::-1] == [chapter.job for chapter in life.chapters()]
