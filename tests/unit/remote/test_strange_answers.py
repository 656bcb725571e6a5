"""Answers of a REST catalog that are not what its API says: an error that names the request."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from lakes import Lake

from paimon_core.catalog.rest import token_io
from paimon_core.catalog.rest.functions import RestFunctions
from paimon_core.catalog.rest.rest_catalog import RestCatalog
from paimon_core.errors import InvalidArgument, PaimonError, StorageError
from paimon_core.io.store_options import REQUEST_DEADLINE as DEADLINE
from paimon_core.remote import rest_client
from paimon_core.remote.rest_client import RestClient
from paimon_core.snapshot.snapshot_json import snapshot_to_json

FIELDS: Final = [{"id": 0, "name": "k", "type": "INT"}]
OPTIONS: Final = {"options": {"a": "b"}}
PAGE: Final = {"nextPageToken": None}
COUNTS: Final = ("recordCount", "fileSizeInBytes", "fileCount", "lastFileCreationTime")
DB: Final = "/v1/databases/db"
MISSING: Final = object()
ODD: Final[tuple[Any, ...]] = (
    *(MISSING, None, True, -1, 2**70, 1.5, "", "x", "a\0b", "\ud800"),
    *([], {}, [1], [None], [{}], [[]], {"a": None}, {"a": {}}),
)
NESTED: Final = b'{"a":' * 50_000 + b"1" + b"}" * 50_000


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The answer to each path, of a catalog with one table of one commit."""
    lake = Lake(tmp_path)
    lake.log()
    lake.append({"k": [1], "v": ["a"]})
    snapshot = json.loads(snapshot_to_json(lake.table().latest_or_not_found()))
    table = {"id": "1", "name": "t", "path": lake.table().root, "isExternal": False, "schemaId": 0}
    schema = {"fields": FIELDS, **OPTIONS}
    view = {"query": "q", "dialects": {"spark": "s"}, "comment": "c", **schema}
    sql = {"spark": {"type": "sql", "definition": "1"}}
    function = {"inputParams": FIELDS, "returnParams": FIELDS, "definitions": sql, "comment": "c"}
    partition = {"spec": {"a": "b"}, **dict.fromkeys(COUNTS, 1), "totalBuckets": 1}
    hour = int(time.time() * 1000) + 3_600_000
    found: dict[str, Any] = {
        "/v1/config": {"defaults": {"a": "b"}, "overrides": {"c": "d"}},
        "/v1/databases": {"databases": ["db"], **PAGE},
        DB: {"location": "/x", **OPTIONS},
        f"{DB}/table-details": {"tableDetails": [{**table, "schema": schema}], **PAGE},
        f"{DB}/views": {"views": ["w"], **PAGE},
        f"{DB}/views/w": {"schema": view},
        f"{DB}/functions": {"functions": ["f"], **PAGE},
        f"{DB}/functions/f": {**function, **OPTIONS},
        f"{DB}/tables/t": {**table, "schema": schema},
        f"{DB}/tables/t/snapshot": {"snapshot": {"snapshot": snapshot}},
        f"{DB}/tables/t/partitions": {"partitions": [partition], **PAGE},
        f"{DB}/tables/t/token": {"token": {"a": "b"}, "expiresAtMillis": hour},
    }

    def answer(_: RestClient, request: Any, __: float) -> httpx.Response:
        given = found[request.path]
        content = given if isinstance(given, bytes) else json.dumps(given).encode()
        return httpx.Response(200, content=content)

    monkeypatch.setattr(RestClient, "_once", answer)
    monkeypatch.setattr(rest_client, "_MOST_PAGES", 10)
    return found


def connected(**options: str) -> RestCatalog:
    return RestCatalog.connect({"uri": "u", "token.provider": "bear", "token": "t", **options})


def sql_of_function() -> str | None:
    found = RestFunctions(connected().client).find("db.f")
    return None if found is None else found.sql


def text_of_view() -> str | None:
    found = connected().views.find("db.w")
    return None if found is None else found.text() + json.dumps(found.schema())


def first_listing() -> Any:
    token_io._opened.clear()
    return connected(**{"data-token.enabled": "true"}).get_table("db.t").snapshots.ids()


