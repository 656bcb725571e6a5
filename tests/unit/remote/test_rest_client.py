"""Requests to a REST catalog: retries, pages, deadlines and typed errors, on a server of the test's own."""

from __future__ import annotations

import gzip
import json
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from paimon_core.catalog.open import open_catalog
from paimon_core.catalog.rest import token_io
from paimon_core.catalog.rest.commit import RestSnapshotCommit
from paimon_core.catalog.rest.format_partitions import RestFormatPartitions
from paimon_core.catalog.rest.rest_catalog import RestCatalog
from paimon_core.catalog.rest.token_io import TokenFileIO
from paimon_core.catalog.rest.version_management import RestVersions
from paimon_core.ddl.create import Column, create_schema
from paimon_core.ddl.schema_change import RemoveOption
from paimon_core.errors import (
    AlreadyExists,
    InvalidArgument,
    StorageAccessDenied,
    StorageError,
    UnsupportedFeature,
)
from paimon_core.io.store_options import REQUEST_DEADLINE
from paimon_core.remote import rest_client
from paimon_core.remote.rest_auth import DlfAuth, DlfToken, Request, auth_of, default_headers
from paimon_core.remote.rest_client import ResourceNotFound, RestClient
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.snapshot.snapshot_commit import CommitAttempt
from paimon_core.snapshot.snapshot_json import snapshot_to_json

Answer = tuple[int, dict[str, str], object]
SILENT, CLOSED = 0, -1
"""No answer until the test ends, and a connection that ends without one."""


class _Server(ThreadingHTTPServer):
    """Answers each request with what the test queued, or with the last answer again."""

    daemon_threads = True
    block_on_close = False
    ended: threading.Event
    answers: ClassVar[list[Answer]] = []
    seen: ClassVar[list[tuple[str, str, dict[str, str], str]]] = []


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.server.seen.append((self.command, self.path, dict(self.headers), body))
        answers = self.server.answers
        status, headers, content = answers.pop(0) if len(answers) > 1 else answers[0]
        if status in (SILENT, CLOSED):
            if status == SILENT:
                self.server.ended.wait()
            self.close_connection = True
            return
        data = content.encode() if isinstance(content, str) else content
        if not isinstance(data, bytes):
            data = json.dumps(content).encode()
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - the handler's names

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[_Server]:
    found = _Server(("127.0.0.1", 0), _Handler)
    found.answers, found.seen, found.ended = [], [], threading.Event()
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.ended.set()
    found.shutdown()
    thread.join()
    found.server_close()


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def client(server: _Server, waits: list[float]) -> RestClient:
    options = {
        "uri": f"http://127.0.0.1:{server.server_port}",
        "token.provider": "bear",
        "token": "t",
        "prefix": "p/x",
        "header.X-Own": "own",
    }
    return RestClient(options, auth_of(options), waits.append)


def test_too_many_requests_and_unavailable_are_tried_again(
    server: _Server, client: RestClient, waits: list[float]
) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    server.answers[:] = [
        (429, {"Retry-After": "7"}, {}),
        (503, {}, {}),
        (503, {"Retry-After": soon}, {}),
        (200, {}, {"success": True}),
    ]
    assert client.post("/v1/c", {"a": "ä"}, retry_unavailable=True) == {"success": True}
    assert waits[0] == 7
    assert 2 <= waits[1] <= 2.2
    assert 30 < waits[2] <= 60
    assert {body for _, _, _, body in server.seen} == {'{"a": "ä"}'}
    _, _, headers, _ = server.seen[0]
    assert headers["Authorization"] == "Bearer t"
    assert headers["X-Own"] == "own"


def test_retries_end(server: _Server, client: RestClient, waits: list[float]) -> None:
    server.answers[:] = [(503, {}, {"message": "busy", "code": 503})]
    with pytest.raises(StorageError, match="busy"):
        client.get("/v1/c")
    assert len(server.seen) == 6
    server.seen.clear()
    server.answers[:] = [(429, {"Retry-After": "100000"}, {})]
    with pytest.raises(StorageError, match="429"):
        client.get("/v1/c")
    assert len(server.seen) == 1, "waiting would have passed the deadline"


