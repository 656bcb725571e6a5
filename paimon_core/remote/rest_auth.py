"""How requests to a REST catalog prove who sends them (Java: `rest/auth/*`).

`token.provider` is `bear` (the option `token` as it is) or `dlf`, a signature of each request with
an access key that is given, read from a file, or asked of the machine's metadata service.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import re
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote_plus

from paimon_core.errors import InvalidArgument, StorageError, UnsupportedFeature

log = logging.getLogger(__name__)

TOKEN_SAFE_MILLIS: Final = 3_600_000
"""A token is renewed when it has less time left than this, as in Java."""
_METADATA_URL: Final = "http://100.100.100.200/latest/meta-data/Ram/security-credentials/"
_REGION: Final = re.compile(r"(?:pre-)?([a-z]+-[a-z]+(?:-\d+)?)")
_PRODUCT: Final = "DlfNext"
_REQUEST_TYPE: Final = "aliyun_v4_request"
_ALGORITHM: Final = "DLF4-HMAC-SHA256"
_SIGNED: Final = frozenset(
    {
        "content-md5",
        "content-type",
        "x-dlf-content-sha256",
        "x-dlf-date",
        "x-dlf-version",
        "x-dlf-security-token",
    }
)


@dataclass(frozen=True, slots=True)
class Request:
    """What a signature covers: `path` and `parameters` as Java passes them, `body` as text."""

    method: str
    path: str
    parameters: Mapping[str, str]
    body: str


class Auth(Protocol):
    """Picklable."""

    def headers(self, request: Request, now: datetime) -> dict[str, str]:
        """The headers to add to the request."""


@dataclass(frozen=True, slots=True)
class NoAuth:
    """For servers that ask for nothing."""

    def headers(self, request: Request, now: datetime) -> dict[str, str]:  # noqa: ARG002 - as every Auth
        return {}


@dataclass(frozen=True, slots=True)
class BearerAuth:
    """`Authorization: Bearer TOKEN`."""

    token: str = field(repr=False)

    def headers(self, request: Request, now: datetime) -> dict[str, str]:  # noqa: ARG002 - as every Auth
        return {"Authorization": f"Bearer {self.token}"}


@dataclass(frozen=True, slots=True)
class DlfToken:
    """An access key; `expires_millis` is None for one that never expires."""

    access_key_id: str
    access_key_secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)
    expires_millis: int | None = None

    def usable(self, now: datetime, *, for_millis: int = TOKEN_SAFE_MILLIS) -> bool:
        """Return whether the key is valid for so long."""
        left = None if self.expires_millis is None else self.expires_millis - _millis(now)
        return left is None or left >= for_millis


@dataclass(frozen=True, slots=True)
class DlfAuth:
    """A signature with an access key; the key comes from the options, a file or the machine."""

    host: str
    region: str
    algorithm: str
    fixed: DlfToken | None = None
    token_path: str | None = None
    metadata_url: str | None = None
    role: str | None = None

    def headers(self, request: Request, now: datetime) -> dict[str, str]:
        token = self.fixed or _loaded(self, now)
        if self.algorithm == "openapi":
            return openapi_headers(request, token, host=self.host, now=now, nonce=_nonce(now))
        return default_headers(request, token, region=self.region, now=now)


def auth_of(options: Mapping[str, str]) -> Auth:
    """What the options ask for; InvalidArgument if something is missing, without any value."""
    provider = options.get("token.provider")
    if provider == "bear":
        if not options.get("token"):
            raise InvalidArgument("a REST catalog with token.provider=bear needs the option token")
        return BearerAuth(options["token"])
    if provider != "dlf":
        raise UnsupportedFeature(
            f"token.provider={provider}",
            f"a REST catalog with token.provider {provider!r} is not supported "
            "(supported: bear, dlf)",
            next_step="set the option token.provider",
        )
    return _dlf_auth(options)


def _dlf_auth(options: Mapping[str, str]) -> DlfAuth:
    uri = options.get("uri", "")
    host = re.sub("^https?://", "", uri).partition("/")[0]
    found = _REGION.search(uri)
    region = options.get("dlf.region") or (found.group(1) if found else "")
    if not region:
        raise InvalidArgument("a REST catalog with DLF signatures needs the option dlf.region")
    by_uri = "openapi" if "dlfnext" in uri.lower() else "default"
    algorithm = options.get("dlf.signing-algorithm") or by_uri
    if algorithm not in ("default", "openapi"):
        raise UnsupportedFeature(f"dlf.signing-algorithm={algorithm}")
    loader = options.get("dlf.token-loader")
    path = options.get("dlf.token-path")
    if loader == "ecs":
        url = options.get("dlf.token-ecs-metadata-url", _METADATA_URL)
        role = options.get("dlf.token-ecs-role-name")
        return DlfAuth(host, region, algorithm, metadata_url=url, role=role)
    if loader not in (None, "local_file"):
        raise UnsupportedFeature(f"dlf.token-loader={loader}")
    if path:
        return DlfAuth(host, region, algorithm, token_path=path)
    key, secret = options.get("dlf.access-key-id"), options.get("dlf.access-key-secret")
    if not key or not secret:
        raise InvalidArgument(
            "a REST catalog with DLF signatures needs the options dlf.access-key-id and "
            "dlf.access-key-secret, or dlf.token-path"
        )
    token = DlfToken(key, secret, options.get("dlf.security-token"))
    return DlfAuth(host, region, algorithm, fixed=token)


# --- tokens ---------------------------------------------------------------------------------------

_tokens: dict[DlfAuth, DlfToken] = {}
_tokens_lock = threading.Lock()


def _loaded(auth: DlfAuth, now: datetime) -> DlfToken:
    with _tokens_lock:
        known = _tokens.get(auth)
        if known is None or not known.usable(now):
            try:
                known = _tokens[auth] = _load(auth)
            except StorageError as e:
                # Half a file, or a machine that is silent for a moment, stops no work.
                if known is None or not known.usable(now, for_millis=1):
                    raise
                log.warning("the old access key is used as long as it is valid: %s", e)
        return known


def _load(auth: DlfAuth) -> DlfToken:
    source = auth.token_path or auth.metadata_url or ""
    try:
        text = Path(source).read_text("utf-8") if auth.token_path else _asked(source, auth.role)
        parts = json.loads(text)
        expires = parts.get("Expiration")
        return DlfToken(
            str(parts["AccessKeyId"]),
            str(parts["AccessKeySecret"]),
            parts.get("SecurityToken"),
            None if expires is None else _millis(_moment(expires)),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        # The text holds a secret: it is not shown.
        raise StorageError(
            f"no DLF access key could be read from {source}: {type(e).__name__}",
            file=source,
            next_step="check that it has AccessKeyId, AccessKeySecret and Expiration",
        ) from None


def _asked(url: str, role: str | None) -> str:
    import httpx  # noqa: PLC0415 - an extra

    try:
        role = role or httpx.get(url, timeout=30).raise_for_status().text.strip()
        return httpx.get(url + role, timeout=30).raise_for_status().text
    except httpx.HTTPError as e:
        raise OSError(type(e).__name__) from e


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def _millis(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


# --- signatures -----------------------------------------------------------------------------------


def default_headers(
    request: Request, token: DlfToken, *, region: str, now: datetime
) -> dict[str, str]:
    """Java: `DLFDefaultSigner`."""
    stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {
        "x-dlf-date": stamp,
        "x-dlf-content-sha256": "UNSIGNED-PAYLOAD",
        "x-dlf-version": "v1",
    }
    if request.body:
        headers |= {"Content-Type": "application/json", "Content-MD5": _md5(request.body)}
    if token.security_token is not None:
        headers["x-dlf-security-token"] = token.security_token
    query = "&".join(
        f"{key.strip()}={value.strip()}" if value else key.strip()
        for key, value in sorted(request.parameters.items())
    )
    signed = sorted((k.lower(), v.strip()) for k, v in headers.items() if k.lower() in _SIGNED)
    canonical = [request.method, request.path, query, *(f"{k}:{v}" for k, v in signed)]
    canonical.append(headers["x-dlf-content-sha256"])
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    scope = f"{stamp[:8]}/{region}/{_PRODUCT}/{_REQUEST_TYPE}"
    key = b"aliyun_v4" + token.access_key_secret.encode()
    for part in (stamp[:8], region, _PRODUCT, _REQUEST_TYPE):
        key = _hmac_sha256(key, part)
    signature = _hmac_sha256(key, f"{_ALGORITHM}\n{stamp}\n{scope}\n{digest}").hex()
    credential = f"{token.access_key_id}/{scope}"
    return {
        **headers,
        "Authorization": f"{_ALGORITHM} Credential={credential},Signature={signature}",
    }


def openapi_headers(
    request: Request, token: DlfToken, *, host: str, now: datetime, nonce: str
) -> dict[str, str]:
    """Java: `DLFOpenApiSigner`."""
    headers = {
        "Date": now.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "Accept": "application/json",
        "Host": host,
        "x-acs-signature-method": "HMAC-SHA1",
        "x-acs-signature-nonce": nonce,
        "x-acs-signature-version": "1.0",
        "x-acs-version": "2026-01-18",
    }
    if request.body:
        headers |= {"Content-MD5": _md5(request.body), "Content-Type": "application/json"}
    if token.security_token is not None:
        headers["x-acs-security-token"] = token.security_token
    own = sorted((k, v.strip()) for k, v in headers.items() if k.startswith("x-acs-"))
    resource = unquote_plus(request.path)
    if request.parameters:
        values = {k: unquote_plus(v) for k, v in sorted(request.parameters.items())}
        resource += "?" + "&".join(f"{k}={v}" if v else k for k, v in values.items())
    to_sign = "\n".join(
        [
            request.method,
            headers["Accept"],
            headers.get("Content-MD5", ""),
            headers.get("Content-Type", ""),
            headers["Date"],
            *(f"{k}:{v}" for k, v in own),
            resource,
        ]
    )
    digest = hmac.digest(token.access_key_secret.encode(), to_sign.encode(), "sha1")
    signature = base64.b64encode(digest).decode()
    return {**headers, "Authorization": f"acs {token.access_key_id}:{signature}"}


def _nonce(now: datetime) -> str:
    return f"{uuid.uuid4()}{_millis(now)}{threading.get_ident()}"


def _md5(body: str) -> str:
    return base64.b64encode(hashlib.md5(body.encode(), usedforsecurity=False).digest()).decode()


def _hmac_sha256(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


def utc_now() -> datetime:
    """The machine's clock."""
    return datetime.now(UTC)
