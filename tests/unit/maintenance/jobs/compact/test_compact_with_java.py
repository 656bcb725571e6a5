"""What was compacted here reads the same in Java, and Java goes on with it."""

from __future__ import annotations

import pytest
from command_line import caretaker, in_order, read_rows

TABLES = [
    "append_bucketed",
    "append_unaware",
    "dedup_thin",
    "dedup_write_only",
    "deletion_vectors",
    "levels",
    "partitions_null",
    "partitions_pk_overwrite",
    "rescaled",
    "schema_evolution_pk",
    "seq_field_two",
    "types_append_avro",
    "types_append_orc",
    "types_pk_parquet",
]


def values(rows):
    return in_order([row[1:] for row in rows])


@pytest.mark.sampled
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("strategy", ["full", "minor"])
def test_java_reads_the_same_and_goes_on(golden, oracle, name, strategy):
    table = golden(name, oracle.version, copy=True)
    oracle.defaults(warehouse=table.warehouse, database="db", table="t")
    before = oracle.rows()
    ran = caretaker(
        *("run", "compact", "db.t", "-w", table.warehouse, "--strategy", strategy),
        *("--engine", "local", "--option", "compaction.min.file-num=2", "--json"),
    )
    assert ran.code in (0, 3), ran.err
    assert values(oracle.rows()) == values(before)
    for snapshot in ran.json["snapshots"]:
        assert oracle.one("snapshots")["snapshots"][-1]["id"] == snapshot
    oracle.one("compact")
    assert values(oracle.rows()) == values(before)
    assert values(read_rows(table.warehouse)) == values(before)
    assert caretaker("verify", "db.t", "-w", table.warehouse).code == 0


@pytest.mark.parametrize("name", ["append_unaware", "dedup_write_only", "partitions_pk_overwrite"])
def test_after_expiry_files_on_disk_are_files_referenced(golden, oracle, name):
    table = golden(name, oracle.version, copy=True)
    oracle.defaults(warehouse=table.warehouse, database="db", table="t")
    before = oracle.rows()
    ran = caretaker("run", "compact", "db.t", "-w", table.warehouse, "--engine", "local")
    assert ran.code == 0, ran.err
    oracle.one("expire_snapshots", retain_max=1, retain_min=1, older_than_millis=2**62)
    assert len(oracle.one("snapshots")["snapshots"]) == 1
    referenced = {f["file"] for f in oracle.one("files", stats=False)["files"]}
    on_disk = {p.name for p in table.root.rglob("bucket-*/*")}
    assert on_disk == referenced
    orphans = oracle.one("remove_orphan_files", older_than_millis=2**62, dry_run=True)
    assert orphans["deleted_files"] == 0, orphans
    assert values(oracle.rows()) == values(before)
    assert caretaker("verify", "db.t", "-w", table.warehouse).code == 0
