"""Tokens that an OAuth server gives for a credential (Iceberg: `rest/auth/OAuth2Manager`)."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from paimon_core.errors import StorageAccessDenied, StorageError
from paimon_core.remote.rest_auth import Request

_TIMEOUT_SECONDS: Final = 30
_REFUSED: Final = frozenset({400, 401, 403})
_RENEWED_BEFORE: Final = timedelta(seconds=60)
_DEFAULT_LIFE_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True)
class _Token:
    text: str = field(repr=False)
    expires: datetime


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """`Authorization: Bearer TOKEN`; `credential` is ID:SECRET or SECRET."""

    url: str
    credential: str = field(repr=False)
    scope: str

    def headers(self, request: Request, now: datetime) -> dict[str, str]:  # noqa: ARG002 - as every Auth
        with _lock:
            known = _tokens.get(self)
            if known is None or known.expires - _RENEWED_BEFORE <= now:
                known = _tokens[self] = self._ask(now)
        return {"Authorization": f"Bearer {known.text}"}

    def _ask(self, now: datetime) -> _Token:
        import httpx  # noqa: PLC0415 - an extra

        user, colon, secret = self.credential.partition(":")
        form = {"grant_type": "client_credentials", "scope": self.scope}
        form |= {"client_id": user, "client_secret": secret} if colon else {"client_secret": user}
        try:
            answer = httpx.post(self.url, data=form, timeout=_TIMEOUT_SECONDS)
            if answer.status_code in _REFUSED:
                raise StorageAccessDenied(
                    f"{self.url} answered {answer.status_code} to the request for a token",
                    next_step="check the credential of the Iceberg REST catalog",
                )
            found = answer.raise_for_status().json()
            life = timedelta(seconds=int(found.get("expires_in", _DEFAULT_LIFE_SECONDS)))
            return _Token(str(found["access_token"]), now + life)
        except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError) as e:
            # The answer may hold a secret: it is not shown.
            raise StorageError(f"{self.url} gave no token: {type(e).__name__}") from None


_tokens: dict[OAuthClient, _Token] = {}
_lock = threading.Lock()
