"""Iceberg metadata of a commit (Java: `IcebergCommitCallback`)."""
