"""Selects the tables of a command: one by name, or several by pattern.

`db.orders` is one table, `db.*` a database, `*.*` all tables; `*`, `?` and `[...]` are shell
wildcards over "database.table".  Including and excluding patterns are regular expressions over
the whole "database.table", as in Paimon's `compact_database`.
"""

from __future__ import annotations

import fnmatch
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from paimon_core.errors import InvalidArgument, NotFound

if TYPE_CHECKING:
    from paimon_core.catalog.catalog import Catalog

log = logging.getLogger(__name__)

_WILDCARDS = frozenset("*?[")


def is_pattern(name: str) -> bool:
    """Whether the name is a pattern."""
    return any(c in _WILDCARDS for c in name)


def select_tables(
    open_catalog: Callable[[], Catalog],
    name: str,
    *,
    including: Sequence[str] = (),
    excluding: Sequence[str] = (),
    may_be_none: bool = False,
    where: str,
) -> list[str]:
    """The selected tables, sorted.  A plain name is returned as is, without a check that it exists.

    The catalog is opened for a pattern only; `where` names it in messages.  Views and tables of
    other formats are logged and left out.
    A table is selected if it matches an including pattern (or there is none) and no excluding one.
    InvalidArgument for an invalid pattern, or if no table matches, unless `may_be_none`.
    """
    included, excluded = _compiled(including), _compiled(excluding)
    if "." not in name:
        raise InvalidArgument(
            f"{name!r} is not a table name",
            next_step="write database.table, or 'database.*' for a whole database",
        )
    if not is_pattern(name):
        if not _passes(name, included, excluded):
            raise InvalidArgument(f"the including and excluding patterns exclude {name!r}")
        return [name]
    catalog = open_catalog()
    database_pattern = name.split(".", 1)[0]
    found = []
    for database in catalog.list_databases():
        if fnmatch.fnmatchcase(database, database_pattern):
            found += [f"{database}.{table}" for table in catalog.list_tables(database)]
            for other in catalog.list_others(database):
                if fnmatch.fnmatchcase(f"{database}.{other.name}", name):
                    log.info("%s.%s is a %s: skipped", database, other.name, other.kind)
    chosen = [
        table
        for table in sorted(found)
        if fnmatch.fnmatchcase(table, name) and _passes(table, included, excluded)
    ]
    if not chosen and not may_be_none:
        raise InvalidArgument(
            f"no table of {_described(where)} matches {name!r}"
            + (" and the including and excluding patterns" if included or excluded else ""),
            next_step=f"check the pattern; `caretaker tables '{database_pattern}.*'` lists the tables"
            if found
            else "check the warehouse and the name of the database",
        )
    return chosen


def _described(where: str) -> str:
    name = where.removeprefix("catalog:")
    return f"warehouse {where}" if name == where else f"catalog {name}"


def _compiled(patterns: Sequence[str]) -> list[re.Pattern[str]]:
    try:
        return [re.compile(p) for p in patterns]
    except re.error as e:
        raise InvalidArgument(f"not a regular expression: {e.pattern!r}: {e}") from e


def dropped_tables(names: Iterable[str], open_table: Callable[[str], object]) -> list[str]:
    """The tables that do not exist.  One that cannot be opened for another reason may exist."""
    gone = []
    for name in names:
        try:
            open_table(name)
        except NotFound:
            gone.append(name)
        except Exception as e:  # noqa: BLE001 - the table exists, or may exist
            log.debug("cannot open %s: %s", name, e)
    return gone


def _passes(name: str, included: list[re.Pattern[str]], excluded: list[re.Pattern[str]]) -> bool:
    if included and not any(p.fullmatch(name) for p in included):
        return False
    return not any(p.fullmatch(name) for p in excluded)
