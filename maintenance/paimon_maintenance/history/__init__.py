"""What was planned, run and skipped on which table, in a SQL database.

::

    entry       one line of the history, made of a plan or of a report's JSON; light
    migrations  the tables of the database, version by version
    store       opens the database, writes and reads entries (SQLAlchemy, any URL)

A history never fails a job: what cannot be written is logged, and the report says so.
"""
