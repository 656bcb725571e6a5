"""Batch reads, as a data source and as DataFrames."""
