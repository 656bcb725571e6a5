"""A row of a table with data evolution lies in several files, so metadata columns are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_core.errors import UnsupportedFeature
from paimon_core.table.batch_scan import batch_scan_of
from paimon_core.table.open import open_table
from paimon_spark.sql.frames.metadata_columns import placed_rows, scanned_rows

GOLDEN = Path(__file__).parents[2] / "golden" / "newer" / "kinds" / "data_evolution" / "warehouse"


def test_metadata_columns_are_refused() -> None:
    table = open_table(str(GOLDEN), "db.t")
    with pytest.raises(UnsupportedFeature, match="data-evolution"):
        scanned_rows(batch_scan_of(table), {"__paimon_file_path"})
    with pytest.raises(UnsupportedFeature, match="data-evolution"):
        placed_rows(table, table.snapshots.latest())
