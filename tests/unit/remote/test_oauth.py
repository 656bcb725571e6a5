"""Tokens for a credential, from a server in this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs

import pytest

from paimon_core.errors import StorageAccessDenied, StorageError
from paimon_core.remote.oauth import OAuthClient
from paimon_core.remote.rest_auth import Request, utc_now

REQUEST = Request("GET", "/v1/config", {}, "")


class _Server(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.forms: list[dict[str, list[str]]] = []
        self.status = 200
        self.answer: object = {"access_token": "first", "expires_in": 600}


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.forms.append(parse_qs(text))
        content = json.dumps(self.server.answer).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[_Server]:
    made = _Server()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def test_a_token_is_kept_until_it_expires(server: _Server) -> None:
    client = OAuthClient(f"http://127.0.0.1:{server.server_port}/t", "user:secret-word", "catalog")
    now = utc_now()
    assert client.headers(REQUEST, now) == {"Authorization": "Bearer first"}
    server.answer = {"access_token": "second"}
    assert client.headers(REQUEST, now + timedelta(seconds=500))["Authorization"] == "Bearer first"
    assert client.headers(REQUEST, now + timedelta(seconds=541))["Authorization"] == "Bearer second"
    assert [f["client_id"] + f["client_secret"] for f in server.forms] == [
        ["user", "secret-word"]
    ] * 2
    assert server.forms[0]["grant_type"] == ["client_credentials"]
    assert "secret-word" not in repr(client)


@pytest.mark.parametrize(
    ("status", "error"), [(401, StorageAccessDenied), (500, StorageError), (200, StorageError)]
)
def test_no_token(server: _Server, status: int, error: type[Exception]) -> None:
    server.status, server.answer = status, {"access": "secret-answer"}
    client = OAuthClient(f"http://127.0.0.1:{server.server_port}/t", "secret-word", "catalog")
    with pytest.raises(error) as caught:
        client.headers(REQUEST, utc_now())
    assert type(caught.value) is error
    assert "secret" not in str(caught.value)
