"""Manifest entries as columns and as records."""
