"""The files of format tables: partitions by folders, data files, and changes of both.

::

    root/dt=2024-01-01/hh=7/part-0.csv      with partition-path-only-value: root/2024-01-01/7/...

Names that begin with `_` or `.` are hidden: other programs put files there that are not complete
(Java: `table/format/FormatTableScan`, `utils/PartitionPathUtils`).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import uuid4

from paimon_core.errors import (
    CommitStateUnknown,
    CorruptTable,
    InvalidArgument,
    OutsideTable,
    PaimonError,
    StorageError,
    TableGone,
)
from paimon_core.io.confined import check_all_inside
from paimon_core.io.file_io import (
    FileIO,
    FileStat,
    delete_files,
    join,
    map_parallel,
    parent,
    renames_atomically,
)
from paimon_core.io.fresh_listing import listed_file
from paimon_core.paths import escape_path_name, is_hidden, unescape_path_name
from paimon_core.predicate import Predicate, fields_of, matches_row, split_conjuncts
from paimon_core.table.format.format_table import FormatTable
from paimon_core.table.format.registered import texts_of
from paimon_core.table.other_tables import refused, table_around, table_of_file
from paimon_core.types.partition_text import parse_partition_text, partition_text

log = logging.getLogger(__name__)

_STAGING: Final = ".caretaker-"
_STAGED: Final = re.compile(rf"{re.escape(_STAGING)}[0-9a-f]{{32}}")
_BEGUN: Final = "begun"
"""A file beside those of a writer, which goes with the table; only folders come back."""
_FILES: Final = "files"
ABANDONED_MILLIS: Final = 14 * 24 * 60 * 60 * 1000
"""How long nothing has changed in the staging folder of a writer that was killed.

No writer is so slow: each task of Spark makes files in the folder as it writes rows.
"""
LONGEST_NAME: Final = 255
"""The length in bytes of the longest name of a folder on local disks and, by default, on HDFS."""
_PAIR: Final = re.compile("([^/]+)=([^/]+)")


@dataclass(frozen=True, slots=True)
class FormatPartition:
    """A partition: the texts of its folders, the internal values, and its folder.

    A table without partition columns is one partition, without values.  `linked`: its files may be
    outside of the table.
    """

    texts: tuple[str, ...]
    values: tuple[object, ...]
    path: str
    linked: bool = False


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A new file, the texts of the partition that it belongs to, and how its name is to end."""

    path: str
    texts: tuple[str, ...]
    end: str


@dataclass(frozen=True, slots=True)
class FormatRead:
    """The files that a query reads of a format table: of partitions that the predicate allows."""

    root: str
    predicate: Predicate | None
    paths: frozenset[str]


def format_partitions(
    table: FormatTable, predicate: Predicate | None = None
) -> list[FormatPartition]:
    """The partitions that have a folder and may hold rows of the predicate, sorted by folder.

    Of a table whose partitions the catalog keeps, those that are registered.  CorruptTable for a
    folder whose name is no value of the partition column.
    """
    registered = registered_texts(table)
    if registered is not None and not registered and partition_folders(table):
        log.warning(
            "table=%s has folders and no registered partitions; MSCK REPAIR TABLE registers them",
            table.name,
        )
    return partition_folders(table, predicate, only=registered)


def registered_texts(table: FormatTable) -> frozenset[tuple[str, ...]] | None:
    """The texts of the folders of the catalog's partitions; None if it keeps none.

    InvalidArgument where it may not keep them; CorruptTable for a partition of other columns.
    """
    registry = table.registry()
    if registry is None:
        return None
    return texts_of(table.name, table.schema.partition_keys, registry.specs())


def specs_of(table: FormatTable, texts: Iterable[Sequence[str]]) -> list[dict[str, str]]:
    """Partitions with these texts as the catalog names them."""
    return [dict(zip(table.schema.partition_keys, t, strict=True)) for t in texts]


