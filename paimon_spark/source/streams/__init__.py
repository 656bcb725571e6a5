"""Micro-batches from and to tables, and joins of streams with tables."""
