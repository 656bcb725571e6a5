"""Expires, resets and clears consumers."""
