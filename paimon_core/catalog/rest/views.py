"""Views of a REST catalog (Java: `rest/RESTApi`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from paimon_core.catalog.rest.payloads import audit_of, identifier_json
from paimon_core.catalog.views import View
from paimon_core.errors import NotFound
from paimon_core.remote.rest_client import RestClient, reading
from paimon_core.table.open import split_identifier


@dataclass(frozen=True, slots=True)
class RestViews:
    """The views of a REST catalog by their names, "database.view"."""

    client: RestClient

    def names(self, database: str) -> list[str]:
        """The names of the database's views, sorted."""
        path = self.client.path("databases", database, "views")
        return sorted(self.client.pages(path, "views"))

    def find(self, identifier: str) -> View | None:
        """The view, None if there is none of this name."""
        path = self._path(identifier)
        try:
            found = self.client.get(path)
        except NotFound:
            return None
        with reading(path):
            view = View.from_schema(identifier, found["schema"])
        return replace(view, options={**view.options, **audit_of(found)})

    def create(self, view: View) -> None:
        """Create the view.

        AlreadyExists if there is one of this name, NotFound without database.
        """
        database, _ = split_identifier(view.name)
        body = {"identifier": identifier_json(view.name), "schema": view.schema()}
        self.client.post(self.client.path("databases", database, "views"), body)

    def rename(self, identifier: str, new_identifier: str) -> None:
        """Give the view another name."""
        body = {
            "source": identifier_json(identifier),
            "destination": identifier_json(new_identifier),
        }
        self.client.post(self.client.path("views", "rename"), body)

    def set_dialects(self, identifier: str, changes: Sequence[Mapping[str, str]]) -> None:
        """Add, update or drop dialects: `{"action": "addDialect", "dialect": .., "query": ..}`."""
        self.client.post(self._path(identifier), {"changes": [dict(c) for c in changes]})

    def drop(self, identifier: str) -> None:
        """Delete the view; NotFound if there is none of this name."""
        self.client.delete(self._path(identifier))

    def _path(self, identifier: str) -> str:
        database, name = split_identifier(identifier)
        return self.client.path("databases", database, "views", name)
