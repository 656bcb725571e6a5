"""The option `commit.user-prefix`."""

from __future__ import annotations

import pytest
from lakes import ENV, Lake

from paimon_core.commit.commit_user import new_commit_user
from paimon_core.errors import InvalidArgument


def test_the_user_of_a_commit_begins_with_the_prefix(lake: Lake) -> None:
    lake.primary_key(**{"commit.user-prefix": "nightly"})
    lake.fill(1)
    table = lake.table()
    first, second = new_commit_user(table, ENV), new_commit_user(table, ENV)
    assert first.startswith("nightly_")
    assert second.startswith("nightly_")
    assert first != second


def test_a_prefix_that_is_a_path_is_refused(lake: Lake) -> None:
    """Names of files hold the user, where the buckets are postponed."""
    lake.primary_key()
    table = lake.table(**{"commit.user-prefix": "../other"})
    with pytest.raises(InvalidArgument, match=r"commit\.user-prefix"):
        new_commit_user(table, ENV)
