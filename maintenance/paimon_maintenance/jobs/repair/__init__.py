"""Repairs the findings of a verification."""
