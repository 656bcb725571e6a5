"""Verification: whether everything a table refers to is there and fits together."""
