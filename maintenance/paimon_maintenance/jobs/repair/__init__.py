"""Repair of what verification finds."""
