from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_airflow.tasks.batches import Expected, pack, parse_size

GB = 1024**3


def tables(*sizes: int) -> list[Expected]:
    return [Expected(f"db.t{number}", size) for number, size in enumerate(sizes)]


def test_small_tables_share_a_batch_and_large_ones_do_not():
    batches = pack(tables(1, 2, 30 * GB, 3), batch_bytes=20 * GB, batch_tables=50)
    assert [batch.tables for batch in batches] == [("db.t2",), ("db.t3", "db.t1", "db.t0")]


def test_a_label_names_three_tables_and_counts_the_rest():
    (batch,) = pack(tables(5, 4, 3, 2, 1), batch_bytes=GB, batch_tables=50)
    assert batch.label == "db.t0, db.t1, db.t2 and 2 more (spark: 15 B to rewrite)"
    rules = [Expected("db.a", GB, "spark_threshold 256 MB"), Expected("db.b", 1, "engine is spark")]
    (batch,) = pack(rules, batch_bytes=2 * GB, batch_tables=50)
    why = "spark: 1.0 GB to rewrite, spark_threshold 256 MB, engine is spark"
    assert (batch.label, batch.to_json()["why"]) == (f"db.a, db.b ({why})", why)


@pytest.mark.parametrize("batch_bytes", [GB, 0])
def test_limits_grow_rather_than_make_more_batches_than_airflow_maps(batch_bytes):
    batches = pack(tables(*[GB] * 100), batch_bytes=batch_bytes, batch_tables=1, most_batches=7)
    assert len(batches) <= 7
    assert sum(len(batch.tables) for batch in batches) == 100


@given(
    st.lists(st.integers(0, 10**6), max_size=60),
    st.integers(1, 10**6),
    st.integers(1, 10),
)
def test_every_table_is_in_one_batch_within_the_limits(sizes, batch_bytes, batch_tables):
    packed = pack(tables(*sizes), batch_bytes=batch_bytes, batch_tables=batch_tables)
    assert sorted(t for b in packed for t in b.tables) == sorted(t.table for t in tables(*sizes))
    by_name = {t.table: t.bytes for t in tables(*sizes)}
    for batch in packed:
        assert batch.bytes == sum(by_name[table] for table in batch.tables)
        assert len(batch.tables) <= batch_tables
        assert batch.bytes <= batch_bytes or len(batch.tables) == 1
    again = pack(tables(*sizes)[::-1], batch_bytes=batch_bytes, batch_tables=batch_tables)
    assert again == packed


@pytest.mark.parametrize(
    ("text", "size"),
    [("20 gb", 20 * GB), ("512MB", 512 * 1024**2), ("1000", 1000), (" 1.5 Kb ", 1536), ("7 b", 7)],
)
def test_sizes_are_read(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "gb", "20 gib", "-1 gb", "1 gb 2"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)
