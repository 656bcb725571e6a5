"""The users of a run's commits: each is fresh, and each tells which run it belongs to.

Batch commits all carry the same identifier, so every commit needs a user of its own
(java-rules A5).  The run's id in it lets others find the snapshots of a run that left no report.
"""

from __future__ import annotations

_PREFIX = "caretaker-"


def commit_user(job: str, run_id: str, fresh: str) -> str:
    """The user for one commit, or for one attempt; `fresh` must not have been used before.

    Steps that commit several times append to it.
    """
    return f"{_PREFIX}{job}-{run_id}-{fresh}"


def pattern_of_run(run_id: str) -> str:
    """What all users of the run look like, with `*` for what differs."""
    return f"{_PREFIX}*-{run_id}-*"


def is_of_run(user: str, run_id: str) -> bool:
    """Whether `commit_user` made this user for the run, also for a step of the run's job."""
    return user.startswith(_PREFIX) and f"-{run_id}-" in user
