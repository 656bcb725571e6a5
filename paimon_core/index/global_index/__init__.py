"""Global indexes of tables with data evolution: from the values of a column to ids of rows."""

from typing import Final

BTREE: Final = "btree"
BITMAP: Final = "bitmap"
"""Index types."""
