"""Tables of a REST server that owns schemas and commits (Java: `rest/RESTCatalog`).

::

    rest_catalog   databases and tables
      |-- payloads             JSON of requests and answers
      |-- commit               commits through the server
      |-- version_management   branches, tags and rollback through the server
      |-- views                views of the catalog
      `-- token_io             storage with credentials of the server

The client is in `remote`.
"""
