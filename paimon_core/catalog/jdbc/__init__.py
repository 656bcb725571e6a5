"""Databases and tables as rows of SQLite or PostgreSQL (Java: `jdbc/JdbcCatalog`).

::

    jdbc_catalog          databases and tables
      |-- database        connections and tables of the catalog's own database
      |-- table_rows      the rows of one table
      |-- views           views of the catalog
      `-- lock            the lock on a table: a row that expires
"""
