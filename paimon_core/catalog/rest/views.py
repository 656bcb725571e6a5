"""Views of a REST catalog (Java: `rest/RESTApi`, `view/ViewSchema`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from paimon_core.catalog.rest.payloads import identifier_json
from paimon_core.errors import NotFound, StorageError
from paimon_core.remote.rest_client import RestClient
from paimon_core.table.open import split_identifier
from paimon_core.types.data_types import DataField
from paimon_core.types.sql import field_from_json, field_to_json

SPARK: Final = "spark"
"""The dialect of Paimon's Spark connector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A query under a name; `dialects` holds its text for single engines."""

    name: str
    fields: tuple[DataField, ...]
    query: str
    dialects: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def text(self, dialect: str = SPARK) -> str:
        """The query in the dialect, else as it was created."""
        return self.dialects.get(dialect, self.query)


@dataclass(frozen=True, slots=True)
class RestViews:
    """The views of a REST catalog by their names, "database.view"."""

    client: RestClient

    def names(self, database: str) -> list[str]:
        """The names of the database's views, sorted."""
        path = self.client.path("databases", database, "views")
        return sorted(str(n) for n in self.client.pages(path, "views"))

    def find(self, identifier: str) -> View | None:
        """The view, None if there is none of this name."""
        try:
            found = self.client.get(self._path(identifier))
        except NotFound:
            return None
        schema = found.get("schema")
        if not isinstance(schema, Mapping):
            raise StorageError(f"the REST catalog gave view {identifier} without schema")
        return View(
            name=identifier,
            fields=tuple(field_from_json(f) for f in schema.get("fields") or ()),
            query=str(schema["query"]),
            dialects=dict(schema.get("dialects") or {}),
            comment=schema.get("comment"),
            options=dict(schema.get("options") or {}),
        )

    def create(self, view: View) -> None:
        """Create the view; AlreadyExists if there is one of this name, NotFound without database."""
        database, _ = split_identifier(view.name)
        schema: dict[str, object] = {
            "fields": [field_to_json(f) for f in view.fields],
            "query": view.query,
            "dialects": dict(view.dialects),
            "options": dict(view.options),
        }
        if view.comment is not None:
            schema["comment"] = view.comment
        body = {"identifier": identifier_json(view.name), "schema": schema}
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
        self.client.post(self._path(identifier), {"viewChanges": [dict(c) for c in changes]})

    def drop(self, identifier: str) -> None:
        """Delete the view; NotFound if there is none of this name."""
        self.client.delete(self._path(identifier))

    def _path(self, identifier: str) -> str:
        database, name = split_identifier(identifier)
        return self.client.path("databases", database, "views", name)
