"""Requests to an Iceberg REST catalog (Iceberg: `rest/RESTCatalog`, its open API)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote_plus

from paimon_core.errors import AlreadyExists, InvalidArgument, NotFound, UnsupportedFeature
from paimon_core.io.store_options import REQUEST_DEADLINE
from paimon_core.options import parse_bool
from paimon_core.remote.oauth import OAuthClient
from paimon_core.remote.rest_auth import Auth, BearerAuth, NoAuth
from paimon_core.remote.rest_client import RestClient, check_httpx, reading

_DEADLINE: Final = "30 s"
_SIGV4: Final = "rest.sigv4-enabled"
_AUTH_TYPE: Final = "rest.auth.type"
_AUTH_TYPES: Final = ("none", "oauth2")


def checked_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options if a catalog can be opened with them.

    Raises InvalidArgument or UnsupportedFeature.
    """
    check_httpx()
    if not options.get("uri"):
        raise InvalidArgument("an Iceberg REST catalog needs the option uri")
    if parse_bool(options.get(_SIGV4, "false")):
        raise UnsupportedFeature(f"{_SIGV4}=true")
    if options.get(_AUTH_TYPE, "oauth2").lower() not in _AUTH_TYPES:
        raise UnsupportedFeature(f"{_AUTH_TYPE}={options[_AUTH_TYPE]}")
    return options


@dataclass(frozen=True, slots=True)
class IcebergRest:
    """One catalog.

    All requests raise NotFound, AlreadyExists (also for requirements of a commit that are not met),
    StorageAccessDenied, InvalidArgument, or StorageError if the outcome is unknown.
    """

    client: RestClient

    @classmethod
    def connect(cls, options: Mapping[str, str]) -> IcebergRest:
        """A catalog by Iceberg's option names, with those that the server adds."""
        given = {REQUEST_DEADLINE: _DEADLINE, **checked_options(options)}
        warehouse = given.get("warehouse")
        parameters = {"warehouse": warehouse} if warehouse else {}
        return cls(RestClient.configured(given, _auth(given), parameters))

    def _path(self, *parts: str) -> str:
        # The server gives its prefix as it is in paths.
        prefix = self.client.options.get("prefix", "").strip("/")
        return "/".join(["/v1", *([prefix] if prefix else []), *map(quote_plus, parts)])

    def _table(self, name: tuple[str, str]) -> str:
        return self._path("namespaces", name[0], "tables", name[1])

    def load(self, name: tuple[str, str]) -> dict[str, Any] | None:
        """The table's metadata; None if the table does not exist."""
        path = self._table(name)
        try:
            answer = self.client.get(path)
        except NotFound:
            return None
        with reading(path):
            return dict(answer["metadata"])

    def ensure_namespace(self, namespace: str) -> None:
        """Create the namespace unless it exists."""
        try:
            self.client.get(self._path("namespaces", namespace))
        except NotFound:
            try:
                self.client.post(
                    self._path("namespaces"), {"namespace": [namespace]}, retry_unavailable=True
                )
            except AlreadyExists:
                return

    def create(self, name: tuple[str, str], body: Mapping[str, object]) -> dict[str, Any]:
        """Create the table; the metadata of the new one."""
        path = self._path("namespaces", name[0], "tables")
        answer = self.client.post(path, {"name": name[1], **body})
        with reading(path):
            return dict(answer["metadata"])

    def commit(
        self,
        name: tuple[str, str],
        requirements: tuple[Mapping[str, object], ...],
        updates: tuple[Mapping[str, object], ...],
    ) -> None:
        """Change the table, if it meets the requirements."""
        identifier = {"namespace": [name[0]], "name": name[1]}
        body = {"identifier": identifier, "requirements": requirements, "updates": updates}
        self.client.post(self._table(name), body)

    def drop(self, name: tuple[str, str]) -> None:
        """Drop the table and leave its files."""
        self.client.delete(self._table(name), {"purgeRequested": "false"})


def _auth(options: Mapping[str, str]) -> Auth:
    if options.get(_AUTH_TYPE, "").lower() == "none":
        return NoAuth()
    if options.get("token"):
        return BearerAuth(options["token"])
    if options.get("credential"):
        own = f"{options['uri'].rstrip('/')}/v1/oauth/tokens"
        return OAuthClient(
            options.get("oauth2-server-uri", own),
            options["credential"],
            options.get("scope", "catalog"),
        )
    return NoAuth()
