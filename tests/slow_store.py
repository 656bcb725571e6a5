"""A proxy in front of the S3 server of `s3_store`: requests take a while, and fail by rule.

::

    with s3_server() as server, slow_store(server, delay_millis=30) as store:
        store.add(Fault("answer", kinds={CONDITIONAL_PUT}, key=r"/snapshot-\\d+$", times=2))
        io, root = open_file_io(store.new_root(), store.options)

Buckets are made past the proxy, so that its counts hold the product's requests alone.
"""

from __future__ import annotations

import http.client
import random
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from s3_store import S3Server

GET: Final = "get"
HEAD: Final = "head"
LIST: Final = "list"
PUT: Final = "put"
CONDITIONAL_PUT: Final = "conditional put"
COPY: Final = "copy"
DELETE: Final = "delete"
DELETE_MANY: Final = "delete many"
MULTIPART: Final = "multipart"
OTHER: Final = "other"

What = Literal["answer", "ignore condition", "reset", "hang", "lose reply", "delay", "no next page"]
_HOP_BY_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "expect"})
_REASONS: Final = {403: "Forbidden", 501: "Not Implemented", 503: "Slow Down"}


@dataclass(frozen=True)
class Request:
    """One request: its kind (see above), its key ("bucket/w/db.db/t/snapshot/LATEST"), the fault."""

    kind: str
    key: str
    fault: str | None


@dataclass(eq=False)
class Fault:
    """What happens to which requests.

    - "answer": the store is not asked; the client gets `status` with the error code `code`.
    - "ignore condition": `If-None-Match` is taken out, as by a store that does not know it.
    - "reset": the connection is reset before the store sees anything.
    - "hang": no reply for as long as the proxy lives; the store sees nothing.
    - "lose reply": the store does it, then the connection is reset.
    - "delay": the store does it after `delay_millis` more.
    - "no next page": a listing says that it goes on, but not where.
    - "keep": a deletion of many succeeds, but its reply says that each object failed: none is deleted.

    It applies to requests of these kinds whose key matches, after the first `skip`, at most `times`,
    and of those to a `share` by chance.
    """

    what: What
    kinds: set[str] | None = None
    key: str = ""
    skip: int = 0
    times: int | None = None
    share: float = 1.0
    status: int = 503
    code: str = "SlowDown"
    delay_millis: int = 0
    hits: int = 0
    _chance: random.Random = field(init=False, default_factory=lambda: random.Random(1))

    def takes(self, kind: str, key: str) -> bool:
        """Whether this request is one of those; counts it."""
        if self.kinds is not None and kind not in self.kinds:
            return False
        if not re.search(self.key, key):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        if self.share < 1 and self._chance.random() >= self.share:
            return False
        self.hits += 1
        return True


