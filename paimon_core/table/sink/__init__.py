"""Writes to tables: sessions, deletions, compaction, and what follows each commit.

Java: `table/sink/*`.
"""
