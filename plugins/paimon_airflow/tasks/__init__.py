"""What all tasks of Caretaker share: the request, the connection, results, assets and links.

::

    job_task        the base of the tasks: builds the request, keeps results across retries
      |-- job_request   what a run is asked to do: one job on many tables
      |-- credentials   options of the store from an Airflow connection
      |-- results       what happened to each table, and whether a retry helps
      |-- from_reports  results from the reports and errors of `maintenance`
      `-- report_text   the results of many tables as text
    batches         which tables share a Spark application
    assets          tables as Airflow assets, partitions as their keys
    links           links from tasks to the page of a table, and to the UI of Spark
    lineage         tables as datasets of OpenLineage
    spark_engine    Spark inside a task
"""
