"""The services that a caller passes to functions that delete versions of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paimon_core.environment import Environment
from paimon_core.reachability.release import Delete, delete_here


def unfenced() -> None:
    """The fence of a caller without a lease: do nothing."""


@dataclass(frozen=True, slots=True)
class Deleting:
    """`fence` runs before each change and raises if the caller must stop; `delete` deletes files.

    `leased`: whether the caller holds the lease on the table; a writer does not.
    """

    env: Environment
    fence: Callable[[], None] = unfenced
    delete: Delete = delete_here
    leased: bool = False
