"""Rolls back a table to another version, and manages its branches."""
