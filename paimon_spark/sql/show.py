"""SHOW and DESCRIBE, with the columns that Spark gives."""

from __future__ import annotations

import re
from collections.abc import Sequence

from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import ROW_TRACKING_ENABLED
from paimon_core.scan.columns import scan_columns
from paimon_core.schema.table_schema import SEQUENCE_NUMBER
from paimon_core.schema.tracked import ROW_ID
from paimon_core.table.format.format_table import CSV_DELIMITER, FormatTable
from paimon_core.table.statistics import read_statistics
from paimon_core.types.casts.text import java_to_string
from paimon_core.types.data_types import DataField
from paimon_core.types.usual_sizes import usual_size
from paimon_spark.sql.catalogs import catalog_names
from paimon_spark.sql.ddl.partitions import read_spec
from paimon_spark.sql.ddl.table_clauses import COLLATION, COMMENT_PROPERTY, EXTERNAL, OWNER
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.frames.global_tables import GLOBAL_TABLES
from paimon_spark.sql.partition_details import described_partition, shown_partition
from paimon_spark.sql.query.catalog_views import (
    describe_view,
    find_view,
    show_create_view,
    views_of,
)
from paimon_spark.sql.query.queries import rewritten_view
from paimon_spark.sql.result import Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.system_tables import columns_of, table_of
from paimon_spark.sql.table_name import SYSTEM_DATABASE, TableName
from paimon_spark.sql.text.tokens import Words
from paimon_spark.sql.text.types import catalog_text, simple_text, tree_lines

_RESERVED = (
    *(COMMENT_PROPERTY, COLLATION, OWNER),
    *("location", "provider", EXTERNAL, "is_managed_location"),
)
"""Properties that Spark shows in other places (`CatalogV2Util.TABLE_RESERVED_PROPERTIES`)."""
_DESCRIBED = ("col_name", "data_type", "comment")
_Table = FileStoreTable | FormatTable
_METADATA_COLUMNS = (
    ("__paimon_file_path", "string"),
    ("__paimon_row_index", "bigint"),
    ("__paimon_partition", ""),
    ("__paimon_bucket", "int"),
)


def matches(pattern: str | None, name: str) -> bool:
    """Whether a name matches a pattern of SHOW: `*` for anything, `|` between alternatives."""
    if pattern is None:
        return True
    parts = [p.strip().replace("*", ".*") for p in pattern.split("|")]
    return any(re.fullmatch(p, name, re.IGNORECASE) for p in parts)


def _like(words: Words) -> str | None:
    pattern = words.string() if words.eat("LIKE") or words.is_string() else None
    words.end()
    return pattern


def _database(session: SqlSession, words: Words) -> tuple[str, str]:
    if not words.eat_any("IN", "FROM"):
        return session.current_catalog, session.database
    catalog, database = session.database_name(words.name())
    session.need_database(catalog, database)
    return catalog, database


def show_databases(session: SqlSession, words: Words) -> Result:
    catalog = session.current_catalog
    if words.eat_any("IN", "FROM"):
        catalog = words.identifier()
    pattern = _like(words)
    names = session.catalog_named(catalog).list_databases()
    return Result(("namespace",), [[_name(n)] for n in names if matches(pattern, n)])


def show_tables(session: SqlSession, words: Words) -> Result:
    """SHOW TABLES [IN db] [LIKE ..], temporary views included as in Spark."""
    catalog, database = _database(session, words)
    pattern = _like(words)
    session.need_database(catalog, database)
    names: Sequence[str] = GLOBAL_TABLES
    if database != SYSTEM_DATABASE:
        names = _table_names(session, catalog, database)
    tables = [t for t in names if matches(pattern, t)]
    views = [v for v in sorted(session.views) if "." not in v and matches(pattern, v)]
    return Result(
        ("namespace", "tableName", "isTemporary"),
        [*([_name(database), t, False] for t in tables), *(["", v, True] for v in views)],
    )


def _table_names(session: SqlSession, catalog: str, database: str) -> list[str]:
    """The names of Paimon's tables and format tables, sorted."""
    found = session.catalog_named(catalog)
    formats = [] if found.format_tables is None else found.format_tables.names(database)
    return sorted([*found.list_tables(database), *formats])


def show_catalogs(session: SqlSession, words: Words) -> Result:
    """SHOW CATALOGS [LIKE ..]."""
    pattern = _like(words)
    names = catalog_names(session.conf, session.defined)
    return Result(("catalog",), [[n] for n in names if matches(pattern, n)])


