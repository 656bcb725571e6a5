"""Procedures that no job does: they work on the table or the catalog directly."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from paimon_core.catalog.catalog import Catalog
from paimon_core.catalog.hive.hive_catalog import HiveCatalog
from paimon_core.catalog.jdbc.jdbc_catalog import JdbcCatalog
from paimon_core.catalog.rest.functions import Function, RestFunctions
from paimon_core.catalog.rest.rest_catalog import RestCatalog
from paimon_core.catalog.views import SPARK
from paimon_core.environment import Environment
from paimon_core.errors import InvalidArgument, NotFound, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import MAIN_BRANCH
from paimon_core.table.index_rewrite import rewrite_file_indexes
from paimon_core.table.merge_branch import merge_branch
from paimon_core.table.sink.compact_chain import compact_chain
from paimon_core.types.sql import field_from_json
from paimon_maintenance.job.common_arguments import PARTITIONS
from paimon_maintenance.rules.partition_choice import partition_predicate


def rewrite_file_index(
    table: FileStoreTable, values: Mapping[str, object], env: Environment
) -> list[Any]:
    """`sys.rewrite_file_index`: the numbers of partitions and of files with new indexes."""
    where = values.get("where")
    predicate = partition_predicate(table, [], None if where is None else str(where))
    found = rewrite_file_indexes(table, env=env, predicate=predicate)
    return [found.partitions, found.files]


def repair_earliest_snapshot(
    table: FileStoreTable, values: Mapping[str, object], _: Environment
) -> list[Any]:
    """`sys.repair_earliest_snapshot`: the first snapshot before and after.

    The hint then names a snapshot behind a gap, from which on none is missing; InvalidArgument for
    any other snapshot.  Java 2.0: `SnapshotManager.repairEarliestSnapshot`.
    """
    wanted = int(str(values["snapshot_id"]))
    ids = sorted(table.snapshots.ids())
    if not ids:
        raise InvalidArgument(
            "Cannot repair earliest snapshot for an empty table.", table=table.name
        )
    previous, latest = table.snapshots.earliest_id() or ids[0], ids[-1]
    if wanted < previous:
        problem = f"must not be earlier than current earliest snapshot {previous}"
    elif wanted > latest:
        problem = f"must not be later than latest snapshot {latest}"
    elif not set(range(wanted, latest + 1)) <= set(ids):
        missing = next(i for i in range(wanted, latest + 1) if i not in ids)
        raise InvalidArgument(f"Snapshot {missing} does not exist.", table=table.name)
    elif wanted != previous and wanted - 1 in ids:
        problem = "does not immediately follow a snapshot gap"
    else:
        table.snapshots.write_earliest_hint(wanted)
        return [previous, wanted]
    raise InvalidArgument(f"Snapshot {wanted} {problem}.", table=table.name)


def merge(
    open_branch: Callable[[str], FileStoreTable],
    values: Mapping[str, object],
    *,
    env: Environment,
) -> None:
    """`sys.merge_branch`: the files of one branch in another; errors as in `merge_branch`."""
    source = open_branch(str(values["source_branch"]))
    merge_branch(source, open_branch(str(values.get("target_branch") or MAIN_BRANCH)), env=env)


def compact_chain_table(
    table: FileStoreTable, values: Mapping[str, object], env: Environment
) -> list[Any]:
    """`sys.compact_chain_table`: whether rows were written (`compact_chain`).

    InvalidArgument for several partitions, or none.
    """
    text = str(values["partitions"]).strip()
    if not text:
        raise InvalidArgument("Partition string cannot be empty")
    specs = cast("Sequence[Mapping[str, str]]", PARTITIONS.read(text))
    if len(specs) > 1:
        raise InvalidArgument(
            "compact_chain_table only supports a single partition, but multiple partitions were "
            f"provided: {text}"
        )
    partition = partition_predicate(table, specs, None)
    assert partition is not None  # there is a spec
    overwrite = str(values.get("overwrite")).lower() == "true"
    return [compact_chain(table, partition, overwrite=overwrite, env=env)]


def repair(catalog: Catalog, values: Mapping[str, object]) -> None:
    """`sys.repair`: a Hive or JDBC catalog in line with the files (`HiveCatalog.repair`).

    Names are separated by commas, each of a table or a database; without one, all are repaired.
    UnsupportedFeature for other catalogs.
    """
    if not isinstance(catalog, HiveCatalog | JdbcCatalog):
        raise UnsupportedFeature(
            "the procedure sys.repair",
            f"the procedure sys.repair is not supported: a {catalog.metastore} catalog has no "
            "list of tables beside the files",
            next_step="no action is needed in a filesystem or REST catalog",
        )
    names = str(values["database_or_table"])
    parts = [n.strip().replace("`", "") for n in names.split(",") if n.strip()] or [""]
    for name in parts:
        if name.count(".") > 1:
            raise InvalidArgument(f"Cannot get splits from '{name}' to get database and table")
    for name in parts:
        catalog.repair(name)


def change_function(
    procedure: str, catalog: Catalog, values: Mapping[str, object], database: str
) -> None:
    """`sys.create_function`, `sys.alter_function` and `sys.drop_function`.

    UnsupportedFeature for catalogs without functions, NotFound for an unknown one, InvalidArgument
    for texts that are no JSON.
    """
    if not isinstance(catalog, RestCatalog):
        raise UnsupportedFeature(
            "functions",
            f"the procedure sys.{procedure} is not supported: a {catalog.metastore} catalog does "
            "not support functions",
            next_step="create a TEMPORARY function",
        )
    functions = RestFunctions(catalog.client)
    name = _named(values["function"], database)
    if procedure == "drop_function":
        functions.drop(name)
    elif procedure == "alter_function":
        functions.alter(name, _json(values["change"]))
    else:
        options = str(values.get("options") or "")
        pairs = (p.partition("=") for p in options.split(",") if p.strip())
        comment = values.get("comment")
        functions.create(
            Function(
                name=name,
                inputs=tuple(field_from_json(f) for f in _json(values["inputParams"])),
                returns=tuple(field_from_json(f) for f in _json(values["returnParams"])),
                deterministic=bool(values.get("deterministic", True)),
                comment=None if comment is None else str(comment),
                options={k.strip(): v.strip() for k, _, v in pairs},
            )
        )


def _json(text: object) -> Any:
    try:
        return json.loads(str(text))
    except ValueError as e:
        raise InvalidArgument(f"not JSON: {text}") from e


def _named(text: object, database: str) -> str:
    """The name with its database, without a catalog."""
    parts = [p.strip("`") for p in str(text).split(".")][-2:]
    return ".".join(parts if len(parts) == 2 else [database, *parts])


def alter_view_dialect(catalog: Catalog, values: Mapping[str, object], database: str) -> None:
    """`sys.alter_view_dialect`: add, update or drop the text of a view for an engine.

    UnsupportedFeature for catalogs without views, NotFound for an unknown view.
    """
    views = catalog.views
    if views is None:
        raise UnsupportedFeature(
            "views",
            f"a {catalog.metastore} catalog does not support views",
            next_step="name a view of a REST, JDBC or Hive catalog",
        )
    name = _named(values["view"], database)
    action, query = str(values["action"]), values.get("query")
    change = {"action": f"{action}Dialect", "dialect": str(values.get("engine") or SPARK)}
    if action in ("add", "update"):
        if not str(query or "").strip():
            raise InvalidArgument(f"query is required for {action} action.")
        change["query"] = str(query)
    elif action != "drop":
        raise InvalidArgument(f"Unsupported action: {action}")
    if views.find(name) is None:
        raise NotFound(f"there is no view {name}")
    views.set_dialects(name, [change])
