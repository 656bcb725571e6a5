"""Snapshots beyond their retention go, and the files that only they need."""
