"""S3 through s3fs, with one owner of retries and deadlines.

aiohttp, botocore and s3fs each retry on their own, and the retries multiply: an overloaded store
fails only after 25 requests, and a silent one only after minutes. Here each of them sends a request
once, and this module decides:

- Each request has a time limit, and so has the *chain* of its retries (`deadline_seconds`, plus a
  second for every MiB that moves).  The body of an object is part of the chain.
- Transient failures are retried: broken connections, timeouts, 429 and 5xx.
- Permanent failures are not: rejected credentials raise StorageAccessDenied at once.
- A chain that ends without a usable reply is a StorageError that names the object and the last
  reply.  A conditional PUT is reported as failed only if no request of the chain can have taken
  effect; otherwise the error says that the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

import aiohttp
from aiobotocore.httpsession import AIOHTTPSession
from botocore.exceptions import (
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
from botocore.exceptions import (
    ConnectionError as ConnectionFailed,
)
from botocore.parsers import ResponseParserError
from s3fs import S3FileSystem

from paimon_core.errors import StorageAccessDenied, StorageError
from paimon_core.io.store_retries import RetryReason, note_retry
from paimon_core.retry import backoff_millis

DEADLINE_SECONDS: Final = 60.0
_MOST_ATTEMPTS: Final = 8
_CONNECT_SECONDS: Final = 5.0
_MOST_CONNECTIONS: Final = 64
"""The number of requests in flight: of the 32 threads of several tables; botocore has 10."""
_IDLE_SHARE: Final = 3
"""The number of unanswered requests that fit into the deadline."""
_LEAST_BYTES_PER_SECOND: Final = 1024**2
_LEAST_WAIT_MILLIS: Final = 200
_MOST_WAIT_MILLIS: Final = 5_000

_NO_CREDENTIALS: Final = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    TokenRetrievalError,
    SSOError,
)
_BROKEN: Final = (
    ConnectionFailed,
    HTTPClientError,
    ResponseParserError,
    aiohttp.ClientError,
    asyncio.TimeoutError,
    OSError,
)
"""Connection failures and invalid replies."""

_DENIED_CODES: Final = frozenset(
    {
        "AccessDenied",
        "AccountProblem",
        "AllAccessDisabled",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidToken",
        "NotSignedUp",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "UnrecognizedClientException",
    }
)
_DENIED_STATUSES: Final = frozenset({401, 403})
_PASSING_CODES: Final = frozenset(
    {
        "BadDigest",
        "ConditionalRequestConflict",  # another conditional request for the key is under way
        "InternalError",
        "OperationAborted",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
        "XAmzContentSHA256Mismatch",
    }
)
_PASSING_STATUSES: Final = frozenset({429, 500, 502, 503, 504})
_THROTTLED_CODES: Final = frozenset(
    {"ServiceUnavailable", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests"}
)
_THROTTLED_STATUSES: Final = frozenset({429, 503})
_WITHOUT_EFFECT: Final = frozenset({"ConditionalRequestConflict", "RequestTimeout", "SlowDown"})
_EXISTS_CODES: Final = frozenset({"PreconditionFailed", "412"})


class _OneTrySession(AIOHTTPSession):  # type: ignore[misc]  # aiobotocore has no types
    """Sends a request once.

    aiohttp silently repeats a PUT whose connection broke.  A refusal may then answer the repetition
    of a request that already took effect.
    """

    async def _get_session(self, proxy_url: str | None) -> aiohttp.ClientSession:
        session: aiohttp.ClientSession = await super()._get_session(proxy_url)
        session._retry_connection = False  # noqa: SLF001 - there is no public switch
        return session


class BoundedS3FileSystem(S3FileSystem):  # type: ignore[misc]  # s3fs has no types
    """s3fs with deadlines: each chain of retries ends within `deadline_seconds`."""

    retries = 1

    def __init__(
        self,
        *args: Any,
        deadline_seconds: float = DEADLINE_SECONDS,
        config_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        config = {
            "connect_timeout": min(_CONNECT_SECONDS, deadline_seconds / _IDLE_SHARE),
            "read_timeout": deadline_seconds / _IDLE_SHARE,
            "max_pool_connections": _MOST_CONNECTIONS,
            **(config_kwargs or {}),
            "retries": {"mode": "standard", "total_max_attempts": 1},
            "http_session_cls": _OneTrySession,
        }
        super().__init__(*args, config_kwargs=config, **kwargs)
        self.deadline_seconds = deadline_seconds

    def split_path(self, path: str) -> tuple[str, str, None]:
        """Return bucket, key and no version; s3fs would read one from what follows the mark."""
        before, mark, after = path.partition("?versionId=")
        bucket, key, _ = super().split_path(before)
        return bucket, f"{key}{mark}{after}", None

    async def get_s3(self, bucket: str | None = None) -> Any:
        """Return the client for the bucket, with bounded calls."""
        client = await super().get_s3(bucket)
        call = client._make_api_call  # noqa: SLF001 - the one place that every request passes
        if not isinstance(call, _Bounded):
            client._make_api_call = _Bounded(call, self.deadline_seconds)  # noqa: SLF001
        return client


@dataclass(frozen=True, slots=True)
class _Bounded:
    """A client's `_make_api_call`, retried until the deadline."""

    call: Callable[[str, dict[str, Any]], Awaitable[Any]]
    deadline_seconds: float

    async def __call__(self, operation: str, parameters: dict[str, Any]) -> Any:
        clock = asyncio.get_running_loop().time
        started = clock()
        end = started + self.deadline_seconds + _seconds_of(_sent_bytes(parameters))
        target = f"{operation} {_location(parameters)}"
        conditional = "IfNoneMatch" in parameters
        in_doubt = False
        attempt = 0
        while True:
            try:
                return await self._once(operation, parameters, end)
            except Exception as e:
                refusal = _refusal(e, target, _location(parameters))
                if refusal is not None:
                    if conditional and in_doubt and _code(e) not in _EXISTS_CODES:
                        raise _failed(target, parameters, e, "an earlier reply was lost") from e
                    if refusal is e:
                        raise
                    raise refusal from e
                failure = e
            in_doubt = in_doubt or _code(failure) not in _WITHOUT_EFFECT
            attempt += 1
            wait = _wait_seconds(attempt)
            if attempt == _MOST_ATTEMPTS or clock() + wait >= end:
                tries = "1 attempt" if attempt == 1 else f"{attempt} attempts"
                how_long = f"{tries} in {clock() - started:.0f} s"
                raise _failed(target, parameters, failure, how_long) from failure
            note_retry(_reason(failure), wait)
            await asyncio.sleep(wait)

    async def _once(self, operation: str, parameters: dict[str, Any], end: float) -> Any:
        async with asyncio.timeout_at(end) as limit:
            # A copy: botocore replaces the body by a stream, which one attempt uses up.
            response = await self.call(operation, dict(parameters))
            if _stops_early(operation, response):
                raise StorageError(
                    f"{operation} {_location(parameters)}: the store says that more objects follow, but not "
                    "how to list them",
                    file=_location(parameters),
                    next_step="use a store or gateway that implements ListObjectsV2",
                )
            body = response.get("Body")
            if body is not None:
                limit.reschedule(end + _seconds_of(response.get("ContentLength") or 0))
                try:
                    response["Body"] = _Content(await body.read())
                finally:
                    body.close()
            return response


