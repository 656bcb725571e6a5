"""`caretaker tables [PATTERN]`: the tables of a catalog or warehouse."""

from __future__ import annotations

import argparse
import fnmatch

from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.target import storage_of, warehouse_of
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.storage.catalogs import catalog_of

_TABLE = "table"


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print the tables and other objects that match; NOTHING_TO_DO if there are none."""
    catalog = catalog_of(warehouse_of(args), storage_of(args))
    found: list[tuple[str, str]] = []
    for database in catalog.list_databases():
        if not fnmatch.fnmatchcase(database, args.table.split(".", 1)[0]):
            continue
        found += [(f"{database}.{table}", _TABLE) for table in catalog.list_tables(database)]
        found += [(f"{database}.{o.name}", o.kind) for o in catalog.list_others(database)]
    found = sorted(one for one in found if fnmatch.fnmatchcase(one[0], args.table))
    code = ExitCode.SUCCESS if found else ExitCode.NOTHING_TO_DO
    output.result(
        {
            "exit_code": int(code),
            "metastore": catalog.metastore,
            "maintained_jobs": sorted(catalog.maintained_jobs),
            "tables": [{"name": name, "kind": kind} for name, kind in found],
        },
        [name if kind == _TABLE else f"{name} ({kind})" for name, kind in found] or ["no table"],
    )
    return code
