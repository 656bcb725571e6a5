"""Clients of catalogs' servers: they know requests, answers, retries and errors.

::

    hive_lock     the lock of a Hive metastore on a table
      `-- hive_client   calls over Thrift: servers, retries, errors
            `-- thrift_calls   the calls and structs that Paimon needs
                  `-- thrift_struct   structs that keep undeclared fields
    rest_client   requests to a REST catalog, retries, errors
      `-- rest_auth     bearer tokens and DLF signatures

What the requests are for is up to catalogs, and to commits that publish Iceberg metadata.
"""
