"""Partitions of format tables that a REST catalog keeps: ADD and DROP PARTITION, MSCK REPAIR TABLE.

Java: `PaimonFormatTablePartitionDdlExec`, `format/FormatTablePartitionRepair`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paimon_core.errors import AlreadyExists, PaimonError, StorageError, UnsupportedFeature
from paimon_core.table.format.files import (
    files_to_replace,
    partition_folder,
    partition_folders,
    registered_texts,
    specs_of,
)
from paimon_core.table.format.format_table import FormatTable
from paimon_core.table.format.registered import FormatPartitions
from paimon_core.types.partition_text import partition_text
from paimon_spark.sql.errors import AnalysisError, PartitionsRegistered
from paimon_spark.sql.result import NOTHING, Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.tokens import Words

Values = Mapping[str, object]
"""Partition columns and their internal values."""


def add_to_catalog(table: FormatTable, wanted: Sequence[Values], *, if_not_exists: bool) -> None:
    """Register partitions, all or none unless `if_not_exists`, and make their folders."""
    registered = _registered(table, "ADD")
    texts = [tuple(_texts(table, values).values()) for values in wanted]
    folders = [partition_folder(table, t) for t in texts]
    try:
        registered.add(specs_of(table, texts), if_not_exists=if_not_exists)
    except AlreadyExists as e:
        raise PartitionsRegistered(
            f"Some partitions of table {table.name} already exist: {e.message}", table=table.name
        ) from e
    for folder in folders:
        table.io.make_dirs(folder)


def drop_from_catalog(
    table: FormatTable, wanted: Sequence[Values], *, if_exists: bool, purge: bool
) -> None:
    """Unregister partitions, then delete their folders.  Some of the columns name several.

    A folder that is not registered stays.  OutsideTable, before anything has changed, for a folder
    behind a symbolic link and for one that holds files of a Paimon table.
    """
    registered = _registered(table, "DROP")
    if purge:
        raise UnsupportedFeature(
            "DROP PARTITION ... PURGE of format tables",
            f"DROP PARTITION ... PURGE is not supported for Format Table {table.name}. DROP PARTITION "
            "already removes the partition data.",
            table=table.name,
            next_step="leave PURGE out",
        )
    known = registered_texts(table) or frozenset()
    keys = table.schema.partition_keys
    going: set[tuple[str, ...]] = set()
    for values in wanted:
        texts = _texts(table, values)
        places = {keys.index(k): text for k, text in texts.items()}
        found = {t for t in known if all(t[i] == text for i, text in places.items())}
        if not found and len(texts) == len(keys) and not if_exists:
            raise AnalysisError(
                f"[PARTITIONS_NOT_FOUND] The partition(s) {_shown(table, tuple(texts.values()))} cannot "
                f"be found in table {table.name}",
                table=table.name,
            )
        going |= found
    if not going:
        return
    for texts_going in going:
        partition_folder(table, texts_going)  # what cannot be a folder of the table is refused
    folders = partition_folders(table, only=going)
    for partition in folders:
        files_to_replace(table, partition)
    registered.drop(specs_of(table, sorted(going)))
    for partition in folders:
        try:
            table.io.delete_dir(partition.path)
        except (OSError, PaimonError) as e:
            raise StorageError(
                f"partition {_shown(table, partition.texts)} of format table {table.name} was "
                f"unregistered, but its folder could not be deleted: {e}",
                table=table.name,
                file=partition.path,
                next_step="delete the folder; MSCK REPAIR TABLE would register it again",
            ) from e


def repair(session: SqlSession, words: Words) -> Result:
    """[MSCK] REPAIR TABLE name [{ADD | DROP | SYNC} PARTITIONS]: register what has a folder.

    DROP unregisters what has none; SYNC does both.  Folders and files stay as they are.
    """
    words.eat("MSCK")
    words.need("REPAIR", "TABLE")
    name = session.target_name(words.name())
    action = words.eat_any("ADD", "DROP", "SYNC")
    if action is not None:
        words.need("PARTITIONS")
    words.end()
    adds, drops = action != "DROP", action in ("DROP", "SYNC")
    table = session.format_table(name)
    if table is None or table.registered is None:
        if table is None:
            session.open(name)  # what does not exist is not found
        raise AnalysisError(
            "[NOT_SUPPORTED_COMMAND_FOR_V2_TABLE] MSCK REPAIR TABLE is not supported for v2 tables"
        )
    known = registered_texts(table) or frozenset()
    folders = {p.texts for p in partition_folders(table)}
    if adds and folders - known:
        table.registered.add(specs_of(table, sorted(folders - known)), if_not_exists=True)
    if drops and known - folders:
        table.registered.drop(specs_of(table, sorted(known - folders)))
    return NOTHING


def _registered(table: FormatTable, operation: str) -> FormatPartitions:
    """The catalog's partitions; UnsupportedFeature if the folders are the partitions.

    InvalidArgument where the catalog may not keep them.
    """
    registry = table.registry()
    if registry is None:
        raise UnsupportedFeature(
            f"{operation} PARTITION of format tables",
            f"{operation} PARTITION is supported only for a Format Table with catalog-managed "
            f"partitions, but partitions of {table.name} are discovered from the filesystem.",
            table=table.name,
            next_step="INSERT OVERWRITE the partition, or make or delete the folder",
        )
    return registry


def _texts(table: FormatTable, values: Values) -> dict[str, str]:
    """The texts of the folders of these values, in the order of the partition columns."""
    found: dict[str, str] = {}
    for field in table.schema.partition_type.fields:
        if field.name in values:
            value = values[field.name]
            text = partition_text(value, field.type, legacy_name=table.legacy_names)
            found[field.name] = table.default_partition if text is None else text
    return found


def _shown(table: FormatTable, texts: Sequence[str]) -> str:
    pairs = zip(table.schema.partition_keys, texts, strict=True)
    return f"PARTITION ({', '.join(f'`{k}` = {text}' for k, text in pairs)})"
