"""Iceberg's own REST catalog server, and a proxy before it that loses replies."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from oracle import end_jvm

_POM = Path(__file__).parent / "iceberg_rest" / "pom.xml"
_STARTED_SECONDS = 60.0


def _class_path() -> str:
    """The jars of the server, which Maven brings once."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "paimon-oracle" / "iceberg-rest"
    folder.mkdir(parents=True, exist_ok=True)
    jars = folder / f"lib-{hashlib.sha256(_POM.read_bytes()).hexdigest()[:16]}"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (jars / "ok").exists():
            shutil.rmtree(jars, ignore_errors=True)
            copy = ["mvn", "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies"]
            subprocess.run([*copy, f"-DoutputDirectory={jars}"], check=True)
            (jars / "ok").touch()
    return f"{jars}/*"


class IcebergRestServer:
    """A server with its tables in memory, behind a proxy at `uri`; a start costs two seconds."""

    def __init__(self, place: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._process = subprocess.Popen(
            [
                *("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", _class_path()),
                "org.apache.iceberg.rest.RESTCatalogServer",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ
            | {
                "CATALOG_REST_PORT": str(port),
                "CATALOG_WAREHOUSE": str(place),
                "CATALOG_CATALOG__IMPL": "org.apache.iceberg.inmemory.InMemoryCatalog",
            },
        )
        _wait_for(f"http://127.0.0.1:{port}/v1/config", self._process)
        self._proxy = _Proxy(port)
        self.uri = f"http://127.0.0.1:{self._proxy.server_port}"
        threading.Thread(target=self._proxy.serve_forever, daemon=True).start()

    @contextmanager
    def losing_replies(self) -> Iterator[list[str]]:
        """Every change succeeds, and its first answer is 502; the changes whose answers were lost."""
        self._proxy.lost = lost = []
        yield lost
        self._proxy.lost = None

    @contextmanager
    def down(self) -> Iterator[None]:
        """The server answers nothing but 500."""
        self._proxy.down = True
        yield
        self._proxy.down = False

    @property
    def requests(self) -> list[tuple[str, str, dict[str, str]]]:
        """Methods, paths and headers of all requests so far."""
        return self._proxy.requests

    def end(self) -> None:
        self._proxy.shutdown()
        self._proxy.server_close()
        end_jvm(self._process)


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _STARTED_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the Iceberg REST server does not start")


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port = port
        self.lost: list[str] | None = None
        self.down = False
        self.requests: list[tuple[str, str, dict[str, str]]] = []


class _Handler(BaseHTTPRequestHandler):
    server: _Proxy
    protocol_version = "HTTP/1.1"

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((self.command, self.path, dict(self.headers)))
        if self.server.down:
            self._answer(500, b"")
            return
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.port)
        headers = {k: v for k, v in self.headers.items() if k.lower() != "host"}
        headers["Accept-Encoding"] = "identity"
        upstream.request(self.command, self.path, body or None, headers)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        if self.server.lost is not None and self._is_lost(self.server.lost, body):
            self._answer(502, b"")
            return
        self._answer(answer.status, content)

    def _is_lost(self, lost: list[str], body: bytes) -> bool:
        """Whether this is the first such change; a repetition has other requirements at most."""
        if self.command not in ("POST", "DELETE"):
            return False
        found: dict[str, Any] = json.loads(body) if body else {}
        actions = ",".join(u["action"] for u in found.get("updates", ()))
        change = f"{self.command} {self.path} {actions}"
        if change in lost:
            return False
        lost.append(change)
        return True

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815 - names of the standard library

    def log_message(self, *_: object) -> None:
        """Nothing: the tests look at what was asked."""