def show_views(session: SqlSession, words: Words) -> Result:
    """SHOW VIEWS [IN db] [LIKE ..]: those of the catalog, and temporary ones."""
    catalog, database = _database(session, words)
    pattern = _like(words)
    kept = views_of(session, catalog)
    names = [] if kept is None else kept.names(database)
    views = [v for v in sorted(session.views) if "." not in v and matches(pattern, v)]
    return Result(
        ("namespace", "viewName", "isTemporary"),
        [
            *([_name(database), v, False] for v in names if matches(pattern, v)),
            *(["", v, True] for v in views),
        ],
    )


def show_table_extended(session: SqlSession, words: Words) -> Result:
    """SHOW TABLE EXTENDED [IN db] LIKE 'pattern' [PARTITION (..)]."""
    catalog, database = _database(session, words)
    words.need("LIKE")
    pattern = words.string()
    spec = read_spec(words) if words.eat("PARTITION") else None
    words.end()
    rows = []
    for table_name in _table_names(session, catalog, database):
        if not matches(pattern, table_name):
            continue
        name = TableName(database, table_name, catalog=catalog)
        table = session.described(name)
        if spec is None or isinstance(table, FormatTable):
            text = "".join(f"{k}: {v}\n" for k, v in _information(table, name)) + "\n"
        else:
            text = "".join(f"{line}\n" for line in shown_partition(session, table, spec))
        rows.append([_name(database), table_name, False, text])
    return Result(("namespace", "tableName", "isTemporary", "information"), rows)


def _kind(table: _Table) -> str:
    if isinstance(table, FormatTable):
        return "EXTERNAL" if table.external else "MANAGED"
    return "EXTERNAL" if EXTERNAL in table.options else "MANAGED"


def _provider(table: _Table) -> str:
    return table.format if isinstance(table, FormatTable) else "paimon"


def _information(table: _Table, name: TableName) -> list[tuple[str, str]]:
    found = [("Catalog", name.catalog), ("Namespace", name.database), ("Table", name.table)]
    found.append(("Type", _kind(table)))
    if table.schema.comment is not None:
        found.append(("Comment", table.schema.comment))
    found += [("Location", _location(table)), ("Provider", _provider(table))]
    owner = _owner(table)
    if owner is not None:
        found.append(("Owner", owner))
    properties = ", ".join(f"{k}={v}" for k, v in sorted(_properties(table).items()))
    found.append(("Table Properties", f"[{properties}]"))
    if table.schema.partition_keys:
        keys = ", ".join(f"`{k}`" for k in table.schema.partition_keys)
        found += [("Partition Provider", "Catalog"), ("Partition Columns", f"[{keys}]")]
    return [*found, ("Schema", "\n".join(["root", *tree_lines(table.schema.fields)]))]


def show_columns(session: SqlSession, words: Words) -> Result:
    """SHOW COLUMNS IN table [IN db]."""
    if not words.eat_any("IN", "FROM"):
        words.fail("IN or FROM")
    parts = words.name()
    if words.eat_any("IN", "FROM"):
        parts = [*words.name(), parts[-1]]
    words.end()
    key = session.view_key(parts)
    if key:
        columns = session.spark.sql(rewritten_view(session, key)).columns
        return Result(("col_name",), [[n] for n in columns])
    return Result(("column",), [[n] for n in columns_of(session, session.table_name(parts)).names])


def show_table_properties(session: SqlSession, words: Words) -> Result:
    """SHOW TBLPROPERTIES table [('key')]."""
    name = session.table_name(words.name())
    table = table_of(session, name)
    properties = {} if table is None else _properties(table)
    if words.looks_at("("):
        words.need("(")
        key = words.string() if words.is_string() else ".".join(words.name())
        words.need(")")
        words.end()
        missing = (
            f"Table {name.catalog}.{name.database}.{name.written} does not have property: {key}"
        )
        return Result(("key", "value"), [[key, properties.get(key, missing)]])
    words.end()
    return Result(("key", "value"), [[k, v] for k, v in sorted(properties.items())])


def _properties(table: _Table) -> dict[str, str]:
    """Options as Java's SparkTable and PaimonFormatTable show them."""
    found = {**table.options, **table.catalog_properties, "path": _location(table)}
    if table.schema.primary_keys:
        found["primary-key"] = ",".join(table.schema.primary_keys)
    if isinstance(table, FormatTable) and table.format == "csv":
        found["sep"] = table.file_option(CSV_DELIMITER)
    return {k: v for k, v in found.items() if k not in _RESERVED}


def _location(table: _Table) -> str:
    """The table's folder as its catalog spells it."""
    return table.location or table.root


