"""Requests to a REST catalog (Java: `rest/HttpClient`, `rest/RESTApi`, `rest/ResourcePaths`).

Answers 429 and 503 are tried again with growing waits, as the server asks for; a request without an
answer only if it changes nothing.  All attempts of a request end within
`caretaker.request-deadline`.  Answers are input: their size, nesting and content are checked.
"""

from __future__ import annotations

import json
import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus

from paimon_core.errors import (
    UNREADABLE,
    AlreadyExists,
    InvalidArgument,
    NotFound,
    PaimonError,
    StorageAccessDenied,
    StorageError,
    UnsupportedFeature,
    how_to_get,
)
from paimon_core.io.json_text import parse_json
from paimon_core.io.store_options import REQUEST_DEADLINE
from paimon_core.io.store_retries import RetryReason, note_retry
from paimon_core.names import checked_text, checked_texts
from paimon_core.options import parse_duration_millis
from paimon_core.remote.rest_auth import Auth, Request, auth_of, utc_now

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

_HEADER: Final = "header."
_MAX_RETRIES: Final = 5
_TOO_MANY: Final = 429
_RETRIED: Final = frozenset({_TOO_MANY, 503})
_SERVER_ERROR: Final = 500
_PERHAPS_MADE: Final = "the change may have been made: look, and run again if it was not"
_CONNECT_SECONDS: Final = 30.0
_DEFAULT_DEADLINE: Final = "3 min"
_LONGEST_MESSAGE: Final = 500
_MOST_PAGES: Final = 100_000
_LARGEST_ANSWER: Final = 256 << 20
_CONFIG: Final = "/v1/config"


def name_of(found: object) -> str:
    """A name in an answer, read as in `reading`."""
    return checked_text(found, "a name")


