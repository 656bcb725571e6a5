"""ALTER TABLE and ALTER DATABASE."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_core.ddl.schema_change import (
    AddColumn,
    DropColumn,
    MoveColumn,
    Path,
    Place,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateTableComment,
)
from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.types.data_types import DataField, DataType, RowType
from paimon_spark.sql.ddl.partitions import add_partitions, drop_partitions
from paimon_spark.sql.ddl.table_clauses import (
    COLLATION,
    COMMENT_PROPERTY,
    check_default,
    check_no_constraint,
    check_not_reserved,
    read_database_properties,
    read_table_properties,
)
from paimon_spark.sql.ddl.tables import check_no_branch
from paimon_spark.sql.ddl.tags import tag_statement
from paimon_spark.sql.ddl.upcast import field_at, fits_into
from paimon_spark.sql.errors import AnalysisError, SqlSyntaxError
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName, check_no_system_table, not_found
from paimon_spark.sql.text.tokens import Words
from paimon_spark.sql.text.types import read_collation, read_type, simple_text

_IMMUTABLE = {"primary-key": "Alter primary key is not supported"}


def alter_database(session: SqlSession, words: Words) -> Result:
    """ALTER DATABASE name SET DBPROPERTIES (..) | UNSET DBPROPERTIES (..) | SET LOCATION '..'.

    UnsupportedFeature in a filesystem catalog, which keeps neither.
    """
    catalog, database = session.database_name(words.name())
    session.need_database(catalog, database)
    removed: list[str] = []
    changes: dict[str, str] = {}
    if words.eat("UNSET"):
        if not words.eat_any("DBPROPERTIES", "PROPERTIES"):
            words.fail("DBPROPERTIES")
        removed = words.items(words.one_string)
        words.end()
        session.catalog_named(catalog).alter_database(database, removed=removed)
        return NOTHING
    words.need("SET")
    if words.eat("LOCATION"):
        changes = {"location": words.string()}
    elif words.eat_any("DBPROPERTIES", "PROPERTIES"):
        changes = read_database_properties(words)
    else:
        words.fail("DBPROPERTIES or LOCATION")
    words.end()
    session.catalog_named(catalog).alter_database(database, changes=changes)
    return NOTHING


def alter_table(session: SqlSession, words: Words) -> Result:
    """One ALTER TABLE statement."""
    parts = words.name()
    name = session.table_name(parts)
    if not session.has_table(name):
        raise not_found(name)
    check_no_system_table(name)
    if words.eat("RENAME", "TO"):
        return _rename(session, name, words)
    if words.looks_at("RENAME", "TAG") or words.word(1) == "TAG" or words.word(3) == "TAG":
        return tag_statement(session, session.data_of(name), words)
    if words.looks_at("ADD", "PARTITION") or words.looks_at(
        "ADD", "IF", "NOT", "EXISTS", "PARTITION"
    ):
        return add_partitions(session, session.data_of(name), words)
    if words.looks_at("DROP", "PARTITION") or words.looks_at("DROP", "IF", "EXISTS", "PARTITION"):
        return drop_partitions(session, session.data_of(name), words)
    changes = _changes(session, name, words)
    words.end()
    if changes:
        session.change(name, changes)
    return NOTHING


def _rename(session: SqlSession, name: TableName, words: Words) -> Result:
    """RENAME TO [[catalog.]database.]name, within the catalog."""
    parts = words.name()
    words.end()
    if len(parts) == 3:
        if parts[0].lower() != name.catalog.lower():
            raise InvalidArgument(
                f"Only supports operations within the same catalog, target catalog name: "
                f"{parts[0]}, current catalog name: {name.catalog}"
            )
        parts = parts[1:]
    target = session.table_name([name.catalog, *([name.database, *parts][-2:])])
    for one in (name, target):
        check_no_system_table(one)
        check_no_branch(one, "renamed")
    if session.has_table(target):
        raise AnalysisError(
            f"[TABLE_OR_VIEW_ALREADY_EXISTS] Cannot create table or view {target.identifier} "
            "because it already exists",
            table=name.identifier,
            next_step="choose another name",
        )
    catalog = session.catalog_for(name)
    tables = None if session.known_format(name) is None else catalog.format_tables
    if tables is None:
        catalog.rename_table(name.identifier, target.identifier)
    else:
        tables.rename(name.identifier, target.identifier)
    return NOTHING


def _changes(session: SqlSession, name: TableName, words: Words) -> list[SchemaChange]:
    if words.eat("SET", "TBLPROPERTIES"):
        return [_set_option(k, v) for k, v in read_table_properties(words).items()]
    if words.eat("UNSET", "TBLPROPERTIES"):
        words.eat("IF", "EXISTS")
        keys = words.items(
            lambda: words.one_string() if words.is_string() else ".".join(words.name())
        )
        check_not_reserved(keys)
        return [
            UpdateTableComment(None) if k == COMMENT_PROPERTY else RemoveOption(k) for k in keys
        ]
    if words.eat("DEFAULT", "COLLATION"):
        return [SetOption(COLLATION, read_collation(words))]
    if words.looks_at("SET", "LOCATION"):
        raise UnsupportedFeature(
            "SET LOCATION",
            "ALTER TABLE ... SET LOCATION is not supported for Paimon tables.",
            table=name.identifier,
            next_step="create another table, and copy the rows",
        )
    if words.looks_at("RECOVER", "PARTITIONS"):
        raise AnalysisError(
            "[NOT_SUPPORTED_COMMAND_FOR_V2_TABLE] ALTER TABLE ... RECOVER PARTITIONS is not "
            "supported for v2 tables",
            table=name.identifier,
        )
    if words.looks_at("SET", "SERDE") or words.looks_at("SET", "SERDEPROPERTIES"):
        raise AnalysisError(
            "[NOT_SUPPORTED_COMMAND_FOR_V2_TABLE] ALTER TABLE ... SET [SERDE|SERDEPROPERTIES] is "
            "not supported for v2 tables",
            table=name.identifier,
            next_step="SET TBLPROPERTIES",
        )
    if words.looks_at("CLUSTER", "BY"):
        raise UnsupportedFeature(
            "CLUSTER BY",
            table=name.identifier,
            next_step="SET TBLPROPERTIES ('clustering.columns' = 'COLUMN, ...')",
        )
    if words.looks_at("DROP", "CONSTRAINT"):
        raise UnsupportedFeature("constraints", table=name.identifier)
    if words.looks_at("ADD", "CONSTRAINT"):
        words.at += 1
        check_no_constraint(words, name.identifier)
        words.fail("PRIMARY KEY, FOREIGN KEY, UNIQUE or CHECK")
    columns = _Columns(session, name)
    if words.looks_at("PARTITION"):
        raise UnsupportedFeature(
            "ALTER TABLE ... PARTITION",
            "Partition renaming is not supported",
            table=name.identifier,
            next_step="insert the rows into the other partition, and drop this one",
        )
    if words.eat_any("ADD") and words.eat_any("COLUMN", "COLUMNS"):
        return _add(words, columns)
    if words.eat("RENAME", "COLUMN"):
        path = columns.path(words.name())
        words.need("TO")
        new = words.identifier()
        if columns.field(path) is None:
            raise _no_column(columns, path)
        if columns.field((*path[:-1], new)) is not None:
            raise AnalysisError(
                f"[FIELD_ALREADY_EXISTS] Cannot rename column, because `{new}` already exists in "
                f"table {columns.table.name}",
                table=columns.table.name,
            )
        return [RenameColumn(path, new)]
    if words.eat("DROP"):
        if not words.eat_any("COLUMN", "COLUMNS"):
            words.fail("COLUMN")
        if_exists = words.eat("IF", "EXISTS")
        return _drop(words, columns, if_exists=if_exists)
    verb = words.eat_any("ALTER", "CHANGE")
    if verb is not None:
        words.eat("COLUMN")
        return _alter_columns(words, columns, hive=verb == "CHANGE")
    if words.eat_any("REPLACE") and words.eat("COLUMNS"):
        raise UnsupportedFeature(
            "ALTER TABLE REPLACE COLUMNS",
            "ALTER TABLE ... REPLACE COLUMNS is not supported for Paimon tables. Please use RENAME "
            "COLUMN, ALTER COLUMN TYPE, DROP COLUMN, and ADD COLUMN instead.",
            table=name.identifier,
            next_step="change the columns one after the other",
        )
    return words.fail("a change of the table")


def _set_option(key: str, value: str) -> SchemaChange:
    if key == COMMENT_PROPERTY:
        return UpdateTableComment(value)
    if key in _IMMUTABLE:
        raise UnsupportedFeature(
            key, _IMMUTABLE[key], next_step="create another table, and copy the rows"
        )
    return SetOption(key, value)


class _Columns:
    """The columns of the table, whose names match whatever their case, or as Spark is set."""

    def __init__(self, session: SqlSession, name: TableName) -> None:
        self.table = session.described(name, to_write=True)
        self._sensitive = session.case_sensitive

    def path(self, parts: Sequence[str]) -> Path:
        """The path in the case of the table; names that it does not have stay."""
        found: list[str] = []
        for name in parts:
            field = self.field([*found, name])
            found.append(name if field is None else field.name)
        return tuple(found)

    def field(self, path: Sequence[str]) -> DataField | None:
        """The field at this path; `element`, `key` and `value` lead into arrays and maps."""
        return field_at(self.table.schema.row_type, path, sensitive=self._sensitive)

    def has(self, parts: Sequence[str]) -> bool:
        return self.path(parts)[0] in self.table.schema.names


def _position(words: Words, columns: _Columns, parent: Sequence[str] = ()) -> Position | None:
    """The place of a column among those of `parent`."""
    if words.eat("FIRST"):
        return Position(Place.FIRST)
    if words.eat("AFTER"):
        return Position(Place.AFTER, columns.path((*parent, words.identifier()))[-1])
    return None


def _add(words: Words, columns: _Columns) -> list[SchemaChange]:
    def one() -> AddColumn:
        path = tuple(words.name())
        data_type = read_type(words)
        comment, position = None, None
        seen: list[str] = []
        while not words.done and not words.looks_at(",") and not words.looks_at(")"):
            seen.append({"AFTER": "FIRST"}.get(words.word(), words.word()))
            if seen.count(seen[-1]) > 1:
                words.fail("each descriptor once")
            if words.eat("NOT", "NULL"):
                data_type = data_type.with_nullable(False)
            elif words.eat("COMMENT"):
                comment = words.string()
            elif words.looks_at("DEFAULT"):
                raise UnsupportedFeature(
                    "adding a column with a default",
                    f"Unsupported table change: Cannot add column [{'.'.join(path)}] with default value",
                    next_step="add the column, then ALTER COLUMN ... SET DEFAULT",
                )
            else:
                position = _position(words, columns, path[:-1])
                if position is None:
                    words.fail()
        return AddColumn(_added_path(columns, path), data_type, comment, position)

    if words.looks_at("("):
        added = words.items(one)
    else:
        added = [one()]
        while words.eat(","):
            added.append(one())
    new: set[Path] = set()
    for change in added:
        parent, position = change.path[:-1], change.position
        if position is not None and position.reference is not None:
            reference = (*parent, position.reference)
            if columns.field(reference) is None and reference not in new:
                raise _no_column(columns, reference)
        if change.path in new:
            raise AnalysisError(
                f"[COLUMN_ALREADY_EXISTS] The column `{change.path[-1]}` already exists",
                next_step="name each column once",
            )
        new.add(change.path)
        if not parent and columns.has(change.path):
            raise AnalysisError(
                f"[FIELD_ALREADY_EXISTS] Cannot add column, because `{change.path[0]}` "
                f"already exists in table {columns.table.name}"
            )
    return list(added)


def _added_path(columns: _Columns, path: Path) -> Path:
    """The path of a new column.  AnalysisError for a field of what is no struct, or is there."""
    if not path[1:]:
        return path
    parent = columns.field(path[:-1])
    if parent is None:
        raise _no_column(columns, path[:-1])
    if not isinstance(parent.type, RowType):
        raise AnalysisError(
            f"[INVALID_FIELD_NAME] Field name `{'`.`'.join(path)}` is invalid: "
            f"`{'`.`'.join(path[:-1])}` is not a struct",
            table=columns.table.name,
        )
    if columns.field(path) is not None:
        raise AnalysisError(
            f"[FIELD_ALREADY_EXISTS] Cannot add column, because `{'`.`'.join(path)}` already "
            f"exists in table {columns.table.name}",
            table=columns.table.name,
        )
    return columns.path(path[:-1]) + path[-1:]


def _drop(words: Words, columns: _Columns, *, if_exists: bool) -> list[SchemaChange]:
    if words.looks_at("("):
        found = words.items(words.name)
    else:
        found = [words.name()]
        while words.eat(","):
            found.append(words.name())
    changes: list[SchemaChange] = []
    for parts in found:
        if columns.field(parts) is None:
            if if_exists:
                continue
            raise _no_column(columns, parts)
        changes.append(DropColumn(columns.path(parts)))
    return changes


def _alter_columns(words: Words, columns: _Columns, *, hive: bool) -> list[SchemaChange]:
    """Each column and its change; `hive` allows CHANGE COLUMN name name type [COMMENT] [place]."""
    changes: list[SchemaChange] = []
    changed: list[Path] = []
    while True:
        parts = words.name()
        path = columns.path(parts)
        if columns.field(path) is None:
            raise _no_column(columns, parts)
        if any(path[: len(c)] == c[: len(path)] for c in changed):
            raise AnalysisError(
                "[NOT_SUPPORTED_CHANGE_SAME_COLUMN] ALTER TABLE ALTER/CHANGE COLUMN is not "
                f"supported for changing {columns.table.name}'s column `{'.'.join(path)}` "
                "including its nested fields multiple times in the same command",
                table=columns.table.name,
                next_step="change it in several statements",
            )
        changed.append(path)
        if words.done or words.looks_at(","):
            words.fail("a change of the column")
        first = _alter_one(words, columns, path)
        changes += _change_column(words, columns, path) if first is None and hive else ()
        if first is not None:
            changes.append(first)
        elif not hive:
            words.fail("a change of the column")
        if not words.eat(","):
            return changes


def _alter_one(words: Words, columns: _Columns, path: Path) -> SchemaChange | None:
    """The change at the cursor, None if there is none."""
    if words.eat("TYPE"):
        return _new_type(columns, path, read_type(words))
    if words.eat("COMMENT"):
        return UpdateColumnComment(path, words.string())
    if words.eat("DROP", "NOT", "NULL"):
        return UpdateColumnNullability(path, nullable=True)
    if words.eat("SET", "NOT", "NULL"):
        field = columns.field(path)
        if field is not None and field.type.nullable:
            raise AnalysisError(
                f"Cannot change nullable column to non-nullable: {'.'.join(path)}",
                table=columns.table.name,
            )
        return UpdateColumnNullability(path, nullable=False)
    if words.eat("SET", "DEFAULT"):
        default = words.expression(",")
        check_default(default)
        return UpdateColumnDefault(path, default)
    if words.eat("DROP", "DEFAULT"):
        return UpdateColumnDefault(path, None)
    return _move(words, columns, path)


def _move(words: Words, columns: _Columns, path: Path) -> SchemaChange | None:
    position = _position(words, columns, path[:-1])
    if position is not None and position.reference is not None:
        reference = (*path[:-1], position.reference)
        if columns.field(reference) is None:
            raise _no_column(columns, reference)
    return None if position is None else MoveColumn(path[-1], position, path[:-1])


def _change_column(words: Words, columns: _Columns, path: Path) -> list[SchemaChange]:
    """Hive's form, after CHANGE COLUMN name: name type [COMMENT ..] [FIRST | AFTER ..]."""
    name = words.identifier()
    if name.lower() != path[-1].lower():
        raise SqlSyntaxError(
            "[INVALID_STATEMENT_OR_CLAUSE] Renaming column is not supported in Hive-style ALTER "
            "COLUMN, please run RENAME COLUMN instead"
        )
    changes: list[SchemaChange] = [_new_type(columns, path, read_type(words))]
    if words.eat("COMMENT"):
        changes.append(UpdateColumnComment(path, words.string()))
    moved = _move(words, columns, path)
    return changes if moved is None else [*changes, moved]


def _new_type(columns: _Columns, path: Path, new: DataType) -> UpdateColumnType:
    """The change of a type.  AnalysisError if not all old values fit, as Spark refuses it."""
    field = columns.field(path)
    if field is not None and not fits_into(field.type, new):
        old = simple_text(field.type).upper()
        raise AnalysisError(
            f"[NOT_SUPPORTED_CHANGE_COLUMN] ALTER TABLE ALTER/CHANGE COLUMN is not supported for "
            f'changing {columns.table.name}\'s column `{".".join(path)}` with type "{old}" to '
            f'`{".".join(path)}` with type "{simple_text(new).upper()}"',
            table=columns.table.name,
        )
    return UpdateColumnType(path, new)


def _no_column(columns: _Columns, parts: Sequence[str]) -> AnalysisError:
    return AnalysisError(
        f"[FIELD_NOT_FOUND] Missing field `{'.'.join(parts)}` in table {columns.table.name}; it has "
        f"{', '.join(columns.table.schema.names)}",
        table=columns.table.name,
    )
