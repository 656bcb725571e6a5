"""Paimon tables in Spark, without Java: SQL over the core.

This package knows pyspark and `paimon_core`, and nothing of the jobs: `CALL` reaches them through
the protocol `paimon_spark.sql.procedures.Procedures`, which `paimon_maintenance` implements.
"""
