"""What Caretaker adds to Airflow: thin operators over `maintenance`.

::

    operators  the four steps of every DAG: plan -> in process | on Spark -> report
       |
       |-- jobs      the way into `maintenance`: list, plan, run (imported when a task runs)
       |-- spark     spark-submit: the binary, Python, the packages that executors need
       |-- batches   which tables share a Spark application
       `-- results   what happened to each table, and whether a retry helps

Airflow imports this package whenever it parses DAGs, so no module here imports pyspark, pyarrow,
paimon_core, maintenance or a provider at its top.
"""
