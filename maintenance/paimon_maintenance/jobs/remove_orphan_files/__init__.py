"""Finds orphan files and deletes them or moves them to a quarantine."""