def newest_snapshot() -> Any:
    return connected().get_table("db.t").snapshots.latest()


READS: Final[dict[str, Callable[[], Any]]] = {
    "/v1/config": connected,
    "/v1/databases": lambda: ",".join(connected().list_databases()),
    DB: lambda: connected().get_database("db"),
    f"{DB}/table-details": lambda: ",".join(connected().list_tables("db")),
    f"{DB}/views": lambda: connected().list_others("db"),
    f"{DB}/views/w": text_of_view,
    f"{DB}/functions": lambda: RestFunctions(connected().client).names("db"),
    f"{DB}/functions/f": sql_of_function,
    f"{DB}/tables/t": lambda: connected().get_table("db.t"),
    f"{DB}/tables/t/snapshot": newest_snapshot,
    f"{DB}/tables/t/partitions": lambda: connected().list_partitions("db.t"),
    f"{DB}/tables/t/token": first_listing,
}


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    if not isinstance(value, dict | list):
        return
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        yield from places(one, (*at, key))


def changed(value: Any, at: tuple[Any, ...], odd: Any) -> Any:
    if not at:
        return NESTED if odd is MISSING else odd
    value = deepcopy(value)
    parent = value
    for key in at[:-1]:
        parent = parent[key]
    if odd is MISSING:
        del parent[at[-1]]
    else:
        parent[at[-1]] = odd
    return value


@pytest.mark.parametrize("path", READS)
def test_only_errors_of_our_own(path: str, answers: dict[str, Any]) -> None:
    good = answers[path]
    READS[path]()
    for at in places(good):
        for odd in ODD:
            answers[path] = changed(good, at, odd)
            try:
                READS[path]()
            except PaimonError:
                continue


@pytest.mark.parametrize(
    ("path", "at", "odd", "message"),
    [
        (f"{DB}/tables/t", "isExternal", "false", "does not say whether table db.t is external"),
        (f"{DB}/tables/t/snapshot", "snapshot", {}, "GET .*/snapshot with something unreadable"),
        (f"{DB}/tables/t/partitions", "partitions", [{}], "GET .*/partitions .*KeyError 'spec'"),
        ("/v1/databases", "nextPageToken", "again", "keeps listing /v1/databases"),
        ("/v1/databases", "databases", "db", "databases is no list"),
        (f"{DB}/views/w", "schema", {"fields": []}, "GET .*/views/w .*'query'"),
    ],
)
def test_what_is_refused(
    path: str, at: str, odd: Any, message: str, answers: dict[str, Any]
) -> None:
    answers[path] = changed(answers[path], (at,), odd)
    with pytest.raises(StorageError, match=message):
        READS[path]()


@pytest.mark.parametrize("uri", ["http://[::1", "http://x:abc", "http://xn--/"])
def test_a_uri_that_is_none(uri: str) -> None:
    with pytest.raises(InvalidArgument, match="options uri"):
        RestClient.connect({"uri": uri, "token.provider": "bear", "token": "t"})


def test_an_answer_that_never_ends() -> None:
    """A byte now and then keeps each wait short, and the deadline is for the whole answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):  # the client goes
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                for _ in range(1200):
                    connection.sendall(b" ")
                    time.sleep(0.05)

        threading.Thread(target=drip, daemon=True).start()
        uri = f"http://127.0.0.1:{server.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(StorageError, match="the answer does not end"):
            RestClient.connect(
                {"uri": uri, "token.provider": "bear", "token": "t", DEADLINE: "200 ms"}
            )
        assert time.monotonic() - begun < 30  # the answer would take a minute


def test_a_type_in_capitals(answers: dict[str, Any]) -> None:
    options = {"options": {"type": "MATERIALIZED-TABLE"}}
    answers[f"{DB}/table-details"]["tableDetails"][0]["schema"].update(options)
    answers[f"{DB}/tables/t"]["schema"].update(options)
    assert connected().list_tables("db") == ["t"]
    assert [other.name for other in connected().list_others("db")] == ["w"]
    assert connected().get_table("db.t").name == "db.t"
