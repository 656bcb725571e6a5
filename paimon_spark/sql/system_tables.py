"""The columns and properties that SHOW and DESCRIBE give of system tables and the tables of `sys`.

Java: `spark/PaimonSparkTableBase.properties`: only those with the rows of the table in another form
have its properties.
"""

from __future__ import annotations

from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.format.format_table import FormatTable
from paimon_core.table.system.read import VIEWS, system_row_type
from paimon_core.types.data_types import RowType
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.frames.global_tables import global_table_type
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import SYSTEM_DATABASE, TableName


def is_system_table(name: TableName) -> bool:
    """Whether the name is that of a system table or of a table of `sys`."""
    return name.system is not None or name.database == SYSTEM_DATABASE


def columns_of(session: SqlSession, name: TableName) -> RowType:
    """The columns of any table; NotFound if there is no such system table."""
    if name.database == SYSTEM_DATABASE:
        return global_table_type(name)
    if name.system is None:
        return session.described(name).schema.row_type
    table = session.open(name)
    return system_row_type(table, name.system, table.snapshots.latest(), like_2_0=True)


def table_of(session: SqlSession, name: TableName) -> FileStoreTable | FormatTable | None:
    """The table whose properties the named one has; None if it has none."""
    if is_system_table(name) and name.system not in VIEWS:
        columns_of(session, name)  # it reports a name that does not exist
        return None
    return session.described(name)


def check_has_partitions(name: TableName) -> None:
    """Refuse partitions of a system table.  Java: `PaimonPartitionManagement`."""
    if name.system in VIEWS:
        raise UnsupportedFeature(
            "partitions of a system table",
            "Only FileStoreTable supports partitions.",
            table=name.identifier,
            next_step="name the table itself",
        )
    if is_system_table(name):
        raise AnalysisError(
            f"[INVALID_PARTITION_OPERATION.PARTITION_SCHEMA_IS_EMPTY] table {name.written} is not "
            "partitioned",
            table=name.identifier,
        )
