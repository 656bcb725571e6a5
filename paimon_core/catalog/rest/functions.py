"""Functions of a REST catalog (Java: `rest/RESTApi`, `function/FunctionImpl`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from paimon_core.errors import NotFound
from paimon_core.names import checked_text, checked_texts, optional_text
from paimon_core.remote.rest_client import RestClient, reading
from paimon_core.table.open import split_identifier
from paimon_core.types.data_types import DataField
from paimon_core.types.sql import field_from_json, field_to_json

SPARK: Final = "spark"
"""The engine whose definition Paimon's Spark connector uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function; `definitions` are by engine, each with its `type`: sql, lambda or file."""

    name: str
    inputs: tuple[DataField, ...] = ()
    returns: tuple[DataField, ...] = ()
    definitions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    deterministic: bool = True
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def sql(self) -> str | None:
        """The body for Spark if it is SQL."""
        found = self.definitions.get(SPARK) or {}
        return str(found["definition"]) if found.get("type") == "sql" else None

    @property
    def java_class(self) -> JavaClass | None:
        """The class for Spark if it is one."""
        found = self.definitions.get(SPARK) or {}
        if found.get("type") != "file":
            return None
        resources = (
            Resource(r["resourceType"], r["uri"]) for r in found.get("fileResources") or ()
        )
        return JavaClass(found["className"], tuple(resources))


@dataclass(frozen=True, slots=True)
class Resource:
    """A file that a class needs; `kind` is jar, file or archive."""

    kind: str
    uri: str


@dataclass(frozen=True, slots=True)
class JavaClass:
    """A class that computes a function.  Java: `FunctionDefinition.FileFunctionDefinition`."""

    name: str
    resources: tuple[Resource, ...] = ()

    def definition(self, function: str) -> dict[str, Any]:
        """The definition of a function of this name, as catalogs store it."""
        return {
            "type": "file",
            "fileResources": [{"resourceType": r.kind, "uri": r.uri} for r in self.resources],
            "language": "JAVA",
            "className": self.name,
            "functionName": function,
        }


@dataclass(frozen=True, slots=True)
class RestFunctions:
    """The functions of a REST catalog by their names, "database.function"."""

    client: RestClient

    def names(self, database: str) -> list[str]:
        """The names of the database's functions, sorted."""
        path = self.client.path("databases", database, "functions")
        return sorted(self.client.pages(path, "functions"))

    def find(self, identifier: str) -> Function | None:
        """The function, None if there is none of this name."""
        path = self._path(identifier)
        try:
            found = self.client.get(path)
        except NotFound:
            return None
        with reading(path):
            definitions = (found.get("definitions") or {}).items()
            return Function(
                name=identifier,
                inputs=tuple(field_from_json(f) for f in found.get("inputParams") or ()),
                returns=tuple(field_from_json(f) for f in found.get("returnParams") or ()),
                definitions={k: _checked_definition(k, v) for k, v in definitions},
                deterministic=bool(found.get("deterministic")),
                comment=optional_text(found.get("comment"), "comment"),
                options=checked_texts(found.get("options"), "options"),
            )

    def create(self, function: Function) -> None:
        """Create the function; AlreadyExists if there is one of this name."""
        database, name = split_identifier(function.name)
        body: dict[str, object] = {
            "name": name,
            "inputParams": [field_to_json(f) for f in function.inputs],
            "returnParams": [field_to_json(f) for f in function.returns],
            "deterministic": function.deterministic,
            "definitions": {k: dict(v) for k, v in function.definitions.items()},
            "comment": function.comment,
            "options": dict(function.options),
        }
        self.client.post(self.client.path("databases", database, "functions"), body)

    def alter(self, identifier: str, change: Mapping[str, Any]) -> None:
        """Change it: `{"action": "addDefinition", "name": "spark", "definition": {..}}`."""
        self.client.post(self._path(identifier), {"changes": [dict(change)]})

    def drop(self, identifier: str) -> None:
        """Delete the function; NotFound if there is none of this name."""
        self.client.delete(self._path(identifier))

    def _path(self, identifier: str) -> str:
        database, name = split_identifier(identifier)
        return self.client.path("databases", database, "functions", name)


def _checked_definition(engine: str, found: object) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise TypeError(f"the definition for {engine} is no object")
    if found.get("type") == "sql":
        checked_text(found.get("definition"), "definition")
    if found.get("type") == "file":
        checked_text(found.get("className"), "className")
        for resource in found.get("fileResources") or ():
            checked_text(resource["resourceType"], "resourceType")
            checked_text(resource["uri"], "uri")
    return found
