"""The history of plans, runs and skips in a SQL database.

::

    entry       one line of the history, from a plan or from the JSON of a report; light
    migrations  the tables of the database, version by version
    need_store  what the scheduler measured, decided and claimed, in the same database
    orphans     what the last search for orphan files found
    store       opens the database, writes and reads entries (SQLAlchemy, any URL)

The history of runs never fails a job: write errors are logged and reported as warnings.
"""
