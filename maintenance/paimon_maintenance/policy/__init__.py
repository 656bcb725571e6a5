"""The policy: one YAML file that assigns jobs, schedules and options to tables.

::

    load       reads and checks the file     -> Policy, or one error with file, line and key
    model      Policy -> TablePolicy -> JobPolicy, the settings for one table
    needs      goals, limits and windows of a table, and the budget of the scheduler
    load_needs reads these from the file
    windows    time windows
    yaml_node  a YAML node with its line and its key path
    schedule   validates cron expressions

These modules import only the standard library, PyYAML and job definitions, because DAG files load a
policy at every parse.
"""