@dataclass(frozen=True, slots=True)
class RestClient:
    """Sends requests for one catalog.  Picklable; `options` are merged with the server's."""

    options: Mapping[str, str] = field(repr=False)
    auth: Auth = field(repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    @classmethod
    def connect(cls, options: Mapping[str, str]) -> RestClient:
        """A client with the options that the server's `/v1/config` adds."""
        check_httpx()
        if not options.get("uri"):
            raise InvalidArgument("a REST catalog needs the option uri")
        warehouse = options.get("warehouse")
        parameters = {"warehouse": quote_plus(warehouse)} if warehouse else {}
        return cls.configured(options, auth_of(options), parameters)

    @classmethod
    def configured(
        cls, options: Mapping[str, str], auth: Auth, parameters: Mapping[str, str]
    ) -> RestClient:
        """A client with the options that the server's answer to `/v1/config` adds."""
        config = cls(options, auth).get(_CONFIG, parameters)
        with reading(_CONFIG):
            defaults, overrides = config.get("defaults") or {}, config.get("overrides") or {}
            return cls(checked_texts({**defaults, **options, **overrides}, "the options"), auth)

    @property
    def uri(self) -> str:
        uri = self.options["uri"].rstrip("/")
        return uri if uri.startswith(("http://", "https://")) else f"http://{uri}"

    def path(self, *parts: str) -> str:
        """The path of a resource: `parts` after version and prefix, each encoded."""
        prefix = self.options.get("prefix")
        known = [prefix, *parts] if prefix else list(parts)
        return "/".join(["/v1", *map(quote_plus, known)])

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The JSON object of the answer."""
        return self._send("GET", path, parameters or {}, None)

    def post(
        self, path: str, body: Mapping[str, object], *, retry_unavailable: bool = False
    ) -> dict[str, Any]:
        """The JSON object of the answer; empty if there is none.

        503 is an error at once: what answered it may have passed the request on, and a second one
        would find what the first has made, or change what others have made since.  With
        `retry_unavailable`, for requests that do no harm twice, it is sent again.
        """
        retried = _RETRIED if retry_unavailable else frozenset({_TOO_MANY})
        return self._send("POST", path, {}, body, retried)

    def delete(self, path: str, parameters: Mapping[str, str] | None = None) -> None:
        """Delete the resource.

        Does not retry after 503: by the next attempt, another client may have created a new
        resource with the same name.
        """
        self._send("DELETE", path, parameters or {}, None, frozenset({_TOO_MANY}))

    def pages(
        self, path: str, key: str, read: Callable[[Any], Any] = name_of, *, sparse: bool = False
    ) -> list[Any]:
        """The elements of all pages, by default names; `read` takes them as in `reading`.

        An empty page is the last one unless pages may be `sparse`.
        """
        found: list[Any] = []
        parameters: dict[str, str] = {}
        tokens: set[str] = set()
        while len(tokens) < _MOST_PAGES:
            page = self.get(path, parameters)
            elements, token = page.get(key) or [], page.get("nextPageToken")
            with reading(path):
                if not isinstance(elements, list):
                    raise TypeError(f"{key} is no list")
                found += map(read, elements)
            if not token or not (elements or sparse):
                return found
            parameters = {"pageToken": str(token)}
            if parameters["pageToken"] in tokens:
                break
            tokens.add(parameters["pageToken"])
        raise StorageError(f"the REST catalog keeps listing {path} without an end", file=path)

    def _send(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str],
        body: Mapping[str, object] | None,
        retried: frozenset[int] = _RETRIED,
    ) -> dict[str, Any]:
        import httpx  # noqa: PLC0415 - an extra

        text = "" if body is None else json.dumps(body, ensure_ascii=False)
        request = Request(method, path, parameters, text)
        limit = parse_duration_millis(self.options.get(REQUEST_DEADLINE, _DEFAULT_DEADLINE)) / 1000
        deadline = time.monotonic() + limit
        for attempt in range(_MAX_RETRIES + 1):
            left = deadline - time.monotonic()
            try:
                answer = self._once(request, max(left, 0.001))
            except (httpx.InvalidURL, UnicodeError) as e:
                raise InvalidArgument(
                    "no request can be made of the options uri, token and header.* of the REST catalog",
                    next_step="correct them; a URL and headers have printable ASCII characters only",
                ) from e
            except httpx.HTTPError as e:
                wait = _wait_seconds(attempt, None)
                last = attempt == _MAX_RETRIES or time.monotonic() + wait > deadline
                final = isinstance(e, (httpx.TimeoutException, httpx.ConnectError))
                reason = RetryReason.CONNECTION
                if last or final or method != "GET":
                    raise StorageError(
                        f"the REST catalog did not answer {method} {path}: {type(e).__name__} {e}",
                        file=path,
                        next_step="check that the catalog runs at the option uri"
                        + ("" if method == "GET" else f"; {_PERHAPS_MADE}"),
                    ) from e
            else:
                if answer.status_code not in retried:
                    return _answered(request, answer)
                wait = _wait_seconds(attempt, answer.headers.get("Retry-After"))
                reason = RetryReason.THROTTLED
                if attempt == _MAX_RETRIES or time.monotonic() + wait > deadline:
                    return _answered(request, answer)
            note_retry(reason, wait)
            log.info("request=%s %s tried again in %.1f s", method, path, wait)
            self.sleep(wait)
        raise AssertionError("unreachable")

    def _once(self, request: Request, seconds: float) -> httpx.Response:
        import httpx  # noqa: PLC0415 - an extra

        headers = {
            key.removeprefix(_HEADER): value
            for key, value in self.options.items()
            if key.startswith(_HEADER)
        }
        if request.body:
            headers["Content-Type"] = "application/json"
        headers |= self.auth.headers(request, utc_now())
        deadline = time.monotonic() + seconds
        with _http(os.getpid()).stream(
            request.method,
            self.uri + request.path,
            params=dict(request.parameters) or None,
            content=request.body.encode() if request.body else None,
            headers=headers,
            timeout=httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS)),
        ) as answer:
            content = bytearray()
            for part in answer.iter_bytes():
                content += part
                if len(content) > _LARGEST_ANSWER:
                    raise _strange(request, f"of more than {_LARGEST_ANSWER >> 20} MB")
                if time.monotonic() > deadline:  # the client's own timeout is for each part
                    raise httpx.ReadTimeout("the answer does not end")
            headers_left = [(k, v) for k, v in answer.headers.items() if k != "content-encoding"]
            return httpx.Response(answer.status_code, headers=headers_left, content=bytes(content))


@lru_cache(maxsize=1)
def _http(process: int) -> httpx.Client:  # noqa: ARG001 - connections do not survive a fork
    import httpx  # noqa: PLC0415 - an extra

    return httpx.Client(follow_redirects=False)


def check_httpx() -> None:
    """InvalidArgument without the package that sends requests."""
    try:
        import httpx  # noqa: F401, PLC0415 - an extra
    except ModuleNotFoundError as e:
        raise InvalidArgument(
            "a REST catalog needs the package httpx, which is not installed",
            next_step=how_to_get("rest"),
        ) from e


def _wait_seconds(attempt: int, retry_after: str | None) -> float:
    """How long to wait: what the server says, in seconds or as a date, else doubling from 1 s."""
    if retry_after is not None:
        try:
            asked = float(retry_after)
        except ValueError:
            asked = _seconds_until(retry_after)
        if asked > 0:
            return asked
    delay = float(min(2**attempt, 64))
    return delay + random.random() * delay * 0.1  # noqa: S311 - spreads retries


def _seconds_until(date: str) -> float:
    try:
        return (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def _answered(request: Request, answer: httpx.Response) -> dict[str, Any]:
    if answer.status_code in (200, 202, 204):
        is_question = request.method == "GET"
        if not answer.content.strip() and not is_question:
            return {}
        try:
            found = parse_json(answer.content)
        except ValueError:
            raise _strange(request, "that is not JSON") from None
        if isinstance(found, dict):
            return found
        if is_question:  # no answer, not an empty one
            raise _strange(request, "that is no JSON object")
        return {}
    raise _error(request, answer)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """The block takes the answer to a GET of this path apart.

    Raises StorageError if the answer does not hold what the API says.
    """
    try:
        yield
    except PaimonError as e:
        if not isinstance(e, InvalidArgument):
            raise
        raise _strange(Request("GET", path, {}, ""), f"unreadable: {e.message}") from e
    except UNREADABLE as e:
        what = f"unreadable: {type(e).__name__} {e}"
        raise _strange(Request("GET", path, {}, ""), what) from e


def _strange(request: Request, what: str) -> StorageError:
    return StorageError(
        f"the REST catalog answered {request.method} {request.path} with something {what}",
        file=request.path,
        next_step="check that the option uri names the catalog, and what a gateway in front of it does"
        + ("" if request.method == "GET" else f"; {_PERHAPS_MADE}"),
    )


def _error(request: Request, answer: httpx.Response) -> PaimonError:
    """The typed error of an answer; `resource_type` says what a NotFound is about."""
    try:
        parts = parse_json(answer.content)
    except ValueError:
        parts = None
    if not isinstance(parts, dict):
        parts = {"message": answer.text}
    if isinstance(parts.get("error"), dict):
        parts = parts["error"]  # as Iceberg's catalogs answer
    status = parts.get("code")
    status = status if isinstance(status, int) else answer.status_code
    said = str(parts.get("message") or answer.reason_phrase)[:_LONGEST_MESSAGE]
    identity = next((v for k, v in answer.headers.items() if "request-id" in k.lower()), None)
    message = f"the REST catalog answered {status} to {request.method} {request.path}: {said}"
    if identity is not None:
        message += f" (request {identity})"
    error: PaimonError
    match status:
        case 400:
            error = InvalidArgument(message)
        case 401 | 403:
            error = StorageAccessDenied(
                message,
                next_step="check the token or key in the catalog's options, and its permissions",
            )
        case 404:
            error = ResourceNotFound(message, resource_type=str(parts.get("resourceType") or ""))
        case 409:
            error = AlreadyExists(message)
        case 501:
            error = UnsupportedFeature(f"{request.method} {request.path}", message)
        case _:
            error = StorageError(message, file=request.path)
            if request.method != "GET" and status >= _SERVER_ERROR:
                error.next_step = _PERHAPS_MADE
    return error


class ResourceNotFound(NotFound):
    """A NotFound of the catalog; `resource_type` is DATABASE, TABLE, SNAPSHOT, BRANCH, TAG, ..."""

    def __init__(self, message: str, *, resource_type: str) -> None:
        super().__init__(message)
        self.resource_type = resource_type
