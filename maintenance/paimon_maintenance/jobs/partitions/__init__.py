"""Partitions: expired by time, dropped by hand, marked as done."""
