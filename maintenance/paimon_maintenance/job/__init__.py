"""The definition of a job: arguments, plan, guards, report and exit codes."""