def known_partitions(table: FormatTable) -> list[FormatPartition]:
    """The partitions of a table: registered ones, with or without a folder, or else folders."""
    registered = registered_texts(table)
    if registered is None:
        return partition_folders(table)
    found = []
    for texts in registered:
        path = partition_folder(table, texts)
        values = tuple(_value(table, level, text, path) for level, text in enumerate(texts))
        found.append(FormatPartition(texts, values, path))
    return sorted(found, key=lambda p: p.path)


def partition_folders(
    table: FormatTable,
    predicate: Predicate | None = None,
    *,
    only: Collection[tuple[str, ...]] | None = None,
) -> list[FormatPartition]:
    """As `format_partitions`, whether or not the partitions are registered.

    With `only`, the partitions with these texts, and no other folders are listed.
    """
    found = [FormatPartition((), (), table.root)]
    keys = table.schema.partition_keys
    for level in range(len(keys)):
        wanted = None if only is None else {texts[: level + 1] for texts in only}
        known = frozenset(keys[: level + 1])
        # What is false for the first columns is false for all folders below.
        tests = [p for p in _conjuncts(predicate) if keys[level] in fields_of(p) <= known]
        listed = map_parallel(table.io, partial(_below, table, level), found)
        found = [
            p
            for partitions in listed
            for p in partitions
            if (wanted is None or p.texts in wanted)
            and all(matches_row(t, dict(zip(keys, p.values, strict=False))) for t in tests)
        ]
    return sorted(found, key=lambda p: p.path)


def _conjuncts(predicate: Predicate | None) -> list[Predicate]:
    return [] if predicate is None else split_conjuncts(predicate)


def _below(table: FormatTable, level: int, above: FormatPartition) -> list[FormatPartition]:
    """The partitions one folder further down."""
    found = []
    for folder in table.io.list_dir(above.path):
        name = folder.name
        if table.only_values and name == table.default_partition:
            text: str | None = name
        elif is_hidden(name):
            continue
        else:
            text = _text_of(table, level, name)
        if folder.is_dir and text is not None:
            value = _value(table, level, text, folder.path)
            texts, values = (*above.texts, text), (*above.values, value)
            linked = above.linked or folder.is_link
            found.append(FormatPartition(texts, values, folder.path, linked))
    return found


def _text_of(table: FormatTable, level: int, name: str) -> str | None:
    """The text of the value in a folder's name; None if the folder is no partition."""
    if table.only_values:
        return unescape_path_name(name)
    match = _PAIR.fullmatch(name)
    if match is None or unescape_path_name(match[1]) != table.schema.partition_keys[level]:
        return None
    return unescape_path_name(match[2])


def _value(table: FormatTable, level: int, text: str, path: str) -> object:
    if text == table.default_partition:
        return None
    field = table.schema.partition_type.fields[level]
    try:
        return parse_partition_text(text, field.type)
    except InvalidArgument as e:
        raise CorruptTable(
            f"the folder {path} of format table {table.name} is no partition: {e.message}",
            table=table.name,
            next_step="rename or remove the folder",
        ) from e


def partition_texts(table: FormatTable, values: Sequence[object]) -> tuple[str, ...]:
    """The texts of a partition's folders (Java: `InternalRowPartitionComputer`)."""
    legacy = table.legacy_names
    fields = table.schema.partition_type.fields
    texts = (
        partition_text(v, f.type, legacy_name=legacy) for v, f in zip(values, fields, strict=True)
    )
    return tuple(table.default_partition if t is None else t for t in texts)


