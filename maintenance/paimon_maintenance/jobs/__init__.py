"""One folder a job: `definition` (light: names, help, arguments), `plan`, `execute`.

`registry` lists the jobs.  They never import each other.
"""
