"""Applies changes to a table's schema (Java: `schema/SchemaManager.generateTableSchema`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from paimon_core.ddl import map_layouts
from paimon_core.ddl.column_directives import apply_directive, forget_column, is_blob_column
from paimon_core.ddl.create import (
    SYSTEM_FIELD_IDS,
    check_default_value,
    highest_field_id,
    normalized,
    with_new_ids,
)
from paimon_core.ddl.nested_columns import (
    described,
    index_of,
    leaf_type,
    update_column,
    update_siblings,
    with_leaf_type,
)
from paimon_core.ddl.schema_change import (
    AddColumn,
    DropColumn,
    DropPrimaryKey,
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
from paimon_core.ddl.validation import validate_schema
from paimon_core.errors import ForbiddenChange, ImmutableOption, SchemaError
from paimon_core.features import PK_CLUSTERING
from paimon_core.known_options import check_value
from paimon_core.options import (
    AGGREGATION_REMOVE_RECORD_ON_DELETE,
    BUCKET,
    BUCKET_FUNCTION,
    CLUSTERING_COLUMNS,
    DATA_EVOLUTION_ENABLED,
    DATA_FILE_PATH_DIRECTORY,
    DELETION_VECTORS_ENABLED,
    FORCE_LOOKUP,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    INDEX_FILE_IN_DATA_FILE_DIR,
    MANIFEST_FORMAT,
    MERGE_ENGINE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
    ROW_TRACKING_ENABLED,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    SNAPSHOT_ORDERING,
    Options,
    parse_bool,
)
from paimon_core.schema.schema_json import NEWEST_VERSION
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.casts.rules import can_evolve
from paimon_core.types.data_types import DataField, DataType
from paimon_core.types.sql import type_to_sql

IMMUTABLE_OPTIONS: Final = frozenset(
    {
        "bucket-key",
        BUCKET_FUNCTION.key,
        DATA_FILE_PATH_DIRECTORY.key,
        MERGE_ENGINE.key,
        AGGREGATION_REMOVE_RECORD_ON_DELETE.key,
        PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE.key,
        PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP.key,
        ROWKIND_FIELD.key,
        "primary-key",
        "partition",
        FORCE_LOOKUP.key,
        ROW_TRACKING_ENABLED.key,
        DATA_EVOLUTION_ENABLED.key,
        INDEX_FILE_IN_DATA_FILE_DIR.key,
        "blob-descriptor-field",
        "blob-view-field",
        "blob-external-storage-path",
        "blob-external-storage-field",
        PK_CLUSTERING,
        SNAPSHOT_ORDERING.key,
    }
)
"""Options that cannot change once the table has a snapshot (Java: `@Immutable`)."""
_TYPE: Final = "type"
_FIELD_OPTIONS: Final = (
    *("aggregate-function", "ignore-retract", "distinct", "list-agg-delimiter"),
    *map_layouts.FIELD_OPTIONS,
)
_GROUP_OPTIONS: Final = ("sequence-group", "nested-key")
_FIELD_KINDS: Final = (*_FIELD_OPTIONS, *_GROUP_OPTIONS)
"""What follows the names of columns in options `fields.COLUMNS.*`."""
_NAME_LISTS: Final = ("bucket-key", SEQUENCE_FIELD.key)


def apply_changes(
    schema: TableSchema,
    changes: Sequence[SchemaChange],
    *,
    now_millis: int,
    has_snapshots: bool | Callable[[], bool],
) -> TableSchema:
    """Return the changed schema with the next id; SchemaError for changes that Java refuses.

    Some options cannot change once the table has a snapshot; `has_snapshots` is called only if that
    matters.
    """
    edit = _Edit(schema, has_snapshots)
    for change in changes:
        edit.apply(change)
    result = replace(
        schema,
        version=NEWEST_VERSION,
        id=schema.id + 1,
        fields=tuple(edit.fields),
        highest_field_id=edit.highest_field_id,
        primary_keys=edit.primary_keys,
        options=Options(edit.options),
        comment=edit.comment,
        time_millis=now_millis,
    )
    renames = {
        c.path[0]: c.new_name for c in changes if isinstance(c, RenameColumn) and len(c.path) == 1
    }
    result = normalized(_with_renames(result, renames))
    validate_schema(result)
    return result


class _Edit:
    """The parts of the new schema while the changes are applied one after another."""

    def __init__(self, schema: TableSchema, has_snapshots: bool | Callable[[], bool]) -> None:  # noqa: FBT001 - not called from outside
        self.old = schema
        self.fields = list(schema.fields)
        self.options = dict(schema.options)
        self.comment = schema.comment
        # Renamed keys keep their old names until all changes are applied.
        self.primary_keys = schema.primary_keys
        # A schema that states too low an id must not make a new column read an old one's values.
        self.highest_field_id = max(schema.highest_field_id, highest_field_id(schema.fields))
        self._has_snapshots = has_snapshots

    @property
    def has_snapshots(self) -> bool:
        if callable(self._has_snapshots):
            self._has_snapshots = self._has_snapshots()
        return self._has_snapshots

    def apply(self, change: SchemaChange) -> None:
        match change:
            case SetOption(key, value):
                if key != _TYPE or value != self.old.options.get(key, "table"):
                    self._check_option(key)
                check_value(key, value)
                if self.has_snapshots:
                    _check_set(self.old.options, key, value)
                self.options[key] = value
            case RemoveOption(key):
                self._check_option(key)
                if self.has_snapshots:
                    _check_reset(self.old.options, key)
                self.options.pop(key, None)
            case UpdateTableComment(comment):
                self.comment = comment
            case AddColumn():
                self._add(change)
            case RenameColumn(path, new_name):
                self._rename(path, new_name)
            case DropColumn(path):
                self._drop(path)
            case UpdateColumnType():
                self._update_type(change)
            case UpdateColumnNullability(path, nullable):
                self._update_nullability(path, nullable=nullable)
            case UpdateColumnComment(path, description):
                update_column(self.fields, path, lambda f, _: replace(f, description=description))
            case UpdateColumnDefault(path, default_value):
                update_column(self.fields, path, lambda f, _: _with_default(f, default_value))
            case MoveColumn(name, position, parent):

                def move(siblings: list[DataField], name: str) -> None:
                    _move(siblings, name, position)

                update_siblings(self.fields, (*parent, name), move)
            case DropPrimaryKey():
                if self.has_snapshots:
                    raise ForbiddenChange("Cannot drop primary keys on a non-empty table.")
                self.primary_keys = ()

    # --- options ---

    def _check_option(self, key: str) -> None:
        if key.lower() == "path":
            raise ForbiddenChange("Change path is not supported yet.")
        if key == _TYPE:
            raise SchemaError("the type of a table cannot be changed")

    # --- columns ---

    def _add(self, change: AddColumn) -> None:
        if not change.type.nullable:
            raise SchemaError(
                f"Column {'.'.join(change.path)} cannot specify NOT NULL: "
                "existing rows have no value for it"
            )
        before = dict(self.options)
        data_type, description = apply_directive(
            change.path[0], change.type, change.description, self.options
        )
        if self.options != before and len(change.path) > 1:
            raise SchemaError(
                f"Comment directive cannot be used on a nested column {described(change.path)}."
            )
        ids = count(self.highest_field_id + 1)
        field_id = next(ids)
        data_type = with_new_ids(data_type, ids)
        self.highest_field_id = next(ids) - 1
        if self.highest_field_id >= SYSTEM_FIELD_IDS:
            raise SchemaError(
                f"the new column {described(change.path)} cannot have an id: the schema says that "
                f"{self.old.highest_field_id} is taken, and later ids are Paimon's own"
            )
        before_partition = (
            len(change.path) == 1
            and change.position is None
            and self.old.options.flag("add-column-before-partition")
        )

        def add(siblings: list[DataField], name: str) -> None:
            if index_of(siblings, name) is not None:
                raise SchemaError(f"the column {described(change.path)} already exists")
            field = DataField(id=field_id, name=name, type=data_type, description=description)
            at = len(siblings)
            if change.position is not None:
                at = _insertion(siblings, change.position)
            elif before_partition:
                keys = self.old.partition_keys
                at = next((i for i, f in enumerate(siblings) if f.name in keys), at)
            siblings.insert(at, field)

        update_siblings(self.fields, change.path, add)

    def _rename(self, path: Path, new_name: str) -> None:
        self._refuse_partition_key(path, "rename")

        def rename(siblings: list[DataField], name: str) -> None:
            at = index_of(siblings, name)
            if at is None:
                raise _no_column(path)
            if is_blob_column(siblings[at].type) and len(path) == 1:
                raise ForbiddenChange(f"Cannot rename BLOB column: [{name}]")
            if index_of(siblings, new_name) is not None:
                raise SchemaError(f"the column {described((*path[:-1], new_name))} already exists")
            siblings[at] = replace(siblings[at], name=new_name)

        update_siblings(self.fields, path, rename)

    def _drop(self, path: Path) -> None:
        keys = (*self.old.partition_keys, *self.old.primary_keys)
        if len(path) == 1 and path[0] in keys:
            raise ForbiddenChange(f"Cannot drop partition key or primary key: [{path[0]}]")

        def drop(siblings: list[DataField], name: str) -> None:
            at = index_of(siblings, name)
            if at is None:
                raise _no_column(path)
            if len(siblings) == 1:
                raise SchemaError(
                    f"Cannot drop all fields in table: {described(path)} is the last one"
                )
            if len(path) == 1:
                forget_column(name, siblings[at].type, self.options)
            del siblings[at]

        update_siblings(self.fields, path, drop)

    def _update_type(self, change: UpdateColumnType) -> None:
        path = change.path
        self._refuse_partition_key(path, "update")
        self._refuse_primary_key(path, "update")

        def update(field: DataField, depth: int) -> DataField:
            steps = len(path) - 1 - depth
            source = leaf_type(field.type, steps)
            target = change.type
            if len(path) == 1 and (is_blob_column(source) or is_blob_column(target)):
                raise SchemaError(
                    f"the type of the BLOB column {described(path)} cannot change from "
                    f"{type_to_sql(source)} to {type_to_sql(target)}"
                )
            if change.keep_nullability:
                target = target.with_nullable(source.nullable)
            else:
                self._check_nullability(source, nullable=target.nullable, path=path)
            explicit = not self.old.options.flag("disable-explicit-type-casting")
            if not can_evolve(source, target, explicit=explicit):
                raise SchemaError(
                    f"the column {described(path)} cannot become {type_to_sql(target)}: there is "
                    f"no cast from {type_to_sql(source)}"
                    + ("" if explicit else " that loses nothing")
                )
            return replace(field, type=with_leaf_type(field.type, target, steps))

        update_column(self.fields, path, update)

    def _update_nullability(self, path: Path, *, nullable: bool) -> None:
        if nullable:
            self._refuse_primary_key(path, "change nullability of")

        def update(field: DataField, depth: int) -> DataField:
            steps = len(path) - 1 - depth
            source = leaf_type(field.type, steps)
            self._check_nullability(source, nullable=nullable, path=path)
            new = with_leaf_type(field.type, source.with_nullable(nullable), steps)
            return replace(field, type=new)

        update_column(self.fields, path, update)

    def _check_nullability(self, source: DataType, *, nullable: bool, path: Path) -> None:
        option = "alter-column-null-to-not-null.disabled"
        if source.nullable and not nullable and parse_bool(self.old.options.get(option, "true")):
            raise ForbiddenChange(
                "Cannot update column type from nullable to non nullable for "
                f"{'.'.join(path)}: it may hold nulls",
                next_step=f"if there are none, set {option}=false first",
            )

    def _refuse_partition_key(self, path: Path, what: str) -> None:
        if len(path) == 1 and path[0] in self.old.partition_keys:
            raise ForbiddenChange(f"Cannot {what} partition column: [{path[0]}]")

    def _refuse_primary_key(self, path: Path, what: str) -> None:
        if len(path) == 1 and path[0] in self.old.primary_keys:
            raise ForbiddenChange(f"Cannot {what} primary key: [{path[0]}]")


def _with_default(field: DataField, default_value: str | None) -> DataField:
    check_default_value(field.type, default_value)
    return replace(field, default_value=default_value)


def _no_column(path: Path) -> SchemaError:
    return SchemaError(f"the column {described(path)} does not exist")


def _insertion(siblings: list[DataField], position: Position) -> int:
    match position.place:
        case Place.FIRST:
            return 0
        case Place.LAST:
            return len(siblings)
    reference = index_of(siblings, position.reference or "")
    if reference is None:
        raise SchemaError(f"the reference column {position.reference!r} does not exist")
    return reference + 1 if position.place is Place.AFTER else reference


def _move(fields: list[DataField], name: str, position: Position) -> None:
    at = index_of(fields, name)
    if at is None:
        raise _no_column((name,))
    match position.place:
        case Place.FIRST:
            stays = at == 0
        case Place.LAST:
            stays = at == len(fields) - 1
        case _:
            stays = name == position.reference
    if stays:
        raise ForbiddenChange(f"Cannot move itself for column {name}")
    moved = fields.pop(at)
    try:
        fields.insert(_insertion(fields, position), moved)
    except SchemaError:
        fields.insert(at, moved)
        raise


# --- options that cannot change -----------------------------------------------------------------


def check_dynamic_options(schema: TableSchema, dynamic: Mapping[str, str | None]) -> None:
    """Raise SchemaError for an option that cannot change even for a single handle.

    Java: `AbstractFileStoreTable.checkImmutability`, at each `copy` with options.
    """
    for key, value in dynamic.items():
        if schema.options.get(key) == value:
            continue
        try:
            if value is None:
                _check_reset(schema.options, key)
            else:
                _check_set(schema.options, key, value)
        except SchemaError as e:
            if e.next_step == e.default_next_step:
                e.next_step = f"leave the option {key} as the table has it, and run again"
            raise


def _check_set(old: Options, key: str, value: str) -> None:
    if key in IMMUTABLE_OPTIONS:
        raise ImmutableOption(
            f"Change '{key}' is not supported yet: it cannot be changed once the table has a snapshot"
        )
    new = Options({**old, key: value})
    if key == BUCKET.key:
        before, after = old.value(BUCKET), new.value(BUCKET)
        if -1 in (before, after):
            raise ImmutableOption(
                f"Cannot change bucket {'when it is' if before == -1 else 'to'} -1: "
                f"the number of buckets cannot change from {before} to {after}"
            )
    if key == MANIFEST_FORMAT.key:
        _check_manifest_format(old, new)
    if (
        key == DELETION_VECTORS_ENABLED.key
        and parse_bool(old.get(key, "false")) != parse_bool(value)
        and not parse_bool(old.get("deletion-vectors.modifiable", "false"))
    ):
        raise ImmutableOption(
            f"Cannot change deletion vectors mode to {value}: files on disk rely on it, so "
            "deletion-vectors.enabled cannot be changed",
            next_step="set deletion-vectors.modifiable=true if a full compaction follows",
        )
    for option in (IGNORE_DELETE, IGNORE_UPDATE_BEFORE):
        if key == option.key and parse_bool(old.get(key, "false")) and not parse_bool(value):
            raise ImmutableOption(f"Cannot change {key} from true to false: it cannot be changed")
    if key == CLUSTERING_COLUMNS.key and PK_CLUSTERING in old:
        raise ImmutableOption(f"Cannot change {key} when {PK_CLUSTERING} enabled.")


def _check_reset(old: Options, key: str) -> None:
    if key in IMMUTABLE_OPTIONS or key == BUCKET.key:
        raise ImmutableOption(
            f"Change '{key}' is not supported yet: it cannot be removed once the table has a snapshot"
        )
    if key == CLUSTERING_COLUMNS.key and PK_CLUSTERING in old:
        raise ImmutableOption(f"Cannot reset {key} when {PK_CLUSTERING} enabled.")
    if key == MANIFEST_FORMAT.key:
        _check_manifest_format(old, Options({}))


def _check_manifest_format(old: Options, new: Options) -> None:
    """ImmutableOption for another format: Java reads all manifests in that of the option.

    Java lets it be changed, and cannot read the table afterwards.
    """
    before, after = old.value(MANIFEST_FORMAT), new.value(MANIFEST_FORMAT)
    if before != after:
        raise ImmutableOption(
            f"Cannot change manifest.format from {before} to {after}: Java Paimon could not read the "
            f"manifests that are there"
        )


# --- names of columns in keys and options -------------------------------------------------------


def _with_renames(schema: TableSchema, renames: Mapping[str, str]) -> TableSchema:
    """Return the schema with the new names in its keys and options."""
    if not renames:
        return schema

    def renamed(names: str) -> str:
        return ",".join(renames.get(n, n) for n in names.split(","))

    options: dict[str, str] = {}
    for key, value in schema.options.items():
        new_key, new_value = key, value
        if key in _NAME_LISTS:
            new_value = renamed(value)
        elif key.startswith("fields."):
            kind = next((k for k in _FIELD_KINDS if key.endswith(f".{k}")), "")
            names = key.removeprefix("fields.").removesuffix(f".{kind}")
            if kind in _FIELD_OPTIONS:
                new_key = f"fields.{renames.get(names, names)}.{kind}"
            elif kind in _GROUP_OPTIONS:
                new_key, new_value = f"fields.{renamed(names)}.{kind}", renamed(value)
        options[new_key] = new_value
    return replace(
        schema,
        primary_keys=tuple(renames.get(k, k) for k in schema.primary_keys),
        options=Options(options),
    )