def partition_folder(table: FormatTable, texts: Sequence[str]) -> str:
    """The folder of the first partition columns with these texts.

    InvalidArgument for a text that is another folder than its name says, or a hidden one: Java
    writes rows there that no reader finds.  Also for one that is longer than a name may be.
    """
    path = table.root
    for key, text in zip(table.schema.partition_keys, texts, strict=False):
        if not text or (table.only_values and text in (".", "..")):
            raise InvalidArgument(
                f"Partition value '{text}' cannot be used as a partition path component.",
                table=table.name,
                next_step="write the rows with another value",
            )
        name = escape_path_name(text)
        if not table.only_values:
            name = f"{escape_path_name(key)}={name}"
        if is_hidden(name) and not (table.only_values and text == table.default_partition):
            raise InvalidArgument(
                f"partition column {key} of format table {table.name} would have the folder {name}: "
                "no reader sees names that begin with _ or .",
                table=table.name,
                next_step="write another value"
                if table.only_values
                else "create the table with another name of the column",
            )
        if renames_atomically(path) and len(name.encode()) > LONGEST_NAME:
            raise too_long(table, key)
        path = join(path, name)
    return path


def too_long(table: FormatTable, key: str) -> InvalidArgument:
    """The error for a value of this column whose folder would have a name that is too long."""
    return InvalidArgument(
        f"a value of partition column {key} of format table {table.name} is too long: it names a "
        f"folder, whose name has at most {LONGEST_NAME} bytes",
        table=table.name,
        next_step="write the rows with a shorter value",
    )


def data_files(table: FormatTable, partition: FormatPartition) -> list[FileStat]:
    """The data files of a partition, also in folders below it, sorted by path."""
    return [s for s in shown_below(table.io, partition.path) if not s.is_dir]


def files_to_replace(table: FormatTable, partition: FormatPartition) -> list[str]:
    """The paths of the partition's data files; OutsideTable if they may be those of others.

    That is so behind a symbolic link, and beside the metadata of a Paimon table.
    """
    found = shown_below(table.io, partition.path)
    linked = [s.path for s in found if s.is_dir and s.is_link]
    if partition.linked or linked:
        raise OutsideTable(
            f"{partition.path if partition.linked else linked[0]} of format table {table.name} leads "
            "out of the table through a symbolic link; nothing was changed",
            table=table.name,
            next_step="replace the link by the folder that it leads to",
        )
    paths = [s.path for s in found if not s.is_dir]
    theirs = next(filter(None, map(table_of_file, paths)), None)
    if theirs is None and paths:
        theirs = table_around(table.io, table.root)
    if theirs is not None:
        raise refused(f"format table {table.name}", theirs, table=table.name)
    return paths


def shown_below(io: FileIO, folder: str) -> list[FileStat]:
    """The files and folders in a folder that are not hidden, at any depth, sorted by path."""
    found: list[FileStat] = []
    folders = [folder]
    while folders:
        inside = [s for part in map_parallel(io, io.list_dir, folders) for s in part]
        shown = [s for s in inside if not is_hidden(s.name)]
        found += shown
        folders = [s.path for s in shown if s.is_dir]
    return sorted(found, key=lambda s: s.path)


@contextmanager
def staging(table: FormatTable) -> Iterator[str]:
    """A new hidden folder of the table for files that are not complete; it goes with the block.

    The caller makes it.  After a block without error, those of writers that were killed go, too
    (`ABANDONED_MILLIS`).
    """
    folder = join(table.root, f"{_STAGING}{uuid4().hex}")
    try:
        table.io.write_bytes(join(folder, _BEGUN), b"")
        yield join(folder, _FILES)
        _delete_abandoned(table, folder)
    finally:
        try:
            table.io.delete_dir(folder)
        except OSError as e:
            log.warning("folder=%s left behind: %s", folder, e)


