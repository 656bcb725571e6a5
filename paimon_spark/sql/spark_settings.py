"""Settings of Spark that the SQL session goes by, too."""

from __future__ import annotations

from typing import Final

ZONE_KEY: Final = "spark.sql.session.timeZone"
OVERWRITE_MODE: Final = "spark.sql.sources.partitionOverwriteMode"
CASE_SENSITIVE: Final = "spark.sql.caseSensitive"
CHARACTERS_AS_STRINGS: Final = "spark.sql.legacy.charVarcharAsString"
READ_PADDING: Final = "spark.sql.readSideCharPadding"
ANSI: Final = "spark.sql.ansi.enabled"
DOUBLE_QUOTED_NAMES: Final = "spark.sql.ansi.doubleQuotedIdentifiers"
PARALLELISM: Final = "spark.default.parallelism"
OWN_SETTINGS: Final = frozenset(
    {
        ZONE_KEY,
        OVERWRITE_MODE,
        CASE_SENSITIVE,
        CHARACTERS_AS_STRINGS,
        READ_PADDING,
        ANSI,
        DOUBLE_QUOTED_NAMES,
    }
)
"""Those of this module."""
