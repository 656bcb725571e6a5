"""What SHOW TABLE EXTENDED and DESCRIBE say about one partition.

Java: `PaimonShowTablePartitionCommand` of 2.0 and `PaimonDescribeTableExec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from paimon_core.commit.partition_statistics import summed
from paimon_core.environment import ahead_of_utc, machine_zone
from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import unescape_path_name
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot_commit import PartitionStatistics
from paimon_core.types.binary_row import decode_row
from paimon_spark.sql.ddl.partitions import partition_names, spec_values
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName

Spec = Mapping[str, str | None]


def shown_partition(session: SqlSession, table: FileStoreTable, spec: Spec) -> list[str]:
    """The lines of SHOW TABLE EXTENDED; AnalysisError if there is no such partition."""
    values = spec_values(session, table, spec)
    if set(values) != set(table.schema.partition_keys):
        raise AnalysisError(
            "Partition spec is invalid. The spec must name all partition columns "
            f"({', '.join(table.schema.partition_keys)})",
            table=table.name,
        )
    found = _statistics(session, table, values)
    if found is None:
        shown = ", ".join(f"`{k}` = {v}" for k, v in spec.items())
        raise AnalysisError(
            f"[PARTITIONS_NOT_FOUND] The partition(s) PARTITION ({shown}) cannot be found in "
            f"table {table.name}",
            table=table.name,
        )
    return [
        f"Partition Values: {_shown_values(session, table, values)}",
        f"Partition Parameters: {{{', '.join(_parameters(found))}}}",
        f"Partition Statistics: {found.record_count} rows, {found.file_size} bytes",
    ]


def described_partition(
    session: SqlSession, table: FileStoreTable, spec: Spec, name: TableName, *, extended: bool
) -> list[list[str | None]]:
    """The rows that DESCRIBE ... PARTITION adds; InvalidArgument if there is no such partition."""
    keys = {k.lower() for k in table.schema.partition_keys}
    if {k.lower() for k in spec} != keys or None in spec.values():
        raise UnsupportedFeature(
            "DESCRIBE of part of a partition",
            "DESCRIBE partition must specify all the correct partition columns",
            table=table.name,
            next_step=f"name {', '.join(table.schema.partition_keys)}",
        )
    if not extended:
        return []
    values = spec_values(session, table, spec)
    found = _statistics(session, table, values)
    if found is None:
        raise InvalidArgument(
            "Found 0 matching partitions. Expected exactly one partition to match the partition "
            "spec.",
            table=table.name,
            next_step="check the values; SHOW PARTITIONS lists the partitions",
        )
    created = datetime.fromtimestamp(found.last_file_creation_millis / 1000, machine_zone())
    return [
        ["", "", ""],
        ["# Detailed Partition Information", "", ""],
        ["Database", name.database, ""],
        ["Table", name.table, ""],
        ["Partition Values", unescape_path_name(_shown_values(session, table, values)), ""],
        ["Partition Parameters", f"[{', '.join(sorted(_parameters(found)))}]", ""],
        ["Created Time", f"{created:%a %b %d %H:%M:%S %Z %Y}", ""],
        ["Last Access", "UNKNOWN", ""],
        ["Partition Statistics", f"{found.file_size} bytes, {found.record_count} rows", ""],
        ["", "", ""],
    ]


def _shown_values(session: SqlSession, table: FileStoreTable, values: Mapping[str, object]) -> str:
    return f"[{partition_names(session, table, values).replace('/', ', ')}]"


def _parameters(found: PartitionStatistics) -> list[str]:
    return [
        f"recordCount={found.record_count}",
        f"fileSizeInBytes={found.file_size}",
        f"fileCount={found.file_count}",
        f"lastFileCreationTime={found.last_file_creation_millis}",
    ]


def _statistics(
    session: SqlSession, table: FileStoreTable, values: Mapping[str, object]
) -> PartitionStatistics | None:
    """What the partition holds; None if it has no files."""
    latest = table.snapshots.latest()
    if latest is None:
        return None
    types, keys = table.schema.partition_type.types, table.schema.partition_keys
    wanted = tuple(values[k] for k in keys)
    entries = scan_files(
        table, latest, keep_partition=lambda p: tuple(decode_row(p, types)) == wanted
    )
    return next(iter(summed(table, list(entries), offset_millis=ahead_of_utc(session.env))), None)
