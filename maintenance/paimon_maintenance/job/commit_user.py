"""The commit users of a run: each one is unique and contains the run id.

All batch commits have the same commit identifier, so every commit needs its own user
(java-rules A5).  The run id makes it possible to find the snapshots of a run that wrote no report.
"""

from __future__ import annotations

_PREFIX = "caretaker-"


def commit_user(job: str, run_id: str, fresh: str) -> str:
    """The user for one commit or one attempt; `fresh` must be unique.

    Steps that commit several times append a suffix.
    """
    return f"{_PREFIX}{job}-{run_id}-{fresh}"


def pattern_of_run(run_id: str) -> str:
    """A pattern that matches all users of the run, with `*` for the variable parts."""
    return f"{_PREFIX}*-{run_id}-*"


def is_of_run(user: str, run_id: str) -> bool:
    """Whether this user belongs to the run or to a step of its job."""
    return user.startswith(_PREFIX) and f"-{run_id}-" in user
