"""Tables that are not committed to, because their external catalog could not be told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.features import check_committable
from paimon_core.table.open import open_table

HIVE = {"storage": "hive-catalog", "uri": "thrift://127.0.0.1:9083"}
REST = {"storage": "rest-catalog", "rest.uri": "http://127.0.0.1:1"}
REFUSED: list[tuple[Mapping[str, str], str]] = [
    ({"storage": "hive-catalog"}, "needs the option uri"),
    (HIVE | {"uri": "http://127.0.0.1"}, "not the address of a Hive metastore"),
    (HIVE | {"hive-conf-dir": "/missing"}, "hive-site.xml"),
    (HIVE | {"hive-client-class": "com.example.Glue"}, "com.example.Glue"),
    ({"storage": "rest-catalog"}, "needs the option uri"),
    (REST | {"rest.rest.sigv4-enabled": "true"}, "rest.sigv4-enabled=true"),
    (REST | {"rest.rest.auth.type": "basic"}, "rest.auth.type=basic"),
    (REST | {"format-version": "3"}, "format-version above 2"),
    ({"storage": "brand-new"}, "brand-new"),
]


def _check(golden: Callable[..., Any], options: Mapping[str, str]) -> None:
    given = {f"metadata.iceberg.{k}": v for k, v in options.items()}
    check_committable(open_table(str(golden("dedup").warehouse), "db.t", dynamic_options=given))


@pytest.mark.parametrize("options", [HIVE, REST], ids=["hive", "rest"])
def test_what_can_be_registered(golden: Callable[..., Any], options: Mapping[str, str]) -> None:
    """No server is asked before the commit."""
    _check(golden, options)


@pytest.mark.parametrize(("options", "why"), REFUSED)
def test_what_cannot_be_registered(
    golden: Callable[..., Any], options: Mapping[str, str], why: str
) -> None:
    with pytest.raises(UnsupportedFeature) as caught:
        _check(golden, options)
    assert "metadata.iceberg.storage" in caught.value.feature
    assert why in caught.value.feature


@pytest.mark.parametrize(("options", "package"), [(HIVE, "thrift"), (REST, "httpx")])
def test_a_missing_package_is_noticed_before_the_commit(
    golden: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    options: Mapping[str, str],
    package: str,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnsupportedFeature, match=f"the package {package}"):
        _check(golden, options)


def test_a_broken_variable_is_named_without_its_content(
    golden: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARETAKER_ICEBERG", '{"token": "x-secret"')
    with pytest.raises((UnsupportedFeature, InvalidArgument), match="CARETAKER_ICEBERG") as caught:
        _check(golden, REST)
    assert "x-secret" not in str(caught.value)
