"""System tables: a table's metadata and changes as tables (Java: `table/system/*`).

::

    db.t$snapshots  db.t$tags  db.t$branches  db.t$consumers      versions and their holders
    db.t$schemas    db.t$options    db.t$aggregation_fields       how rows are stored
    db.t$files  db.t$manifests  db.t$partitions  db.t$buckets     what is live in a snapshot
    db.t$statistics                                               the result of ANALYZE
    db.t$audit_log  db.t$binlog                                   rows with their kinds

Columns, types and values are those of Java 1.4, plus the columns that 2.0 added if Java 2.0 writes
the table.  Times are wall clock times in the zone that the reader chooses.
"""
