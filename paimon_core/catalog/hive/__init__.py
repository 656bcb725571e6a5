"""Tables of a Hive metastore (Java: `hive/HiveCatalog`).

::

    hive_catalog   databases, tables, locks, renames
      |-- client        calls over Thrift: servers, retries, errors
      |     `-- thrift_calls   the calls and structs that Paimon needs
      |           `-- thrift_struct   structs that keep undeclared fields
      |-- tables        Hive's description of a Paimon table
      |-- partitions    partitions that the metastore keeps for other engines
      `-- lock          the lock of the metastore on a table
"""
