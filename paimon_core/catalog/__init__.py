"""Databases and tables by name, and who makes a table's commits.

::

    catalog       what every kind of catalog can do
    open          from Paimon's options to a catalog
    table_files   the schemas in a table's folder, for all but rest
    lock          a lock around commits, for jdbc and hive
    filesystem    folders below a warehouse
    jdbc          rows in a database, and a lock: jdbc_database, jdbc_lock
    hive          a Hive metastore, its lock and its partitions: hive_client, hive_thrift,
                  thrift_struct, hive_tables, hive_lock, hive_partitions
    rest          a server that makes the commits: rest_client, rest_auth, rest_json, rest_commit,
                  and token_io for the credentials that it gives
"""
