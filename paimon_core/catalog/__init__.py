"""Databases and tables by name, and who makes a table's commits.

::

    catalog       what every kind of catalog can do
    open          from Paimon's options to a catalog
    filesystem    folders below a warehouse
    jdbc          rows in a database, and a lock: jdbc_database, jdbc_lock
    rest          a server that makes the commits: rest_client, rest_auth, rest_json, rest_commit,
                  and token_io for the credentials that it gives
"""
