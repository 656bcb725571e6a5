"""The task that runs a job on a batch of tables in one Spark application.

::

    operator              the task on_spark of the task groups
      |-- application_runs  the runs of an application: start, batch, reports
      `-- submission        spark-submit: the binary, Python, the packages that executors need
"""
