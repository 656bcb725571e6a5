"""Parquet data files: reading, writing, and copying column chunks without decoding them."""