def _owner(table: _Table) -> str | None:
    return table.catalog_properties.get(OWNER, table.options.get(OWNER))


def show_create_table(session: SqlSession, words: Words) -> Result:
    name = session.table_name(words.name())
    if words.eat("AS", "SERDE"):
        raise AnalysisError(
            "[NOT_SUPPORTED_COMMAND_FOR_V2_TABLE] SHOW CREATE TABLE AS SERDE is not supported for "
            "v2 tables"
        )
    words.end()
    view = find_view(session, name)
    if view is not None:
        return show_create_view(view)
    columns = ",\n  ".join(_column_text(f) for f in columns_of(session, name))
    shown = ".".join(map(_name, (name.catalog, name.database, name.written)))
    lines = [f"CREATE TABLE {shown} (\n  {columns})"]
    table = table_of(session, name)
    if table is None:
        return Result(("createtab_stmt",), [["\n".join(lines) + "\n"]])
    schema = table.schema
    lines.append(f"USING {_provider(table)}")
    if schema.partition_keys:
        lines.append(f"PARTITIONED BY ({', '.join(map(_name, schema.partition_keys))})")
    if schema.comment is not None:
        lines.append(f"COMMENT {_quoted(schema.comment)}")
    if COLLATION in table.options:
        lines.append(f"COLLATION {_quoted(table.options[COLLATION])}")
    lines.append(f"LOCATION {_quoted(_location(table))}")
    properties = ",\n  ".join(
        f"{_quoted(k)} = {_quoted(v)}" for k, v in sorted(_properties(table).items())
    )
    lines.append(f"TBLPROPERTIES (\n  {properties})")
    return Result(("createtab_stmt",), [["\n".join(lines) + "\n"]])


def _column_text(field: DataField) -> str:
    text = f"{_name(field.name)} {catalog_text(field.type)}"
    if not field.type.nullable:
        text += " NOT NULL"
    if field.default_value is not None:
        text += f" DEFAULT {field.default_value}"
    if field.description is not None:
        text += f" COMMENT {_quoted(field.description)}"
    return text


def _name(name: str) -> str:
    """The name as Spark prints it (`QuotingUtils.quoteIfNeeded`)."""
    return (
        name
        if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)
        else "`" + name.replace("`", "``") + "`"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def describe_table(session: SqlSession, words: Words) -> Result:
    """DESCRIBE [TABLE] [EXTENDED | FORMATTED] table [PARTITION (..)] [column]."""
    extended = bool(words.eat_any("EXTENDED", "FORMATTED"))
    name = session.table_name(words.name())
    view = find_view(session, name)
    if view is not None:
        return describe_view(view, extended=extended)
    table = session.described(name)
    spec = read_spec(words) if words.eat("PARTITION") else None
    if spec is not None:
        words.end()
        if isinstance(table, FormatTable):
            raise AnalysisError(
                "[NOT_SUPPORTED_COMMAND_FOR_V2_TABLE] DESCRIBE TABLE ... PARTITION is not supported "
                f"for format table {name.shown}",
                table=name.identifier,
                next_step="SHOW PARTITIONS lists its partitions",
            )
    if words.looks_at("AS", "JSON"):
        raise AnalysisError(
            "[NOT_SUPPORTED_COMMAND_FOR_V2_TABLE] DESCRIBE TABLE AS JSON is not supported for v2 "
            "tables",
            table=name.identifier,
            next_step="DESCRIBE EXTENDED the table",
        )
    if not words.done:
        column = ".".join(words.name())
        words.end()
        return _describe_column(table, column, extended=extended)
    rows: list[list[str | None]] = [
        [f.name, simple_text(f.type), f.description] for f in table.schema.fields
    ]
    partition_fields = table.schema.partition_type.fields
    if partition_fields:
        rows += [["# Partition Information", "", ""], ["# col_name", "data_type", "comment"]]
        rows += [[_name(f.name), simple_text(f.type), f.description] for f in partition_fields]
    if extended:
        rows += _details(table)
    if spec is not None and isinstance(table, FileStoreTable):
        rows += described_partition(session, table, spec, name, extended=extended)
    required = [f for f in table.schema.fields if not f.type.nullable]
    if extended and required:
        rows.append(["# Column Not Null", "", ""])
        rows += [[f.name, simple_text(f.type), "NOT NULL"] for f in required]
    return Result(_DESCRIBED, rows)


