"""Paimon tables as DataFrames, and DataFrames as commits."""
