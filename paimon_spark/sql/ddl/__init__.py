"""Statements that define databases, tables, partitions and tags."""
