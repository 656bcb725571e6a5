"""The factory of Caretaker's DAGs: plain data first, Airflow's objects last.

::

    pages      which jobs have a DAG, its schedule, notes for the operator
    settings   caretaker.toml: warehouse, connection, batches, schedules
    shape      form, steps and order of a DAG as frozen dataclasses
       |
    job_shape  page + the job's own definition (`paimon_maintenance.registry`) -> shape
       |         form: its fields    docs: its Markdown
       |
    airflow_dag  shape -> airflow.sdk.DAG
"""
