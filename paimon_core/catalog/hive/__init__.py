"""Tables of a Hive metastore (Java: `hive/HiveCatalog`).

::

    hive_catalog   databases, tables, renames
      |-- tables        Hive's description of a Paimon table
      `-- partitions    partitions that the metastore keeps for other engines

The client and the lock of a metastore are in `remote`.
"""
