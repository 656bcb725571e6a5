"""The storage of a table whose credentials a REST catalog gives (Java: `rest/RESTTokenFileIO`).

The token is asked for when the storage is first used, and again before it expires, in each process:
a handle that was pickled carries no token, so executors ask by themselves.  A catalog that does not
answer then stops no work as long as the token is valid.
"""

from __future__ import annotations

import logging
import threading
import time
from copy import copy
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final

from paimon_core.errors import StorageAccessDenied, StorageError
from paimon_core.io.delegating import DelegatingFileIO
from paimon_core.io.file_io import FileIO
from paimon_core.io.open import open_file_io
from paimon_core.names import checked_long, checked_texts
from paimon_core.remote.rest_auth import TOKEN_SAFE_MILLIS
from paimon_core.remote.rest_client import RestClient, reading
from paimon_core.table.open import split_identifier

log = logging.getLogger(__name__)

DATA_TOKEN_ENABLED: Final = "data-token.enabled"  # noqa: S105 - the name of an option
_PAUSE_MILLIS: Final = 300_000
"""How long to wait at most before a catalog that did not answer is asked again."""


@dataclass(frozen=True, slots=True)
class _Opened:
    io: FileIO
    expires_millis: int
    renew_millis: int


_Key = tuple[frozenset[tuple[str, str]], str, str]
"""The options of a client, which say who asks; a table, and its root."""
_opened: dict[_Key, _Opened] = {}
_failed: dict[_Key, tuple[float, StorageError]] = {}
"""When the last request for a token ended without one, by the monotonic clock, and how."""
_locks: dict[_Key, threading.Lock] = {}


@dataclass(frozen=True, slots=True)
class TokenFileIO(DelegatingFileIO):
    """`FileIO` that opens the store of `root` with the table's current token."""

    client: RestClient
    identifier: str
    root: str
    _key: _Key = field(init=False, repr=False, compare=False, default=(frozenset(), "", ""))

    def __post_init__(self) -> None:
        options = frozenset(self.client.options.items())
        object.__setattr__(self, "_key", (options, self.identifier, self.root))

    @property
    def inner(self) -> FileIO:
        now = int(time.time() * 1000)
        known = _opened.get(self._key)
        if known is not None and now < known.renew_millis:
            return known.io
        began = monotonic()
        with _locks.setdefault(self._key, threading.Lock()):
            known = _opened.get(self._key)
            if known is not None and now < known.renew_millis:
                return known.io
            ended, failure = _failed.get(self._key, (0.0, None))
            if failure is not None and ended >= began:
                # Threads that waited together would else wait once more, one after the other.
                raise copy(failure)
            try:
                known = _opened[self._key] = self._renewed(known, now)
            except StorageError as e:
                _failed[self._key] = monotonic(), e
                raise
            return known.io

    def _renewed(self, known: _Opened | None, now: int) -> _Opened:
        """The storage with a new token; `known` if that is valid and the catalog is silent."""
        try:
            return self._open(now)
        except StorageAccessDenied:
            raise
        except StorageError as e:
            left = 0 if known is None else known.expires_millis - int(time.time() * 1000)
            if known is None or left <= 0:
                raise
            log.warning(
                "table=%s the catalog gave no new token for its files; the old one is valid for %d s: %s",
                self.identifier,
                left // 1000,
                e,
            )
            pause = min(_PAUSE_MILLIS, left // 2)
            return replace(known, renew_millis=known.expires_millis - left + pause)

    def _open(self, now: int) -> _Opened:
        database, table = split_identifier(self.identifier)
        path = self.client.path("databases", database, "tables", table, "token")
        answer = self.client.get(path)
        if not isinstance(answer.get("token"), dict):
            raise StorageError(
                f"the REST catalog gave no token for the files of table {self.identifier}",
                file=self.root,
            )
        with reading(path):
            token = checked_texts(answer["token"], "token")
            expires = checked_long(answer.get("expiresAtMillis"), "expiresAtMillis")
        options = {**self.client.options, **token}
        endpoint = self.client.options.get("dlf.oss-endpoint")
        if endpoint:
            options["fs.oss.endpoint"] = endpoint
        io, _ = open_file_io(self.root, options)
        # Java renews one hour before the end.  A token that lives shorter is renewed at half time.
        renew = expires - min(TOKEN_SAFE_MILLIS, max(0, expires - now) // 2)
        return _Opened(io, expires, renew)
