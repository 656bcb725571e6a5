"""Branches and rollback through a REST catalog (Java: `rest/RESTCatalog`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paimon_core.catalog.rest.payloads import object_name
from paimon_core.remote.rest_client import RestClient
from paimon_core.table.open import split_identifier


@dataclass(frozen=True, slots=True)
class RestVersions:
    """`VersionManagement` of one table; `branch` is that of the handle.

    Nothing is sent again after 503: it may have been done, and a second time it would remove what
    was committed in between.
    """

    client: RestClient
    identifier: str
    branch: str | None = None

    def rollback_to(self, snapshot: int, *, tag: str | None = None, base: int) -> None:
        """Roll back; except for a tag, the server refuses if `base` is not the newest snapshot."""
        if tag is not None:
            body: dict[str, object] = {"instant": {"type": "tag", "tagName": tag}}
        else:
            instant = {"type": "snapshot", "snapshotId": snapshot}
            body = {"instant": instant, "fromSnapshot": base}
        self._post(self._path("rollback", branch=self.branch), body)

    def create_branch(self, branch: str, *, tag: str | None = None) -> None:
        """Create a branch: empty, or at the snapshot of a tag."""
        self._post(self._path("branches"), {"branch": branch, "fromTag": tag})

    def drop_branch(self, branch: str) -> None:
        """Delete the branch; NotFound if there is none."""
        self.client.delete(self._path("branches", branch))

    def rename_branch(self, branch: str, new_branch: str) -> None:
        """Give the branch another name."""
        self._post(self._path("branches", branch, "rename"), {"toBranch": new_branch})

    def fast_forward(self, branch: str) -> None:
        """Replace the newer part of main by the branch."""
        self._post(self._path("branches", branch, "forward"), {})

    def _post(self, path: str, body: Mapping[str, object]) -> None:
        self.client.post(path, body)

    def _path(self, *rest: str, branch: str | None = None) -> str:
        database, table = split_identifier(self.identifier)
        return self.client.path("databases", database, "tables", object_name(table, branch), *rest)
