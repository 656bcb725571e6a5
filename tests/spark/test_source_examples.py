"""The examples of docs/spark-source.md run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.catalog.open import open_catalog
from paimon_core.ddl.create import Column, create_schema

pytestmark = pytest.mark.spark

DOCUMENT = Path(__file__).parents[2] / "docs" / "spark-source.md"


def test_the_examples_run(session: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions

    catalog = FileSystemCatalog(str(tmp_path))
    catalog.create_database("shop")
    orders = create_schema(
        [
            Column("id", "INT NOT NULL"),
            Column("day", "STRING NOT NULL"),
            Column("amount", "DECIMAL(10, 2)"),
        ],
        now_millis=0,
        primary_keys=["day", "id"],
        partition_keys=["day"],
        options={"bucket": "2"},
    )
    catalog.create_table("shop.orders", orders)
    log = create_schema([Column("id", "INT"), Column("text", "STRING")], now_millis=0)
    catalog.create_table("shop.log", log)
    catalog_db, catalog_warehouse = f"{tmp_path}/catalog.db", f"{tmp_path}/of-catalog"
    jdbc = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{catalog_db}", "warehouse": catalog_warehouse}
    of_catalog = open_catalog(jdbc)
    of_catalog.create_database("shop")
    of_catalog.create_table("shop.orders", orders)
    blocks = re.findall(
        r"^```python\n(.*?)^```", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(blocks) > 10
    names: dict[str, Any] = {
        "spark": session,
        "warehouse": str(tmp_path),
        "F": functions,
        "catalog_db": catalog_db,
        "catalog_warehouse": catalog_warehouse,
    }
    for block in blocks:
        exec(compile(block, str(DOCUMENT), "exec"), names)
