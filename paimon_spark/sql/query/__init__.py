"""Queries, with the views and functions of catalogs."""
