"""Statistics of a table and its columns, for the planners of query engines (ANALYZE TABLE)."""
