"""Views: queries under names, in REST, JDBC and Hive catalogs (Java: `view/ViewSchema`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from paimon_core.errors import AlreadyExists, InvalidArgument, NotFound
from paimon_core.names import checked_text, checked_texts, optional_text
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

    @staticmethod
    def from_schema(name: str, schema: Mapping[str, Any]) -> View:
        """The view of this name with the JSON that catalogs store.

        Raises one of `UNREADABLE` or InvalidArgument for anything else.
        """
        return View(
            name=name,
            fields=tuple(field_from_json(f) for f in schema.get("fields") or ()),
            query=checked_text(schema["query"], "query"),
            dialects=checked_texts(schema.get("dialects"), "dialects"),
            comment=optional_text(schema.get("comment"), "comment"),
            options=checked_texts(schema.get("options"), "options"),
        )

    def schema(self) -> dict[str, object]:
        """The JSON that catalogs store."""
        schema: dict[str, object] = {
            "fields": [field_to_json(f) for f in self.fields],
            "query": self.query,
            "dialects": dict(self.dialects),
            "options": dict(self.options),
        }
        return schema if self.comment is None else {**schema, "comment": self.comment}

    def with_dialects(self, changes: Sequence[Mapping[str, str]]) -> View:
        """The view after these changes, see `Views.set_dialects`.

        AlreadyExists, NotFound or InvalidArgument for one that does not apply.
        """
        dialects = dict(self.dialects)
        for change in changes:
            dialect = change["dialect"]
            match change["action"]:
                case "addDialect" if dialect in dialects:
                    raise AlreadyExists(f"view {self.name} has the dialect {dialect}")
                case "updateDialect" | "dropDialect" if dialect not in dialects:
                    raise NotFound(f"view {self.name} has no dialect {dialect}")
                case "addDialect" | "updateDialect":
                    dialects[dialect] = change["query"]
                case "dropDialect":
                    del dialects[dialect]
                case action:
                    raise InvalidArgument(f"unknown change of a view: {action}")
        return replace(self, dialects=dialects)


class Views(Protocol):
    """The views of a catalog by their names, "database.view"."""

    def names(self, database: str) -> list[str]:
        """The names of the database's views, sorted."""

    def find(self, identifier: str) -> View | None:
        """The view, None if there is none of this name."""

    def create(self, view: View) -> None:
        """Create the view in a database that exists; AlreadyExists if there is one of this name."""

    def set_dialects(self, identifier: str, changes: Sequence[Mapping[str, str]]) -> None:
        """Add, update or drop dialects: `{"action": "addDialect", "dialect": .., "query": ..}`."""

    def drop(self, identifier: str) -> None:
        """Delete the view; NotFound if there is none of this name."""
