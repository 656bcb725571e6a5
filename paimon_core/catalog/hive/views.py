"""Views in a Hive metastore (Java: `hive/HiveCatalog.createView`).

A view is an entry of the kind VIRTUAL_VIEW, as Hive has it: the text of its query, and its columns
in Hive's types.  It has one text for all engines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from paimon_core.catalog.hive import tables as hive_tables
from paimon_core.catalog.hive.metastore import Metastore, hive_name
from paimon_core.catalog.views import View
from paimon_core.environment import user_name
from paimon_core.errors import AlreadyExists, NotFound, UnsupportedFeature
from paimon_core.remote.thrift_calls import FieldSchema, SerDeInfo, StorageDescriptor, Table
from paimon_core.types.hive import hive_type

_COMMENT: Final = "comment"


@dataclass(frozen=True, slots=True)
class HiveViews:
    """The views of a Hive metastore by their names, "database.view"."""

    metastore: Metastore

    def names(self, database: str) -> list[str]:
        """The names of the database's views, sorted."""
        found = self.metastore.tables(database)
        return sorted(str(t.table_name) for t in found if hive_tables.is_view(t))

    def find(self, identifier: str) -> View | None:
        """The view, None if there is none of this name."""
        try:
            found: Table = self.metastore.client.call("get_table", *hive_name(identifier))
        except NotFound:
            return None
        if not hive_tables.is_view(found):
            return None
        options = dict(found.parameters or {})
        comment = options.pop(_COMMENT, None)
        columns = (found.sd and found.sd.cols) or ()
        return View(
            name=".".join(hive_name(identifier)),
            fields=tuple(hive_tables.field(i, column) for i, column in enumerate(columns)),
            query=found.view_expanded_text or "",
            comment=comment,
            options=options,
        )

    def create(self, view: View) -> None:
        """Create the view in a database that exists.

        AlreadyExists if there is a view or a table of this name.
        """
        database, name = hive_name(view.name)
        parameters = dict(view.options)
        if view.comment is not None:
            parameters[_COMMENT] = view.comment
        columns = (
            FieldSchema(name=f.name, type=hive_type(f.type), comment=f.description)
            for f in view.fields
        )
        table = Table(
            db_name=database,
            table_name=name,
            owner=user_name(),
            sd=StorageDescriptor(cols=tuple(columns), serde_info=SerDeInfo(parameters={})),
            partition_keys=(),
            parameters=parameters,
            view_original_text=view.query,
            view_expanded_text=view.query,
            table_type=hive_tables.VIEW,
        )
        try:
            self.metastore.client.call("create_table", table)
        except AlreadyExists as e:
            raise AlreadyExists(f"{view.name} already exists", table=view.name) from e

    def set_dialects(self, identifier: str, changes: Sequence[Mapping[str, str]]) -> None:
        """UnsupportedFeature: the metastore keeps one text of a view."""
        raise UnsupportedFeature(
            "dialects of views",
            f"the {len(changes)} dialects of view {identifier} cannot be changed: a Hive metastore "
            "keeps one text of a view",
            table=identifier,
            next_step="use CREATE OR REPLACE VIEW",
        )

    def drop(self, identifier: str) -> None:
        """Delete the view; NotFound if there is none of this name."""
        if self.find(identifier) is None:
            raise NotFound(f"view {identifier} does not exist", table=identifier)
        self.metastore.client.call("drop_table", *hive_name(identifier), False)
