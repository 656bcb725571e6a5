"""The user of a commit: a new one for each batch (Java: `CoreOptions.createCommitUser`)."""

from __future__ import annotations

from paimon_core.environment import Environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import COMMIT_USER_PREFIX


def new_commit_user(table: FileStoreTable, env: Environment) -> str:
    """A user that no commit has yet; it begins with the option `commit.user-prefix`, if set."""
    prefix = table.options.value(COMMIT_USER_PREFIX)
    return env.new_uuid() if prefix is None else f"{prefix}_{env.new_uuid()}"
