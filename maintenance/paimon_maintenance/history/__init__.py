"""The history of plans, runs and skips in a SQL database.

::

    entry       one line of the history, from a plan or from the JSON of a report; light
    migrations  the tables of the database, version by version
    store       opens the database, writes and reads entries (SQLAlchemy, any URL)

The history never fails a job: write errors are logged and reported as warnings.
"""
