"""The oracle and Flink as tests see them."""

from __future__ import annotations

import pytest

from oracle import OracleError

TABLE = {
    "op": "create_table",
    "columns": [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}],
    "primary_keys": ["k"],
    "options": {"bucket": "1"},
}
WRITE = {"op": "write", "rows": [[1, "a"], [2, "b"]]}


@pytest.mark.parametrize("again", [False, True])
def test_defaults_belong_to_one_test(oracle, tmp_path, again):
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    oracle([TABLE, WRITE])
    assert oracle.rows() == [["+I", 1, "a"], ["+I", 2, "b"]]
    assert len(oracle.one("snapshots")["snapshots"]) == 1


def test_a_failed_step_raises_unless_asked(oracle_1_4_2, tmp_path):
    oracle = oracle_1_4_2.defaults(warehouse=tmp_path, database="db", table="missing")
    with pytest.raises(OracleError, match="missing"):
        oracle([{"op": "read"}])
    failed, after = oracle([{"op": "read"}, TABLE | {"table": "t"}], check=False)
    assert "error" in failed
    assert "error" not in after


@pytest.mark.long  # of the oracle, not of ours
@pytest.mark.slow
def test_flink_reads_what_the_oracle_wrote(oracle_2_0_0, flink_sql, tmp_path):
    oracle_2_0_0.defaults(warehouse=tmp_path / "w", database="db", table="t")
    oracle_2_0_0([TABLE, WRITE])
    lines = flink_sql(
        f"CREATE CATALOG c WITH ('type'='paimon', 'warehouse'='{tmp_path / 'w'}');\n"
        "SELECT * FROM c.db.t ORDER BY k;\n"
    )
    assert [line for line in lines if "OK" not in line] == ["+I[1, a]", "+I[2, b]"]
    with pytest.raises(AssertionError, match="ERR"):
        flink_sql("SELECT nothing FROM nowhere;\n")
