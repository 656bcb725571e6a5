"""Spark in Airflow: the task with one Spark application per batch of tables, and Spark inside a task.

::

    operator              the task on_spark of the task groups
      |-- application_runs  the runs of an application: start, batch, reports
      `-- submission        spark-submit: the binary, Python, the packages that executors need
    engine                Spark inside the tasks of the scheduler and of maintenance on commit
"""
