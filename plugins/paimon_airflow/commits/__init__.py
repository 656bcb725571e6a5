"""Maintenance on commit: the watcher that starts a run, and the task that compacts.

::

    trigger    fires when tables of a lake have new commits
    operator   compacts the partitions that these commits changed
      `-- on_commit  calls `maintenance` for both
"""
