"""Deletes snapshots beyond their retention, and the files that only they need."""
