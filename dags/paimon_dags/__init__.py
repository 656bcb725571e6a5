"""Caretaker's own DAGs: one for each job, and one for each schedule of the policy.

::

    job_dags      the DAGs: a form over a task group of `paimon_airflow`
       |
       |-- form       the form: Airflow Params from the job's definition
       |-- docs       the page of a DAG in Markdown
       |
    pages         schedule, first fields and operator's notes of each job
    settings      caretaker.toml: warehouse, connections, batches, schedules
"""
