"""Tables of a Hive metastore (Java: `hive/HiveCatalog`).

::

    hive_catalog   databases, tables, renames
      |-- repair        entries for the tables whose files are there
      |-- metastore     the entries of the metastore, and the files of their tables
      |-- tables        Hive's description of a Paimon table
      |-- views         views of the catalog
      |-- folders       whether a folder is the table's own
      |-- partitions    partitions that the metastore keeps for other engines
      `-- lock          the lock of the metastore on a table

The client of a metastore is in `remote`.
"""
