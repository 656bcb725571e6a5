"""The sample lake of the demo, and its writers.

`shop.order_detail` is a wide primary-key table partitioned by day, `shop.page_view` an append
table.  Several write-only writer processes commit to both concurrently, like streaming jobs: many
small commits that change every day and bucket.

    python -m paimon_maintenance.demo.lake WAREHOUSE WRITER    one writer; prints a line per commit
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.table.open import open_table
from paimon_core.write.row_writer import RowWriter

DATABASE: Final = "shop"
ORDERS: Final = f"{DATABASE}.order_detail"
VIEWS: Final = f"{DATABASE}.page_view"
TABLES: Final = (ORDERS, VIEWS)
WRITERS: Final = 4
COMMITS: Final = 10
"""Commits of each writer to the orders; it commits three times as often to the page views."""

DAYS: Final = ("2026-03-01", "2026-03-02", "2026-03-03")
_BUCKETS: Final = 5
_ORDERS_A_COMMIT: Final = 3_000
_VIEWS_A_COMMIT: Final = 1_000
_ORDER_IDS: Final = 60_000
"""Number of distinct orders; different writers write most of them several times."""
_DELETED_SHARE: Final = 0.02
_START_MILLIS: Final = 1_772_323_200_000  # 2026-03-01

_INSERT, _UPDATE, _DELETE = 0, 2, 3

_ORDER_COLUMNS: Final[Mapping[str, str]] = {
    "order_id": "BIGINT NOT NULL",
    "dt": "STRING NOT NULL",
    "customer_id": "BIGINT",
    "product_id": "BIGINT",
    "sku": "STRING",
    "product_name": "STRING",
    "category": "STRING",
    "brand": "STRING",
    "quantity": "INT",
    "price": "DECIMAL(10, 2)",
    "discount": "DECIMAL(10, 2)",
    "amount": "DECIMAL(12, 2)",
    "currency": "STRING",
    "status": "STRING",
    "payment_method": "STRING",
    "coupon": "STRING",
    "is_gift": "BOOLEAN",
    "country": "STRING",
    "city": "STRING",
    "street": "STRING",
    "carrier": "STRING",
    "tracking_number": "STRING",
    "weight_kg": "DOUBLE",
    "created_at": "TIMESTAMP(3)",
    "paid_at": "TIMESTAMP(3)",
    "shipped_at": "TIMESTAMP(3)",
    "binlog_time": "BIGINT",
}
_VIEW_COLUMNS: Final[Mapping[str, str]] = {
    "view_id": "BIGINT",
    "customer_id": "BIGINT",
    "url": "STRING",
    "referrer": "STRING",
    "user_agent": "STRING",
    "milliseconds": "INT",
    "viewed_at": "TIMESTAMP(3)",
}


@dataclass(frozen=True, slots=True)
class WriteVolume:
    """The number of writers and commits for a lake."""

    writers: int = WRITERS
    commits: int = COMMITS

    @property
    def all_commits(self) -> int:
        """Commits of all writers to both tables."""
        return self.writers * self.commits * 4


def create_tables(warehouse: str) -> None:
    """Create both tables, empty."""
    catalog = FileSystemCatalog(warehouse, {})
    catalog.create_database(DATABASE)
    now = system_environment().now_millis()
    orders = create_schema(
        [Column(name, kind) for name, kind in _ORDER_COLUMNS.items()],
        now_millis=now,
        partition_keys=("dt",),
        primary_keys=("dt", "order_id"),
        options={
            "bucket": str(_BUCKETS),
            "write-only": "true",
            "sequence.field": "binlog_time",
        },
    )
    views = create_schema(
        [Column(name, kind) for name, kind in _VIEW_COLUMNS.items()],
        now_millis=now,
        options={"bucket": "-1", "write-only": "true"},
    )
    catalog.create_table(ORDERS, orders)
    catalog.create_table(VIEWS, views)


def write(warehouse: str, writer: int, commits: int) -> None:
    """Run one writer: commit to both tables in turn, and print a line per commit."""
    env = system_environment()
    random = np.random.default_rng(1_000 + writer)
    orders, views = open_table(warehouse, ORDERS), open_table(warehouse, VIEWS)
    for number in range(commits):
        rows, kinds = _orders(random, number * WRITERS + writer)
        into = RowWriter(orders, env=env)
        into.write(rows, kinds)
        commit(orders, into.prepare_commit(), user=f"writer-{writer}", identifier=number, env=env)
        print(ORDERS, flush=True)  # noqa: T201 - the parent process reads it
        for part in range(3):
            into = RowWriter(views, env=env)
            into.write(_views(random, writer))
            commit(
                views,
                into.prepare_commit(),
                user=f"writer-{writer}",
                identifier=number * 3 + part,
                env=env,
            )
            print(VIEWS, flush=True)  # noqa: T201 - as above


def _orders(random: np.random.Generator, round_: int) -> tuple[pa.Table, np.ndarray]:
    n = _ORDERS_A_COMMIT
    # Without duplicates, so that a commit never writes a key twice.
    ids = random.choice(_ORDER_IDS, n, replace=False)
    quantity = random.integers(1, 9, n)
    price = random.integers(199, 49_999, n)
    discount = (price * random.choice([0.0, 0.05, 0.1, 0.25], n)).astype(np.int64)
    # A key must always belong to the same day.
    created = _START_MILLIS + (ids % len(DAYS)) * 86_400_000 + ids * 997 % 86_400_000
    paid = created + random.integers(1_000, 600_000, n)
    status = random.choice(["created", "paid", "packed", "shipped", "delivered"], n)
    columns = {
        "order_id": pa.array(ids, pa.int64()),
        "dt": _pick(DAYS, ids % len(DAYS)),
        "customer_id": pa.array(ids * 7919 % 9_000, pa.int64()),
        "product_id": pa.array(random.integers(1, 4_000, n), pa.int64()),
        "sku": _named("SKU-", random.integers(1, 4_000, n)),
        "product_name": _named("Product number ", random.integers(1, 4_000, n)),
        "category": _pick(
            ("books", "garden", "kitchen", "music", "toys"), random.integers(0, 5, n)
        ),
        "brand": _named("brand-", random.integers(1, 80, n)),
        "quantity": pa.array(quantity, pa.int32()),
        "price": _decimal(price, 10),
        "discount": _decimal(discount, 10),
        "amount": _decimal((price - discount) * quantity, 12),
        "currency": _pick(("EUR", "USD", "GBP"), random.integers(0, 3, n)),
        "status": pa.array(status),
        "payment_method": _pick(("card", "invoice", "wallet"), random.integers(0, 3, n)),
        "coupon": _named("C", random.integers(0, 99, n), nulls=random.random(n) < 0.7),
        "is_gift": pa.array(random.random(n) < 0.1),
        "country": _pick(("DE", "FR", "GB", "US"), ids % 4),
        "city": _named("City ", ids * 31 % 900),
        "street": _named("Long Street ", ids * 17 % 2_000),
        "carrier": _pick(("post", "courier"), random.integers(0, 2, n)),
        "tracking_number": _named("TRK00", random.integers(10**9, 10**10, n)),
        "weight_kg": pa.array(np.round(random.gamma(2.0, 1.5, n), 3)),
        "created_at": _millis(created),
        "paid_at": _millis(paid),
        "shipped_at": _millis(paid + 3_600_000, nulls=status != "shipped"),
        # Time increases with each round; within a round, the later write of a key wins.
        "binlog_time": pa.array(
            _START_MILLIS + round_ * 60_000 + random.integers(0, 60_000, n), pa.int64()
        ),
    }
    kinds = random.choice([_INSERT, _UPDATE], n).astype(np.int8)
    kinds[random.random(n) < _DELETED_SHARE] = _DELETE
    return pa.table(columns), kinds


def orders_of(day: str) -> tuple[pa.Table, np.ndarray]:
    """Rows of one day and their kinds, for an uncommitted write."""
    rows, kinds = _orders(np.random.default_rng(7), 0)
    wanted = np.flatnonzero(np.array(rows.column("dt").to_pylist()) == day)
    return rows.take(pa.array(wanted)), kinds[wanted]


def _views(random: np.random.Generator, writer: int) -> pa.Table:
    n = _VIEWS_A_COMMIT
    return pa.table(
        {
            "view_id": pa.array(random.integers(0, 2**62, n) * WRITERS + writer, pa.int64()),
            "customer_id": pa.array(random.integers(0, 9_000, n), pa.int64()),
            "url": _named("https://shop.example.com/item/", random.integers(1, 4_000, n)),
            "referrer": _pick(("search", "mail", "direct"), random.integers(0, 3, n)),
            "user_agent": _named("Browser/", random.integers(80, 140, n)),
            "milliseconds": pa.array(random.integers(5, 3_000, n), pa.int32()),
            "viewed_at": _millis(_START_MILLIS + random.integers(0, 3 * 86_400_000, n)),
        }
    )


def _pick(words: tuple[str, ...], which: np.ndarray) -> pa.Array:
    return pa.array(words).take(pa.array(which))


def _named(prefix: str, numbers: np.ndarray, *, nulls: np.ndarray | None = None) -> pa.Array:
    texts = np.char.add(prefix, numbers.astype(str))
    return pa.array(texts.tolist(), pa.string(), mask=nulls)


def _decimal(cents: np.ndarray, precision: int) -> pa.Array:
    """Non-negative amounts of money as decimals."""
    # Arrow's decimals are integers of 16 bytes, low half first.
    halves = np.stack([cents.astype(np.int64), np.zeros(len(cents), np.int64)], axis=1)
    return pa.Array.from_buffers(
        pa.decimal128(precision, 2), len(cents), [None, pa.py_buffer(halves.tobytes())]
    )


def _millis(values: np.ndarray, *, nulls: np.ndarray | None = None) -> pa.Array:
    return pa.array(values, pa.timestamp("ms"), mask=nulls)


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
