"""`sys.rewrite_file_index`: Java reads the table with the indexes that files got later."""

from __future__ import annotations

from pathlib import Path

import pytest
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.file_store_table import FileStoreTable
from paimon_core.scan.scan import scan_files


def _indexes(table: FileStoreTable) -> list[tuple[bool, int]]:
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    return [
        (e.file.embedded_index is not None, len(e.file.extra_files))
        for e in scan_files(table, snapshot)
    ]


@pytest.mark.parametrize("keys", ["", "'primary-key' = 'id,p', 'bucket' = '1', "])
def test_java_reads_rewritten_indexes(oracle_1_4_2: Oracle, tmp_path: Path, keys: str) -> None:
    oracle_1_4_2.defaults(warehouse=tmp_path, database="default", table="t")
    sql = Sql(tmp_path)
    sql(f"""
        CREATE TABLE t (id INT, v STRING, p STRING) PARTITIONED BY (p)
        TBLPROPERTIES ({keys}'write-only' = 'true');
        INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y'); INSERT INTO t VALUES (3, 'c', 'x')
    """)
    rows = oracle_1_4_2.rows()
    assert sql("CALL sys.rewrite_file_index('t')") == [[0, 0]]
    sql("""
        ALTER TABLE t SET TBLPROPERTIES ('file-index.bloom-filter.columns' = 'id,v',
                                         'file-index.in-manifest-threshold' = '1 B')
    """)
    assert sql("""CALL sys.rewrite_file_index(table => 't', where => "p = 'x'")""") == [[1, 2]]
    sql("ALTER TABLE t UNSET TBLPROPERTIES ('file-index.bloom-filter.columns')")
    sql("ALTER TABLE t RENAME COLUMN v TO w")
    sql("ALTER TABLE t SET TBLPROPERTIES ('file-index.bloom-filter.columns' = 'w')")
    assert sql("CALL sys.rewrite_file_index('t')") == [[2, 3]]
    table = sql.session.catalog.get_table("default.t")
    assert sorted(_indexes(table)) == [(False, 1)] * 3
    assert oracle_1_4_2.rows() == rows
    found = oracle_1_4_2.rows(filter={"op": "=", "field": "w", "value": "c"})
    assert [row for row in found if row[1] == 3] == [["+I", 3, "c", "x"]]
    sql("ALTER TABLE t SET TBLPROPERTIES ('file-index.in-manifest-threshold' = '1 MB')")
    sql("CALL sys.rewrite_file_index('t')")
    assert all(embedded for embedded, _ in _indexes(table))
    assert oracle_1_4_2.rows() == rows
