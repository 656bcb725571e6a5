"""Verification: checks that all files of a table exist and are consistent."""
