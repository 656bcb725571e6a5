"""A row of a table with data evolution lies in several files, so metadata columns are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_core.errors import UnsupportedFeature
from paimon_core.table.open import open_table
from paimon_core.table.source.batch_scan import batch_scan_of
from paimon_core.table.source.placed_rows import file_units, scan_units

GOLDEN = Path(__file__).parents[2] / "golden" / "newer" / "kinds" / "data_evolution" / "warehouse"


def test_metadata_columns_are_refused() -> None:
    table = open_table(str(GOLDEN), "db.t")
    with pytest.raises(UnsupportedFeature, match="data-evolution"):
        scan_units(batch_scan_of(table), needs_files=True)
    with pytest.raises(UnsupportedFeature, match="data-evolution"):
        file_units(table, table.snapshots.latest())