def test_a_change_without_an_answer_is_not_repeated(server: _Server, client: RestClient) -> None:
    quick = replace(client, options={**client.options, "caretaker.request-deadline": "300 ms"})
    server.answers[:] = [(SILENT, {}, {})]
    started = time.monotonic()
    with pytest.raises(StorageError, match="did not answer"):
        quick.post("/v1/c", {})
    assert time.monotonic() - started < 30  # the default is 3 minutes
    assert len(server.seen) == 1


def _changes(client: RestClient) -> list[Callable[[], object]]:
    versions, catalog = RestVersions(client, "d.t"), RestCatalog(client)
    made = create_schema([Column("a", "INT")], now_millis=0)
    return [
        partial(catalog.create_database, "d"),
        partial(catalog.create_table, "d.t", made, if_not_exists=True),
        partial(catalog.replace_table, "d.t", made),
        partial(catalog.rename_table, "d.t", "d.u"),
        partial(catalog.alter_table, "d.t", [RemoveOption("k")], now_millis=0),
        partial(client.delete, "/v1/c"),
        partial(versions.drop_branch, "b"),
        partial(versions.fast_forward, "b"),
        partial(versions.rename_branch, "b", "c"),
        partial(versions.create_branch, "b"),
        partial(versions.rollback_to, 1, base=2),
        partial(versions.rollback_to, 1, tag="t", base=2),
    ]


@pytest.mark.parametrize("change", range(12))
@pytest.mark.parametrize("status", [503, CLOSED])
def test_a_change_that_may_have_been_made_is_not_made_again(
    server: _Server, client: RestClient, change: int, status: int
) -> None:
    """A second fast-forward, or replacement of a table, would remove what came after the first."""
    server.answers[:] = [(status, {}, {}), (200, {}, {})]
    with pytest.raises(StorageError, match="may have been made"):
        _changes(client)[change]()
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, InvalidArgument),
        (401, StorageAccessDenied),
        (403, StorageAccessDenied),
        (404, ResourceNotFound),
        (409, AlreadyExists),
        (500, StorageError),
        (501, UnsupportedFeature),
        (418, StorageError),
    ],
)
def test_answers_are_typed_by_their_code(
    server: _Server, client: RestClient, status: int, error: type[Exception]
) -> None:
    body = {"message": "why", "code": status, "resourceType": "TABLE"}
    server.answers[:] = [(status, {"x-request-id": "r7"}, body)]
    with pytest.raises(error, match=r"why \(request r7\)") as raised:
        client.delete("/v1/c")
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is error
    assert len(server.seen) == 1
    server.answers[:] = [(status, {}, "<html>not JSON</html>")]
    with pytest.raises(error, match="not JSON"):
        client.delete("/v1/c")


def test_the_code_in_the_body_counts(server: _Server, client: RestClient) -> None:
    server.answers[:] = [(404, {}, {"message": "not here", "code": 501})]
    with pytest.raises(UnsupportedFeature):
        client.get("/v1/c")


def test_something_that_is_not_json_is_no_answer(server: _Server, client: RestClient) -> None:
    server.answers[:] = [(200, {}, "<html>")]
    with pytest.raises(StorageError, match="not JSON"):
        client.get("/v1/c")


@pytest.mark.parametrize("content", ["", "[]", "null", '"maintenance"'])
def test_an_empty_answer_does_not_say_that_there_is_nothing(
    server: _Server, client: RestClient, content: str
) -> None:
    """A gateway gave it: a table would have no snapshots, a database no tables."""
    server.answers[:] = [(200, {}, content)] * 2
    with pytest.raises(StorageError, match="something that is no"):
        client.pages("/v1/databases", "databases")
    with pytest.raises(StorageError, match="something that is no"):
        RestSnapshotCommit(client, "db.t", "1").latest("main")