def _describe_column(table: _Table, column: str, *, extended: bool) -> Result:
    """A column; with `extended` also what ANALYZE found, the least and greatest without quotes."""
    field = next((f for f in table.schema.fields if f.name.lower() == column.lower()), None)
    if field is None:
        raise AnalysisError(
            f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `{column}` cannot be resolved. "
            f"Did you mean one of {', '.join(table.schema.names)}",
            table=table.name,
        )
    rows = [
        ["col_name", field.name],
        ["data_type", simple_text(field.type)],
        ["comment", field.description or "NULL"],
    ]
    analyzed = None
    if extended and isinstance(table, FileStoreTable):
        latest = table.snapshots.latest()
        analyzed = None if latest is None else read_statistics(table, latest)
    found = None if analyzed is None else analyzed.columns.get(field.name)
    if found is not None:
        ends = [
            "NULL" if value is None else java_to_string(value, field.type)
            for value in (found.min, found.max)
        ]
        counts = (found.null_count, found.distinct_count, found.avg_len, found.max_len)
        names = ("min", "max", "num_nulls", "distinct_count", "avg_col_len", "max_col_len")
        shown = [*ends, *("NULL" if count is None else str(count) for count in counts)]
        rows += [list(row) for row in zip(names, shown, strict=True)]
    return Result(("info_name", "info_value"), rows)


def _details(table: _Table) -> list[list[str | None]]:
    partition_type = ",".join(
        f"{f.name}:{simple_text(f.type)}" for f in table.schema.partition_type
    )
    rows: list[list[str | None]] = []
    if isinstance(table, FileStoreTable):
        rows += [["", "", ""], ["# Metadata Columns", "", ""]]
        if table.options.value(ROW_TRACKING_ENABLED):
            rows += [[ROW_ID, "bigint", ""], [SEQUENCE_NUMBER, "bigint", ""]]
        rows += [[n, t or f"struct<{partition_type}>", ""] for n, t in _METADATA_COLUMNS]
    rows += [["", "", ""], ["# Detailed Table Information", "", ""]]
    rows += [["Name", table.name, ""], ["Type", _kind(table), ""]]
    if table.schema.comment is not None:
        rows.append(["Comment", table.schema.comment, ""])
    if COLLATION in table.options:
        rows.append(["Collation", table.options[COLLATION], ""])
    rows += [["Location", _location(table), ""], ["Provider", _provider(table), ""]]
    owner = _owner(table)
    if owner is not None:
        rows.append(["Owner", owner, ""])
    properties = ",".join(f"{k}={v}" for k, v in sorted(_properties(table).items()))
    rows.append(["Table Properties", f"[{properties}]", ""])
    if isinstance(table, FileStoreTable):
        rows.append(["Statistics", _size(table), None])
    defaults = [f for f in table.schema.fields if f.default_value is not None]
    if defaults:
        rows += [["", "", ""], ["# Column Default Values", "", ""]]
        rows += [[f.name, simple_text(f.type), f.default_value] for f in defaults]
    return rows


def _size(table: FileStoreTable) -> str:
    """The bytes and rows that Spark plans with: the rows of all files, with values of usual size.

    Java: `spark/read/PaimonStatistics`.
    """
    latest = table.snapshots.latest()
    if latest is None:
        return "0 bytes, 0 rows"
    rows = int(scan_columns(table, latest, ("row_count",)).numbers["row_count"].sum())
    analyzed = read_statistics(table, latest)
    known = {} if analyzed is None else analyzed.columns
    lengths = {n: c.avg_len for n, c in known.items() if c.avg_len is not None}
    fields = table.schema.fields
    size = rows * sum(lengths.get(f.name, usual_size(f.type)) for f in fields)
    return f"{max(size, rows)} bytes, {rows} rows"


def describe_database(session: SqlSession, words: Words) -> Result:
    """DESCRIBE DATABASE [EXTENDED] name."""
    extended = words.eat("EXTENDED")
    catalog, database = session.database_name(words.name())
    words.end()
    session.need_database(catalog, database)
    found = session.catalog_named(catalog).get_database(database)
    rows = [["Catalog Name", catalog], ["Namespace Name", database]]
    properties = dict(found.properties)
    comment, owner = properties.pop(COMMENT_PROPERTY, None), properties.pop(OWNER, None)
    properties.pop("location", None)
    if comment is not None:
        rows.append(["Comment", comment])
    if found.location is not None:
        rows.append(["Location", found.location])
    if owner is not None:
        rows.append(["Owner", owner])
    if extended:
        shown = ", ".join(f"({k},{v})" for k, v in sorted(properties.items()))
        rows.append(["Properties", f"({shown})" if properties else ""])
    return Result(("info_name", "info_value"), rows)