@dataclass
class SlowStore:
    """The running proxy; `options` are what `open_file_io` takes."""

    server: S3Server
    endpoint: str
    delay_millis: int
    requests: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    most_at_once: int = 0
    """The largest number of requests in flight since the last `clear`."""
    before: Callable[[str, str], None] | None = None
    """Called with kind and key before a request goes to the store; to run something just then."""
    _in_flight: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)
    one_at_a_time: threading.Lock = field(default_factory=threading.Lock)
    """In S3 a request is atomic; moto looks whether an object exists, then makes it, and its listing
    fails if an object goes meanwhile."""

    @property
    def options(self) -> dict[str, str]:
        return {**self.server.options, "s3.endpoint": self.endpoint}

    def new_root(self) -> str:
        """A folder in a new bucket."""
        return self.server.new_root()

    def add(self, fault: Fault) -> Fault:
        """Apply this rule from now on; the first rule that takes a request decides."""
        with self._lock:
            self.faults.append(fault)
        return fault

    def clear(self) -> None:
        """Forget all rules and counts."""
        with self._lock:
            self.faults.clear()
            self.requests.clear()
            self.most_at_once = 0

    @property
    def counts(self) -> Counter[str]:
        """How many requests of each kind came."""
        with self._lock:
            return Counter(r.kind for r in self.requests)

    def take(self, kind: str, key: str) -> Fault | None:
        """Record a request; the rule that applies to it."""
        with self._lock:
            fault = next((f for f in self.faults if f.takes(kind, key)), None)
            self.requests.append(Request(kind, key, None if fault is None else fault.what))
        return fault

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Count a request while it runs."""
        with self._lock:
            self._in_flight += 1
            self.most_at_once = max(self.most_at_once, self._in_flight)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1

    def hang(self) -> None:
        """Wait until the proxy ends."""
        self._ended.wait()

    def end(self) -> None:
        self._ended.set()


@contextmanager
def slow_store(server: S3Server, *, delay_millis: int = 0) -> Iterator[SlowStore]:
    """A proxy on a free port of the loopback; each request takes `delay_millis` more.

    Half of the delay comes before the store does it, half before the client hears of it.
    """
    target = urlsplit(server.options["s3.endpoint"])

    class Handler(_Handler):
        upstream = (str(target.hostname), int(target.port or 80))

    httpd = _Server(("127.0.0.1", 0), Handler)
    store = SlowStore(server, f"http://127.0.0.1:{httpd.server_address[1]}", delay_millis)
    Handler.store = store
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield store
    finally:
        store.end()
        httpd.shutdown()
        httpd.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that close their end are nothing to print."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    upstream: tuple[str, int]
    store: SlowStore

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is inherited
        """Requests are in `SlowStore.requests`."""

    def _handle(self) -> None:
        with self.store.in_flight():
            self._answer()

    def _answer(self) -> None:
        body = self._body()
        kind, key = _kind(self.command, self.path, self.headers), _key(self.path)
        fault = self.store.take(kind, key)
        what = None if fault is None else fault.what
        if fault is not None and what == "answer":
            return self._refuse(fault, key)
        if what == "keep":
            return self._keep(body)
        if what == "hang":
            self.store.hang()
        if what in ("hang", "reset"):
            return self._reset()
        half = self.store.delay_millis / 2000
        time.sleep(half + (fault.delay_millis / 1000 if fault is not None else 0))
        if self.store.before is not None:
            self.store.before(kind, key)
        with self.store.one_at_a_time:
            status, headers, content = self._forward(body, conditional=what != "ignore condition")
        time.sleep(half)
        if what == "lose reply":
            return self._reset()
        if what == "no next page":
            content = content.replace(b"<IsTruncated>false", b"<IsTruncated>true")
        return self._reply(status, headers, content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815 - http.server's names

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _forward(
        self, body: bytes, *, conditional: bool
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(*self.upstream, timeout=60)
        try:
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in self.headers.items():
                lower = name.lower()
                if lower in _HOP_BY_HOP or lower == "content-length":
                    continue
                if lower == "if-none-match" and not conditional:
                    continue
                connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    def _reply(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        sized = False
        for name, value in headers:
            lower = name.lower()
            if lower in _HOP_BY_HOP:
                continue
            if lower == "content-length":
                if self.command != "HEAD":
                    continue
                sized = True
            self.send_header(name, value)
        if not sized and status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _refuse(self, fault: Fault, key: str) -> None:
        content = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{fault.code}</Code>'
            f"<Message>{_REASONS.get(fault.status, fault.code)}</Message>"
            f"<Resource>/{key}</Resource></Error>"
        ).encode()
        self._reply(fault.status, [("Content-Type", "application/xml")], content)

    def _keep(self, body: bytes) -> None:
        errors = b"".join(
            b"<Error><Key>%s</Key><Code>InternalError</Code><Message>Again</Message></Error>" % key
            for key in re.findall(rb"<Key>(.*?)</Key>", body)
        )
        content = b"<DeleteResult>%s</DeleteResult>" % errors
        self._reply(200, [("Content-Type", "application/xml")], content)

    def _reset(self) -> None:
        self.close_connection = True
        # A linger time of 0 makes the close a reset instead of an orderly end.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


def _key(path: str) -> str:
    return unquote(urlsplit(path).path).lstrip("/")


def _kind(method: str, path: str, headers: Mapping[str, str]) -> str:
    query = parse_qs(urlsplit(path).query, keep_blank_values=True)
    if {"uploads", "uploadId"} & query.keys():
        return MULTIPART
    if method == "PUT":
        if headers.get("x-amz-copy-source"):
            return COPY
        return CONDITIONAL_PUT if headers.get("If-None-Match") else PUT
    if method == "POST" and "delete" in query:
        return DELETE_MANY
    if method == "GET":
        return GET if "/" in _key(path).rstrip("/") else LIST
    return {"HEAD": HEAD, "DELETE": DELETE}.get(method, OTHER)
