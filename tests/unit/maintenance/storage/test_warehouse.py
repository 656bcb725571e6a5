"""One spelling for one warehouse."""

from __future__ import annotations

import pytest

from paimon_dags.settings import settings_from
from paimon_maintenance.storage.warehouse import canonical_warehouse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/lake", "/lake"),
        ("/lake/", "/lake"),
        ("/lake//x/./", "/lake/x"),
        ("/lake/../x", "/lake/../x"),  # `lake` may be a link
        ("/", "/"),
        ("lake", "HERE/lake"),
        ("./lake/", "HERE/lake"),
        (".", "HERE"),
        ("s3://lake/warehouse/", "s3://lake/warehouse"),
        ("s3://lake//", "s3://lake"),
        ("s3://lake/a//b", "s3://lake/a//b"),  # names of objects may hold two slashes
        ("file:///lake/", "file:///lake"),
        ("file:///", "file:///"),
        ("catalog:prod", "catalog:prod"),
        ("", ""),
    ],
)
def test_one_spelling(text, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert canonical_warehouse(text) == expected.replace("HERE", str(tmp_path))
    assert canonical_warehouse(canonical_warehouse(text)) == canonical_warehouse(text)


def test_airflow_spells_it_as_the_command_line_does():
    assert settings_from({"caretaker": {"warehouse": "/lake/"}}, environ={}).warehouse == "/lake"
    environ = {"CARETAKER_WAREHOUSE": "s3://lake/"}
    assert settings_from({}, environ=environ).warehouse == "s3://lake"
