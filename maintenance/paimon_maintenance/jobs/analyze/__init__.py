"""Collects statistics of a table and its columns for query planners (ANALYZE TABLE)."""
