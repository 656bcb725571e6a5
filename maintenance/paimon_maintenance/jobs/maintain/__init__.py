"""Runs all due maintenance of a table, in Java's order, with one read of its metadata."""
