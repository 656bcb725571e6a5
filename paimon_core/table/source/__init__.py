"""Batch and streaming reads of tables (Java: `table/source/*`)."""
