"""The jobs that keep tables healthy, and everything that runs them.

::

    cli            the command line                 spark_app   many tables in one Spark application
    resolve        what a run is given: typed arguments, policy, defaults -> request (JSON for Spark)
    runner         inspect -> plan -> guards -> re-check -> execute -> commit -> verify -> report
    jobs/<job>     what one job does: its plan and its work; jobs never import each other
    job            the shape of a job and its arguments        spark, engine   where units run
    guards, report, metrics, tables, health
    plan, exit_codes

A layer imports only what stands below it.  Nothing here knows Airflow; only `spark` knows PySpark.
"""
