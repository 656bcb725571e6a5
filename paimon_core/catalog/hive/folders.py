"""Whose folder is it?  Entries of a metastore can name any folder, also one that is not theirs."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping

from paimon_core.catalog.hive.tables import location_of
from paimon_core.errors import InvalidArgument
from paimon_core.names import Location, lies_under, location
from paimon_core.remote.thrift_calls import Table


def place_of(folder: str | None) -> Location | None:
    """The folder without its spelling; None for what is no folder, as the root of a store."""
    return location(posixpath.normpath(folder)) if folder else None


def tables_at(
    place: Location, tables: Iterable[Table], options: Mapping[str, str], *, except_for: str
) -> list[str]:
    """The names of other tables whose folders are this one, above it or below it, sorted."""
    found = []
    for table in tables:
        name = f"{table.db_name}.{table.table_name}"
        other = place_of(location_of(table, options))
        if other is None or name == except_for:
            continue
        if other == place or lies_under(other, place) or lies_under(place, other):
            found.append(name)
    return sorted(found)


def check_new_folder(path: str | None) -> None:
    """InvalidArgument for the folder of a new table that is the root of a store or holds ".."."""
    if path and location(path) is None:
        raise InvalidArgument(
            f"{path!r} cannot be the folder of a table",
            next_step="name a folder below the root, without '.' and '..', in the option path",
        )
