"""Tables of a Hive metastore (Java: `hive/HiveCatalog`).

::

    hive_catalog   databases, tables, renames
      |-- tables        Hive's description of a Paimon table
      |-- folders       whether a folder is the table's own
      |-- partitions    partitions that the metastore keeps for other engines
      `-- lock          the lock of the metastore on a table

The client of a metastore is in `remote`.
"""
