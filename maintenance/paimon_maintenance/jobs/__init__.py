"""One folder per job: `definition` (light: name, help, arguments), and its plan and execution.

`registry` lists the jobs.  Jobs never import each other.
"""