def _stops_early(operation: str, response: Mapping[str, Any]) -> bool:
    """Whether it is part of a listing that does not name the next, as of a version 1 store.

    Botocore and s3fs would take it for all of the listing.
    """
    more = operation == "ListObjectsV2" and response.get("IsTruncated")
    return bool(more) and not response.get("NextContinuationToken")


class _Content:
    """The body of an object, already read, with the interface that s3fs expects."""

    def __init__(self, content: bytes) -> None:
        self._content = BytesIO(content)

    async def read(self, size: int = -1) -> bytes:
        return self._content.read(size)

    def close(self) -> None:
        self._content.close()


def _refusal(error: Exception, target: str, location: str) -> Exception | None:
    """Return the error to raise for a permanent failure; None for a transient one."""
    as_it_is: Exception = error
    if isinstance(error, StorageError):
        return error  # from a request that botocore made to learn why this one was refused
    if isinstance(error, _NO_CREDENTIALS):
        return StorageAccessDenied(
            f"{target} was not sent: {error}",
            file=location,
            next_step="give this process credentials for the store, then run again",
        )
    if isinstance(error, ClientError):
        code, status = _code(error), _status(error)
        if code in _PASSING_CODES or status in _PASSING_STATUSES:
            return None
        # The reply to a HEAD holds no reason; expired tokens get a 400.
        denied = _DENIED_STATUSES | {400} if target.startswith("Head") else _DENIED_STATUSES
        if code not in _DENIED_CODES and status not in denied:
            return as_it_is
        next_step = None
        if code == "RequestTimeTooSkewed":
            next_step = "set this machine's clock (NTP), then run again"
        return StorageAccessDenied(
            f"{target} was refused: {_reply(error)}", file=location, next_step=next_step
        )
    return None if isinstance(error, _BROKEN) else as_it_is


def _failed(
    target: str, parameters: Mapping[str, Any], error: Exception, details: str
) -> StorageError:
    outcome = ""
    if "IfNoneMatch" in parameters:
        outcome = "; whether it took effect is unknown"
    return StorageError(
        f"{target} failed ({details}): {_reply(error)}{outcome}", file=_location(parameters)
    )


def _reason(error: Exception) -> RetryReason:
    if not isinstance(error, ClientError):
        return RetryReason.CONNECTION
    throttled = _code(error) in _THROTTLED_CODES or _status(error) in _THROTTLED_STATUSES
    return RetryReason.THROTTLED if throttled else RetryReason.SERVER_ERROR


def _location(parameters: Mapping[str, Any]) -> str:
    key = parameters.get("Key") or parameters.get("Prefix") or ""
    return f"s3://{parameters.get('Bucket', '')}/{key}"


def _reply(error: Exception) -> str:
    if isinstance(error, ClientError):
        code, status = _code(error), str(_status(error))
        message = error.response.get("Error", {}).get("Message", "")
        return f"{status} {'' if code == status else code}: {message}".replace(" :", ":")
    if isinstance(error, asyncio.TimeoutError):
        return "no reply before the deadline"
    return f"{type(error).__name__}: {error}"


def _code(error: BaseException) -> str:
    response = error.response if isinstance(error, ClientError) else {}
    return str(response.get("Error", {}).get("Code", ""))


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)


def _sent_bytes(parameters: Mapping[str, Any]) -> int:
    body = parameters.get("Body")
    return len(body) if isinstance(body, bytes | bytearray | memoryview) else 0


def _seconds_of(size: int) -> float:
    return size / _LEAST_BYTES_PER_SECOND


def _wait_seconds(attempt: int) -> float:
    jitter = random.random()  # noqa: S311 - it only spreads clients
    millis = backoff_millis(
        attempt - 1, least=_LEAST_WAIT_MILLIS, most=_MOST_WAIT_MILLIS, jitter=jitter
    )
    return millis / 1000
