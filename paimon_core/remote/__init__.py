"""Clients of catalogs' servers: they know requests, answers, retries and errors.

::

    hive_client   calls of a Hive metastore over Thrift: servers, retries, errors
      `-- thrift_calls   the calls and structs that Paimon needs
            `-- thrift_struct   structs that keep undeclared fields
    iceberg_rest  requests to an Iceberg REST catalog
      |-- rest_client   requests, retries, errors; also of Paimon's REST catalogs
      |     `-- rest_auth   bearer tokens and DLF signatures
      `-- oauth         tokens for a credential

What the requests are for is up to catalogs, and to commits that publish Iceberg metadata.
"""
