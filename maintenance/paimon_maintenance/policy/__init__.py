"""The policy: one YAML file that says which tables get which jobs, when, and how.

::

    load      reads and checks the file     -> Policy, or one error that names file, line and key
    model     Policy -> TablePolicy -> JobPolicy, what holds for one table
    place     a YAML node with its line and its path from the top
    schedule  what a cron expression may look like

Everything here imports the standard library, PyYAML and the definitions of jobs only: a DAG file
may load a policy each time it is parsed.
"""
