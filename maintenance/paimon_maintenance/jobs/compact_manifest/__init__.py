"""Merges manifests."""
