"""Builds and drops global indexes."""
