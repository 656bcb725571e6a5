"""Databases and tables by name, and who makes a table's commits.

::

    catalog       what every kind of catalog can do
    open          from Paimon's options to a catalog
    table_files   the schemas in a table's folder, for all but rest
    lock          a lock around commits, for jdbc and hive
    views         queries under names, for rest, jdbc and hive
    filesystem    folders below a warehouse
    jdbc          rows in a database, and a lock
    hive          a Hive metastore, its lock and its partitions
    rest          a server that makes the commits, and storage with the credentials that it gives

The clients of servers are in `remote`.
"""
