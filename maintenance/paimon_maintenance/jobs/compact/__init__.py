"""Compaction: fewer, larger, merged files with the same rows (Paimon's procedure `compact`)."""
