"""Writes: tasks make files, the driver commits them once."""
