"""BLOB data files: one column of large values, each a range of bytes that can be read alone."""
