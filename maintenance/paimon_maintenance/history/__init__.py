"""The history of plans, runs and skips in a SQL database.

::

    entry       one line of the history, from a plan or from the JSON of a report; light
    migrations  the tables of the database, version by version (Alembic)
    migrate     brings a database to the newest version
    scoped_store    what the stores of one warehouse share, in the same database
      need_store      what the scheduler measured, decided and claimed
      position_store  up to which snapshot tables are maintained on commit
      alert_store     which alerts are open, and who got them
    status      one line for each table: health, size and next job
    lake_view   reads all tables: list, totals over time
    table_view  reads one table: health, scores, decisions, runs
    work_view   reads what maintenance did: by job, by table, failures, predictions
    orphans     what the last search for orphan files found
    report      what maintenance did in a period, from all of it
    retention   deletes what is older than the history's own retention
    store       opens the database, writes and reads entries (SQLAlchemy, any URL)

The history of runs never fails a job: write errors are logged and reported as warnings.
"""