def test_an_answer_that_is_too_large(
    server: _Server, client: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes are counted as they come, and unpacked."""
    monkeypatch.setattr(rest_client, "_LARGEST_ANSWER", 1 << 20)
    bomb = gzip.compress(b" " * (8 << 20))
    server.answers[:] = [(200, {"Content-Encoding": "gzip"}, bomb)]
    with pytest.raises(StorageError, match="of more than 1 MB"):
        client.get("/v1/c")
    server.answers[:] = [(200, {"Content-Encoding": "gzip"}, gzip.compress(b'{"a": 1}'))]
    assert client.get("/v1/c") == {"a": 1}


def test_all_pages_are_read(server: _Server, client: RestClient) -> None:
    server.answers[:] = [
        (200, {}, {"names": ["a", "b"], "nextPageToken": "a b/+"}),
        (200, {}, {"names": ["c"], "nextPageToken": "2"}),
        (200, {}, {"names": [], "nextPageToken": "3"}),
    ]
    assert client.pages(client.path("databases", "d.b", "tables"), "names") == ["a", "b", "c"]
    assert server.seen[0][1] == "/v1/p%2Fx/databases/d.b/tables"
    assert server.seen[1][1].endswith("?pageToken=a%20b%2F%2B") or "a+b%2F%2B" in server.seen[1][1]
    assert len(server.seen) == 3


def test_partitions_of_format_tables(server: _Server, client: RestClient) -> None:
    """Pages of partitions may be empty; new ones are sent in parts, unless all must be new."""
    server.answers[:] = [
        (200, {}, {"partitions": [{"spec": {"p": "a"}}], "nextPageToken": "1"}),
        (200, {}, {"partitions": [], "nextPageToken": "2"}),
        (200, {}, {"partitions": [{"spec": {"p": "b"}, "recordCount": 0}]}),
        (200, {}, {}),
    ]
    partitions = RestFormatPartitions(client, "/v1/t")
    assert partitions.specs() == [{"p": "a"}, {"p": "b"}]
    many = [{"p": str(i)} for i in range(1001)]
    partitions.add(many, if_not_exists=True)
    partitions.add(many, if_not_exists=False)
    partitions.drop(many)
    sent = [(path, json.loads(body)) for command, path, _, body in server.seen if command == "POST"]
    assert [(path, len(body.pop("partitionSpecs")), body) for path, body in sent] == [
        ("/v1/t/partitions", 1000, {"ignoreIfExists": True}),
        ("/v1/t/partitions", 1, {"ignoreIfExists": True}),
        ("/v1/t/partitions", 1001, {"ignoreIfExists": False}),
        ("/v1/t/partitions/drop", 1000, {"ignoreIfNotExists": True}),
        ("/v1/t/partitions/drop", 1, {"ignoreIfNotExists": True}),
    ]
    server.answers[:] = [(409, {}, {"message": "exists", "code": 409})]
    with pytest.raises(AlreadyExists):
        partitions.add(many[:1], if_not_exists=False)


def test_the_servers_options_are_merged(server: _Server) -> None:
    server.answers[:] = [
        (
            200,
            {},
            {"defaults": {"prefix": "x", "token": "no"}, "overrides": {"uri2": "o", "n": None}},
        )
    ]
    options = {
        "metastore": "rest",
        "uri": f"http://127.0.0.1:{server.server_port}/",
        "token.provider": "bear",
        "token": "mine",
        "warehouse": "w",
    }
    catalog = open_catalog(options)
    assert catalog.metastore == "rest"
    assert server.seen[0][1] == "/v1/config?warehouse=w"
    client = RestClient.connect(options)
    assert client.options == {**options, "prefix": "x", "uri2": "o"}


def test_missing_and_unknown_options_are_named() -> None:
    rest = {"metastore": "rest"}
    with pytest.raises(InvalidArgument, match="uri"):
        open_catalog(rest)
    with pytest.raises(UnsupportedFeature, match=r"token\.provider"):
        open_catalog({**rest, "uri": "http://127.0.0.1:1", "token.provider": "kerberos"})
    with pytest.raises(InvalidArgument, match="token"):
        open_catalog({**rest, "uri": "http://127.0.0.1:1", "token.provider": "bear"})
    nowhere = {**rest, "uri": "http://127.0.0.1:1", "token.provider": "bear", "token": "t"}
    with pytest.raises(StorageError, match="did not answer"):
        open_catalog(nowhere)


# The expected value is that of Java's DLFAuthSignatureTest.
def test_a_dlf_signature_is_javas() -> None:
    options = {"a": "b"}
    body = json.dumps({"name": "database", "options": options}, separators=(",", ":"))
    token = DlfToken("access-key-id", "access-key-secret", "securityToken")
    headers = default_headers(
        Request("POST", "/v1/paimon/databases", {"k1": "v1", "k2": "v2"}, body),
        token,
        region="cn-hangzhou",
        now=datetime(2023, 12, 3, 12, 12, 12, tzinfo=UTC),
    )
    assert headers["Authorization"] == (
        "DLF4-HMAC-SHA256 Credential=access-key-id/20231203/cn-hangzhou/DlfNext/aliyun_v4_request,"
        "Signature=c72caf1d40b55b1905d891ee3e3de48a2f8bebefa7e39e4f277acc93c269c5e3"
    )


def test_a_dlf_key_in_a_file_is_read_again_before_it_expires(tmp_path: Path) -> None:
    file = tmp_path / "token.json"
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def write(key: str, expires: str) -> None:
        parts = {"AccessKeyId": key, "AccessKeySecret": "s", "Expiration": expires}
        file.write_text(json.dumps(parts))

    auth = auth_of(
        {"token.provider": "dlf", "uri": "https://cn-b.example", "dlf.token-path": str(file)}
    )
    assert isinstance(auth, DlfAuth)
    request = Request("GET", "/v1/config", {}, "")
    write("first", "2026-01-01T02:00:00Z")
    assert "=first/20260101/cn-b/" in auth.headers(request, now)["Authorization"]
    write("second", "2026-01-02T00:00:00Z")
    assert "=first/" in auth.headers(request, now)["Authorization"]
    later = now + timedelta(minutes=61)
    assert "=second/" in auth.headers(request, later)["Authorization"]
    file.write_text('{"AccessKeySecret": "s3cret"}')
    at_last = datetime(2026, 1, 1, 23, 59, tzinfo=UTC)
    assert "=second/" in auth.headers(request, at_last)["Authorization"], "while it is valid"
    with pytest.raises(StorageError) as unreadable:
        auth.headers(request, later + timedelta(days=1))
    assert "s3cret" not in str(unreadable.value)


def test_the_token_of_the_files_is_renewed_and_stays_out_of_pickles(
    server: _Server, client: RestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(token_io, "time", SimpleNamespace(time=lambda: now[0]))

    def answer(left: float) -> Answer:
        token = {"fs.x.secret": "s3cret"}
        return (200, {}, {"token": token, "expiresAtMillis": int((now[0] + left) * 1000)})

    (tmp_path / "a").write_bytes(b"1")
    io = TokenFileIO(client, "db.t", str(tmp_path))
    server.answers[:] = [answer(0.4), answer(7200), answer(7200)]
    assert io.read_bytes(f"{tmp_path}/a") == b"1"
    assert io.exists(f"{tmp_path}/a")
    assert len(server.seen) == 1
    now[0] += 0.25
    assert io.read_bytes(f"{tmp_path}/a") == b"1"
    assert len(server.seen) == 2
    assert io.list_dir(str(tmp_path))[0].size == 1
    assert len(server.seen) == 2
    assert server.seen[0][1] == "/v1/p%2Fx/databases/db/tables/t/token"
    assert b"s3cret" not in pickle.dumps(io)
    server.answers[:] = [(200, {}, {"token": None})]
    with pytest.raises(StorageError, match="no token"):
        TokenFileIO(client, "db.other", str(tmp_path)).exists("x")


def test_nobody_gets_the_storage_that_another_user_opened(
    server: _Server, client: RestClient, tmp_path: Path
) -> None:
    other = replace(client, options={**client.options, "token": "of another user"})
    server.answers[:] = [(200, {}, {"token": {}, "expiresAtMillis": 2**50})]
    for own in (client, other, client, other):
        TokenFileIO(own, "db.shared", str(tmp_path)).exists("x")
    assert len(server.seen) == 2


def test_a_catalog_that_gives_no_new_token_stops_nothing_while_the_old_one_is_valid(
    server: _Server, client: RestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(token_io, "time", SimpleNamespace(time=lambda: now[0]))
    io, file = TokenFileIO(client, "db.outage", str(tmp_path)), f"{tmp_path}/a"
    down = (500, {}, {"message": "down"})
    token = (200, {}, {"token": {}, "expiresAtMillis": 8_200_000})
    server.answers[:] = [token, down, down]
    assert not io.exists(file)
    for second, asked in ((4599, 1), (4601, 2), (4602, 2), (4902, 3)):
        now[0] = second
        assert not io.exists(file)
        assert len(server.seen) == asked
    now[0] = 8199
    server.answers[:] = [(403, {}, {"message": "no"}), down]
    with pytest.raises(StorageAccessDenied):
        io.exists(file)
    now[0] = 8201
    with pytest.raises(StorageError, match="down"):
        io.exists(file)


def test_threads_that_wait_for_a_token_wait_once(
    server: _Server, client: RestClient, tmp_path: Path
) -> None:
    """A catalog that is silent for minutes would else stop a job for hours."""
    hasty = replace(client, options={**client.options, REQUEST_DEADLINE: "3 s"})
    io = TokenFileIO(hasty, "db.silent", str(tmp_path))
    server.answers[:] = [(SILENT, {}, {})]

    def look(_: int) -> None:
        with pytest.raises(StorageError, match="did not answer"):
            io.exists("x")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(look, range(8)))
    assert len(server.seen) == 1
    look(0)
    assert len(server.seen) == 2, "whoever comes later asks again"


@pytest.mark.parametrize(
    ("status", "message"), [(503, "busy"), (409, "busy"), (200, "did not say")]
)
def test_a_commit_without_a_clear_answer_is_unknown_and_not_repeated(
    server: _Server, client: RestClient, status: int, message: str
) -> None:
    """StorageError means to the committer: look whether the snapshot is there."""
    server.answers[:] = [(status, {}, {"message": "busy"}), (200, {}, {"success": True})]
    commit = RestSnapshotCommit(client, "db.t", "id")
    attempt = CommitAttempt(branch="main", base=None, snapshot=_SNAPSHOT)
    with pytest.raises(StorageError, match=message):
        commit.commit(attempt, _never)
    assert len(server.seen) == 1


def test_a_commit_names_the_snapshot_that_it_follows(server: _Server, client: RestClient) -> None:
    server.answers[:] = [(429, {"Retry-After": "1"}, {}), (200, {}, {"success": False})]
    base = replace(_SNAPSHOT, extra={"uuid": "u-1"})
    attempt = CommitAttempt(branch="b", base=base, snapshot=replace(_SNAPSHOT, id=2))
    assert not RestSnapshotCommit(client, "db.t", "id").commit(attempt, _never)
    assert len(server.seen) == 2
    _, path, _, body = server.seen[1]
    assert path == "/v1/p%2Fx/databases/db/tables/t%24branch_b/commit"
    sent = json.loads(body)
    assert (sent["tableId"], sent["baseSnapshotUuid"], sent["snapshot"]["id"]) == ("id", "u-1", 2)


def test_the_newest_snapshot_is_what_the_server_says(server: _Server, client: RestClient) -> None:
    commit = RestSnapshotCommit(client, "db.t", "id")
    stored = json.loads(snapshot_to_json(_SNAPSHOT))
    server.answers[:] = [(200, {}, {"snapshot": {"snapshot": stored, "recordCount": 1}})]
    assert commit.latest("main") == _SNAPSHOT
    server.answers[:] = [(404, {}, {"code": 404, "resourceType": "SNAPSHOT", "message": "none"})]
    assert commit.latest("main") is None
    server.answers[:] = [(404, {}, {"code": 404, "resourceType": "TABLE", "message": "none"})]
    with pytest.raises(ResourceNotFound):
        commit.latest("main")
    server.answers[:] = [(200, {}, {"snapshot": {"snapshot": {"id": "x"}}})]
    with pytest.raises(StorageError, match="unreadable snapshot"):
        commit.latest("main")


def _never() -> bool:
    raise AssertionError("the server makes the commit")


_SNAPSHOT = Snapshot(
    id=1,
    schema_id=0,
    base_manifest_list="b",
    delta_manifest_list="d",
    commit_user="u",
    commit_identifier=1,
    commit_kind=CommitKind.APPEND,
    time_millis=5,
)


@pytest.mark.parametrize("able", [True, False])
def test_the_server_replaces_a_table_or_gets_a_new_one(
    server: _Server, client: RestClient, *, able: bool
) -> None:
    server.answers[:] = [(200 if able else 501, {}, {}), (200, {}, {})]
    schema = create_schema([Column("k", "INT")], now_millis=0)
    assert RestCatalog(client).replace_table("d.t", schema)
    table, made = "/v1/p%2Fx/databases/d/tables/t", "/v1/p%2Fx/databases/d/tables"
    instead = [] if able else [("DELETE", table), ("POST", made)]
    assert [s[:2] for s in server.seen] == [("POST", f"{table}/replace"), *instead]
    assert json.loads(server.seen[0][3])["schema"]["fields"][0]["name"] == "k"