def _delete_abandoned(table: FormatTable, own: str) -> None:
    """Delete the other staging folders that are surely dead; failures are only logged."""
    try:
        before = int(time.time() * 1000) - ABANDONED_MILLIS
        latest = {
            stat.path: _last_change(table, stat, before)
            for stat in table.io.list_dir(table.root)
            if _STAGED.fullmatch(stat.name)
            and stat.is_dir
            and not stat.is_link
            and stat.path != own
        }
        old = {path for path, at in latest.items() if 0 < at < before}
        if not old:
            return
        # One clock may be wrong: this machine's now, or the store's, which files have.
        probe = join(own, f"{_STAGING}clock")
        table.io.write_bytes(probe, b"What time is it?\n")
        listed = table.io.list_dir(own)
        store = listed_file(table.io, listed, probe, table=table.name).modified_millis
        for path in old:
            if store - latest[path] > ABANDONED_MILLIS:
                table.io.delete_dir(path)
                log.info("folder=%s deleted: its writer was killed", path)
    except (OSError, PaimonError) as e:
        log.warning("table=%s old staging folders left behind: %s", table.name, e)


def _last_change(table: FormatTable, folder: FileStat, before: int) -> int:
    """The time of the newest file or folder in a folder, at any depth; 0 if it is not known.

    If something is not older than `before`, its time: the rest of the folder is not listed then.
    """
    latest, todo = folder.modified_millis, [folder.path]
    while todo and latest < before:
        inside = [s for part in map_parallel(table.io, table.io.list_dir, todo) for s in part]
        if any(s.is_link or not (s.is_dir or s.modified_millis) for s in inside):
            return 0
        latest = max([latest, *(s.modified_millis for s in inside)])
        todo = [s.path for s in inside if s.is_dir]
    return latest


def publish(
    table: FormatTable, staged: str, files: Sequence[StagedFile], replaced: Sequence[str]
) -> None:
    """Give the files of the folder `staged` their places, then delete the `replaced` ones.

    If a file cannot be moved, those that were moved are deleted, and nothing has changed.
    StorageError then; TableGone if the table was dropped or renamed since the folder was begun, so
    that the files would be those of the next table in its place; CommitStateUnknown if files stay
    that should not; OutsideTable for a partition behind a symbolic link.  Java:
    `table/format/FormatTableCommit`, which deletes first.
    """
    token = uuid4().hex
    targets = [
        join(partition_folder(table, file.texts), f"data-{token}-{number}{file.end}")
        for number, file in enumerate(files)
    ]
    check_all_inside(table.io.boundary, targets)

    def move(file: StagedFile, target: str) -> None:
        if file.texts and renames_atomically(target):  # object stores have no folders
            table.io.make_dirs(parent(target))
        if not table.io.rename(file.path, target):
            raise FileExistsError(target)

    _check_not_gone(table, staged)
    try:
        map_parallel(table.io, lambda pair: move(*pair), zip(files, targets, strict=True))
        _check_not_gone(table, staged)
    except BaseException as e:  # also the end of a statement that somebody stops
        _withdraw(table, targets, e)
        if not isinstance(e, OSError):
            raise
        raise StorageError(
            f"the new files of format table {table.name} could not be put in place: {e}; its rows "
            "are as before",
            table=table.name,
            next_step="run the statement again",
        ) from e
    try:
        delete_files(table.io, replaced)
    except OSError as e:
        raise CommitStateUnknown(
            f"format table {table.name} has its new rows, and old ones that could not be deleted: {e}",
            table=table.name,
            next_step="run the statement again, which replaces both",
        ) from e


def _check_not_gone(table: FormatTable, staged: str) -> None:
    if not table.io.exists(join(parent(staged), _BEGUN)):
        raise TableGone(
            f"format table {table.name} was dropped or renamed while rows were written; it has none "
            "of them",
            table=table.name,
        )


def _withdraw(table: FormatTable, targets: Sequence[str], cause: BaseException) -> None:
    try:
        delete_files(table.io, targets)
    except OSError as e:
        example = targets[0].rpartition("-")[0]
        raise CommitStateUnknown(
            f"format table {table.name} may have some of the new rows: one file could not be put in "
            f"place ({cause}), others could not be deleted ({e})",
            table=table.name,
            next_step=f"delete the files named {example.rpartition('/')[2]}-*, then run the statement "
            "again",
        ) from e
