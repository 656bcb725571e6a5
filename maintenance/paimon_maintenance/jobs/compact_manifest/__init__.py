"""Merging manifests."""
