"""Who is noted as the owner of what is made."""

from __future__ import annotations

import getpass
import os

import pytest

from paimon_core.environment import user_name


def test_a_user_without_an_account_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs as any user: its tables can be created."""

    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    assert user_name() == getpass.getuser()
    monkeypatch.setattr(getpass, "getuser", unknown)
    assert user_name() == str(os.getuid())
    monkeypatch.setenv("HADOOP_USER_NAME", "ann")
    assert user_name() == "ann"
