"""The tasks that plan a job, wait for approval, run it in the worker, and report.

::

    operators           plan, in_process, report: tasks of the task groups
    scheduler_operator  one round of the scheduler
      |-- jobs      lists tables, plans them, and runs them in the worker's process
      `-- approval  a person approves a plan before its job runs
"""
