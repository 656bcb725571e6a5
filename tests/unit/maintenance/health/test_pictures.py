"""Files, snapshots and schemas of real tables, as the page draws them."""

from __future__ import annotations

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.ddl.schema_change import AddColumn, RenameColumn, SetOption
from paimon_core.environment import system_environment
from paimon_core.paths import MAIN_BRANCH
from paimon_core.refs.tags import Tag
from paimon_core.table.open import open_table
from paimon_core.table.sink.compact_table import compact_table
from paimon_core.types.sql import parse_type
from paimon_maintenance.health.measure import measure_table
from paimon_maintenance.health.picture import MOST_FILES, file_picture
from paimon_maintenance.health.schemas import schema_history
from paimon_maintenance.health.score import health_of
from paimon_maintenance.health.thresholds import Thresholds
from paimon_maintenance.health.timeline import timeline_of
from paimon_maintenance.history.status import status_of

ENV = system_environment()


def picture(table, partition=None):
    return file_picture(table, ENV, partition=partition)


def test_files_that_overlap_in_keys_overlap_in_ranks(lake):
    lake.primary_key("db.t")
    lake.append({"k": [1, 5], "v": ["a", "b"]})
    lake.append({"k": [3, 9], "v": ["a", "b"]})
    lake.append({"k": [7, 9], "v": ["a", "b"]})
    found = picture(lake.table("db.t"))
    assert (found.primary_key, found.partition, found.snapshot) == (True, "", 3)
    (bucket,) = found.buckets
    assert (bucket.files, bucket.runs, bucket.keys, bucket.left_out) == (3, 2, 5, 0)
    ranges = {(b.first_key, b.last_key): (b.low, b.high) for b in bucket.boxes}
    assert ranges == {("1", "5"): (0, 2), ("3", "9"): (1, 4), ("7", "9"): (3, 4)}
    assert all(
        b.created_millis is not None and abs(b.created_millis - ENV.now_millis()) < 60_000
        for b in bucket.boxes
    )


def test_files_in_the_order_of_other_columns_are_drawn_as_they_were_made(lake):
    options = {"pk-clustering-override": "true", "deletion-vectors.enabled": "true"}
    lake.primary_key("db.t", **options, **{"clustering.columns": "v"})
    for keys in ([1, 5], [3, 9]):
        lake.append({"k": keys, "v": ["a", f"b{keys[0]}"]})
        compact_table(lake.table("db.t"), full=False, env=ENV)
    lake.append({"k": [7, 8], "v": ["a", "b"]})
    (bucket,) = picture(lake.table("db.t")).buckets
    assert (bucket.files, bucket.runs) == (3, 1)
    assert sorted((b.level, b.first_key, b.last_key) for b in bucket.boxes) == [
        (0, "7", "8"),
        (1, "a", "b1"),
        (1, "a", "b3"),
    ]
    assert sorted(b.low for b in bucket.boxes) == [0, 1, 2]


def test_partitions_are_chosen_by_name_and_those_with_many_files_come_first(lake):
    lake.log("db.t", partitioned=True)
    for day in ("a", "b", "b"):
        lake.append({"k": [1], "v": ["x"], "dt": [day]})
    found = picture(lake.table("db.t"))
    assert [(p.name, p.files) for p in found.partitions] == [("dt=b", 2), ("dt=a", 1)]
    assert (found.partition, found.buckets[0].files) == ("dt=b", 2)
    # Append tables are drawn in the order in which their files were made.
    assert sorted(b.low for b in found.buckets[0].boxes) == [0, 1]
    assert picture(lake.table("db.t"), "dt=a").buckets[0].files == 1
    assert picture(lake.table("db.t"), "../../etc").partition == "dt=b"


def test_an_empty_table_has_no_files(lake):
    lake.primary_key("db.t")
    found = picture(lake.table("db.t"))
    assert (found.snapshot, found.buckets, found.partitions) == (None, (), ())
    line = timeline_of(lake.table("db.t"), ENV)
    assert (line.count, line.snapshots, line.marks) == (0, (), ())


def test_only_the_largest_files_of_a_bucket_are_drawn(lake, monkeypatch):
    monkeypatch.setattr("paimon_maintenance.health.picture.MOST_FILES", 2)
    lake.primary_key("db.t")
    for number in range(4):
        lake.append({"k": [number], "v": ["x" * (number + 1) * 50]})
    (bucket,) = picture(lake.table("db.t")).buckets
    assert (bucket.files, len(bucket.boxes), bucket.left_out) == (4, 2, 2)
    assert MOST_FILES > 2


def test_the_timeline_says_who_holds_back_the_expiry(lake):
    lake.primary_key("db.t", snapshot_num__retained_max="2", snapshot_num__retained_min="1")
    for value in "abcde":
        lake.append({"k": [1], "v": [value]})
    table = lake.table("db.t")
    table.tags.create(Tag(name="old", snapshot=table.snapshots.get(1)))
    table.consumers.set("slow", 2)
    table.consumers.set("fast", 6)
    table.branches.create("dev", tag="old")
    found = timeline_of(open_table(str(lake.warehouse), "db.t"), ENV)
    assert (found.count, found.beyond, found.blocked_by, found.blocked) == (5, 3, "slow", 2)
    assert [s.beyond for s in found.snapshots] == [True, True, True, False, False]
    assert {(m.kind, m.name, m.snapshot) for m in found.marks} == {
        ("tag", "old", 1),
        ("consumer", "slow", 2),
        ("consumer", "fast", 6),
        ("branch", "dev", 1),
    }
    assert table.branch == MAIN_BRANCH


def test_the_schema_history_says_what_changed_and_hides_secrets(lake):
    lake.primary_key("db.t")
    FileSystemCatalog(str(lake.warehouse)).alter_table(
        "db.t",
        [
            AddColumn(("price",), parse_type("DOUBLE")),
            RenameColumn(("v",), "value"),
            SetOption("snapshot.num-retained.max", "70"),
            SetOption("caretaker.password", "hush"),
        ],
        now_millis=ENV.now_millis(),
    )
    found = schema_history(lake.table("db.t"))
    assert [s.id for s in found.schemas] == [1, 0]
    assert set(found.schemas[0].changes) == {
        "added column price DOUBLE",
        "renamed column v to value",
        "set snapshot.num-retained.max = 70",
        "set caretaker.password = ***",
    }
    assert found.schemas[1].changes == ("the table was created",)
    assert [(c.name, c.key) for c in found.columns] == [
        ("k", "primary"),
        ("value", ""),
        ("price", ""),
    ]
    assert dict(found.options)["caretaker.password"] == "***"


def test_a_status_has_what_the_list_needs(lake):
    lake.primary_key("db.t", caretaker_owner="me")
    for value in "abcdefgh":
        lake.append({"k": [1], "v": [value]})
    measured = measure_table(lake.table("db.t"), ENV)
    found = status_of(measured, health_of(measured, Thresholds(), ENV.now_millis()))
    assert (found.table, found.files, found.runs, found.snapshot) == ("db.t", 8, 8, 8)
    assert found.score is not None
    assert found.score < 80
    assert found.reason == found.health["reasons"][0]["text"]
    assert (found.next_action, found.error) == (None, None)
