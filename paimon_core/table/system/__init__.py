"""System tables: a table's metadata and changes, as tables (Java: `table/system/*`).

::

    db.t$snapshots  db.t$tags  db.t$branches  db.t$consumers      versions and who holds them
    db.t$schemas    db.t$options    db.t$aggregation_fields       how rows are kept
    db.t$files  db.t$manifests  db.t$partitions  db.t$buckets     what is live in a snapshot
    db.t$statistics                                               what ANALYZE found out
    db.t$audit_log  db.t$binlog                                   rows with their kinds

Columns, types and values are Java's: 1.4's, with the columns that 2.0 added where the table lives
with 2.0.  Times are the wall clock of a zone that the reader names.
"""
