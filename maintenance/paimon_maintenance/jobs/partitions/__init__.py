"""Expires, drops and marks partitions."""
