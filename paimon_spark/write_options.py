"""Options of writes that SQL and the DataFrame source share.

Java: `SparkConnectorOptions`.  `source` imports PySpark, which SQL without Spark does not.
"""

from __future__ import annotations

from typing import Final

MERGE_SCHEMA: Final = "write.merge-schema"
EXPLICIT_CAST: Final = "write.merge-schema.explicit-cast"
TYPE_WIDENING: Final = "write.merge-schema.type-widening"
"""As in 2.0, false by default; 1.4, which does not know it, always widens."""
