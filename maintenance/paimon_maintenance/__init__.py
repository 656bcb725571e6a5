"""The table maintenance jobs and everything that runs them.

::

    cli            the command line                 spark_app   many tables in one Spark application
    schedule       what is worth running now, within a budget
    policy         the policy file and the precedence of its values
    registry       all jobs by name
    jobs/<job>     one job: its plan and its execution; jobs never import each other
    run            inspect -> plan -> guards -> re-check -> execute -> commit -> verify -> report
    verify         checks that the files of a table exist and are consistent
    history        a record of all runs, and of what the scheduler measured and decided
    health         the health score of a table, with reasons; advice
    storage        the lease, the change ledger, the clock check, bulk requests
    engines        where units of work run: in this process or on Spark
    rules          shared rules: retention, partition times, tag periods
    job            the definition of a job: arguments, plan, guards, report, exit codes

A layer imports only the layers below it.  No module here imports Airflow; only `engines.spark`
imports PySpark.
"""
