"""The jobs that keep tables healthy, and everything that runs them.

::

    cli            the command line                 spark_app   many tables in one Spark application
    policy         the policy file, and which value counts: typed, policy, table option, default
    registry       every job by its name
    jobs/<job>     what one job does: its plan and its work; jobs never import each other
    run            inspect -> plan -> guards -> re-check -> execute -> commit -> verify -> report
    verify         whether everything that a table refers to is there and fits together
    history        what ran                         health      the state of a table, with advice
    storage        the lease, the ledger of changes, the clock, requests in bulk
    engines        where units of work run: in this process or on Spark
    rules          retention, partition times, tag periods and other rules that jobs share
    job            what a job is: arguments, plan, guards, report, exit codes

A layer imports only what stands below it.  Nothing here knows Airflow; only `engines.spark` knows
PySpark.
"""
