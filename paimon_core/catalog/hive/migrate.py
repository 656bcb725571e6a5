"""Makes a table of Paimon from one of Hive (Java: `hive/migrate/HiveMigrator`).

Java moves the files, then commits, and drops the new table, with them, if the commit fails.  Here
each file has two copies until the commit:

1. The target is created, unless it exists, and the files are copied into it.
2. One commit adds the copies.
3. The source's files are deleted, and it is dropped.
4. The target gets the name of the source.

What is interrupted is finished by the same call.  The names of the copies say which files they are
of, so none is taken twice; copies that no commit names are orphans.  A compaction gives their rows
to other files, and then only the snapshot of the commit tells.  So that its expiry is noticed, each
call leaves a *note* in the target, from before its commit until the source's files are deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from paimon_core.catalog.hive import tables as hive_tables
from paimon_core.catalog.hive.foreign_table import ForeignTable, Part
from paimon_core.catalog.hive.hive_catalog import HiveCatalog
from paimon_core.catalog.hive.metastore import Metastore, hive_name
from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges, append_changes
from paimon_core.commit.message import CommitMessage
from paimon_core.commit.request import CommitRequest, Origin
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import Environment
from paimon_core.errors import (
    CommitConflict,
    CommitStateUnknown,
    InvalidArgument,
    NotFound,
    PaimonError,
    UnsupportedFeature,
)
from paimon_core.features import check_committable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.io.file_io import FileStat, delete_abandoned, map_parallel, parent
from paimon_core.io.json_text import parse_json_object, to_pretty_json
from paimon_core.io.read_retry import read_with_retries
from paimon_core.io.store_retries import ContextPool
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.names import checked_long
from paimon_core.options import BUCKET, DATA_EVOLUTION_ENABLED, PARTITION_DEFAULT_NAME, Options
from paimon_core.paths import CARETAKER_DIR
from paimon_core.scan.scan import scan_files
from paimon_core.schema.table_schema import TableSchema
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from paimon_core.table.adopted_files import OtherFile, adopt_file
from paimon_core.table.format.files import shown_below
from paimon_core.table.sink.after_commit import AfterCommit
from paimon_core.types.binary_row import encode_row
from paimon_core.types.partition_text import parse_partition_text

SUFFIX: Final = "_paimon_"
"""The end of the target's name until it gets that of the source."""
_USER: Final = "migrate-"
_NOTES: Final = f"{CARETAKER_DIR}/migrations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """Which table becomes one of Paimon.

    Without a `target`, the table of Paimon takes the place of the source.  With
    `delete_origin=False` the source stays, without rows.  `options` are those of a new target,
    `parallelism` is the number of files that are copied side by side.
    """

    source: str
    target: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    delete_origin: bool = True
    parallelism: int = 1


def migrate_table(catalog: HiveCatalog, wanted: Migration, *, env: Environment) -> None:
    """Do the migration, or finish one that was interrupted.

    NotFound for a missing source; UnsupportedFeature or InvalidArgument for a source or target that
    Java or this module refuses; CommitConflict if somebody writes to the source meanwhile: then its
    rows are in both tables.
    """
    metastore = Metastore(catalog.options)
    target = wanted.target or f"{wanted.source}{SUFFIX}"
    if wanted.target is None and not wanted.delete_origin:
        raise InvalidArgument(
            f"the new table cannot have the name of {wanted.source}, which is not deleted",
            table=wanted.source,
            next_step="name a target_table",
        )
    try:
        source = ForeignTable.find(metastore, wanted.source)
    except NotFound:
        if wanted.target is None and metastore.exists(hive_name(target)):
            catalog.rename_table(target, wanted.source)  # an earlier call did all the rest
            return
        raise
    parts = source.parts()
    source.check_alone(parts)
    table, created = _target(catalog, source, target, wanted.options, env)
    try:
        taken = _import(table, parts, wanted, env)
    except (PaimonError, OSError) as e:
        if created and not isinstance(e, CommitStateUnknown) and _is_unused(table):
            catalog.drop_table(target)
        raise
    source.check_unchanged(parts)
    _check_arrived(catalog.get_table(target), taken)
    source.delete_files(parts)
    _delete_notes(table, wanted.source)
    if wanted.delete_origin:
        source.check_unchanged([])
        source.drop(parts)
    if wanted.target is None:
        catalog.rename_table(target, wanted.source)


def tables_to_migrate(catalog: HiveCatalog, database: str) -> list[str]:
    """The names of all that the metastore has in the database, as Java tries to migrate it.

    Java: `HiveMigrator.databaseMigrators`.
    """
    return sorted(str(t.table_name) for t in Metastore(catalog.options).tables(database))


# --- the target -----------------------------------------------------------------------------------


def _target(
    catalog: HiveCatalog,
    source: ForeignTable,
    target: str,
    options: Mapping[str, str],
    env: Environment,
) -> tuple[FileStoreTable, bool]:
    """The table that takes the files, and whether this call created it."""
    schema = _schema(source, options, env)
    created = False
    try:
        table = catalog.get_table(target)
    except NotFound:
        catalog.create_table(target, schema)
        table, created = catalog.get_table(target), True
    _check_target(table, schema)
    return table, created


def _schema(source: ForeignTable, options: Mapping[str, str], env: Environment) -> TableSchema:
    if Options(options).value(BUCKET) != -1:
        raise InvalidArgument(
            "Hive migrator only support unaware-bucket target table, bucket should be -1",
            table=source.identifier,
            next_step="leave the option bucket out",
        )
    fields = [hive_tables.field(i, c) for i, c in enumerate(source.columns())]
    own = dict(options)
    if source.comment is not None:
        own["hive.comment"] = source.comment
    if source.keys:
        own[PARTITION_DEFAULT_NAME.key] = source.default_partition_name
    return create_schema(
        [Column(f.name, f.type, f.description) for f in fields],
        now_millis=env.now_millis(),
        partition_keys=source.keys,
        options=own,
        comment=source.comment,
    )


def _check_target(table: FileStoreTable, schema: TableSchema) -> None:
    """Refuse a table that cannot hold the rows of the source, which has this schema."""
    if table.has_primary_key:
        raise InvalidArgument(
            "Hive migrator only support append only table target table", table=table.name
        )
    if table.bucket_mode is not BucketMode.UNAWARE:
        raise InvalidArgument(
            "Hive migrator only support unaware-bucket target table", table=table.name
        )
    if table.options.value(DATA_EVOLUTION_ENABLED):
        raise UnsupportedFeature(
            "the migration into a table with data evolution",
            "files of Hive cannot be taken into a table with data evolution",
            table=table.name,
            next_step="migrate into another table, then INSERT INTO this one",
        )
    if set(table.schema.partition_keys) != set(schema.partition_keys):
        raise InvalidArgument(
            "Source table partition keys not match target table partition keys.", table=table.name
        )
    types = {f.name: f.type.with_nullable(True) for f in table.schema.fields}
    for column in schema.fields:
        if types.get(column.name) != column.type.with_nullable(True):
            raise InvalidArgument(
                f"the target has no column {column.name} of the type that the source has",
                table=table.name,
                next_step="name another target_table, or none",
            )


# --- files ----------------------------------------------------------------------------------------


def _import(
    table: FileStoreTable, parts: Sequence[Part], wanted: Migration, env: Environment
) -> Collection[str]:
    """Commit copies of the files that the table does not have yet.

    Returns the identities of all files of which the table has a copy: those that hold rows.
    CommitStateUnknown if an earlier call may have committed the files that seem to be missing.
    """
    check_committable(table)
    done = _imported(table)
    todo = [
        (_partition(table, part), part, file)
        for part in parts
        for file in part.files
        if file.size and _identity(file) not in done
    ]
    if todo:
        _check_notes(table, wanted.source)
    user = f"{_USER}{env.new_uuid()}"
    made: list[tuple[bytes, DataFileMeta]] = []

    def adopt(work: tuple[bytes, Part, FileStat]) -> None:
        partition, part, file = work
        name = f"{_identity(file)}-{int(env.new_uuid()[:8], 16)}"
        other = OtherFile(io=part.io, stat=file, file_format=part.file_format, name=name)
        meta = adopt_file(table, partition, other, env=env)
        if meta is not None:
            made.append((partition, meta))

    try:
        with ContextPool(max(1, wanted.parallelism), thread_name_prefix="migrate") as pool:
            futures = [pool.submit(adopt, work) for work in todo]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    except BaseException:
        _abandon(table, made)
        raise
    if made:
        _commit_noted(table, wanted.source, made, user, env)
    listed = {_identity(file) for part in parts for file in part.files}
    return {_identity_in(meta.file_name) for _, meta in made} | (listed & done)


def _commit_noted(
    table: FileStoreTable,
    source: str,
    made: Sequence[tuple[bytes, DataFileMeta]],
    user: str,
    env: Environment,
) -> None:
    note = _write_note(table, source, user)
    try:
        _commit(table, made, user, env)
    except CommitStateUnknown:
        raise
    except (PaimonError, OSError) as e:
        if isinstance(e, CommitConflict):
            _abandon(table, made)
        delete_abandoned(table.io, [note])
        raise


def _is_unused(table: FileStoreTable) -> bool:
    """Whether the table has no snapshots, and no other call copies files into it."""
    own = f"{table.paths.schema_dir}/"
    found = [s.path for s in shown_below(table.io, table.root) if not s.is_dir]
    return not table.snapshots.ids() and all(path.startswith(own) for path in found)


def _check_arrived(table: FileStoreTable, taken: Collection[str]) -> None:
    """CommitConflict unless the table, opened again, has a copy of each of these files.

    The originals go next, so what a call that failed beside this one has dropped must not pass.
    """
    latest = table.snapshots.latest()
    live = {} if latest is None else _copies_at(table, latest)
    copies = {path for identity, path in live.items() if identity in taken}
    folders = sorted({parent(path) for path in copies})
    there = {f.path for found in map_parallel(table.io, table.io.list_dir, folders) for f in found}
    missing = [*(copies - there)]
    if not live.keys() >= set(taken):  # else no older snapshot has to be read
        missing += set(taken) - _imported(table)
    if missing:
        raise CommitConflict(
            f"{len(missing)} copies are missing in table {table.name}, which was changed while it was "
            "migrated to; the source stays as it is",
            table=table.name,
            file=min(missing),
            next_step="run again when no other call migrates to this table",
        )


def _abandon(table: FileStoreTable, made: Iterable[tuple[bytes, DataFileMeta]]) -> None:
    paths = [table.paths.data_file(partition, 0, meta) for partition, meta in made]
    delete_abandoned(table.io, paths)


def _commit(
    table: FileStoreTable, made: Sequence[tuple[bytes, DataFileMeta]], user: str, env: Environment
) -> None:
    by_partition: dict[bytes, list[DataFileMeta]] = {}
    for partition, meta in made:
        by_partition.setdefault(partition, []).append(meta)
    messages = [
        CommitMessage(partition=p, bucket=0, total_buckets=-1, new_files=tuple(files))
        for p, files in by_partition.items()
    ]
    changes = append_changes(messages)
    own = {_identity_in(meta.file_name) for _, meta in made}

    def provide(latest: Snapshot | None) -> ManifestChanges:
        if latest is not None and not own.isdisjoint(_copies_at(table, latest)):
            raise CommitConflict(
                "another call has migrated the same files meanwhile", table=table.name
            )
        return changes

    after = AfterCommit(table, env=env)
    request = CommitRequest(user=user, kind=CommitKind.APPEND, check=False, origin=Origin.ROWS)
    commit_changes(table, provide, request, env=env)
    after.run(user=user, identifier=BATCH_COMMIT_IDENTIFIER, messages=messages)


def _partition(table: FileStoreTable, part: Part) -> bytes:
    """The stored bytes of the partition."""
    fields = table.schema.partition_type.fields
    values = []
    for key in fields:
        text = part.values[key.name]
        if text is None and not key.type.nullable:
            raise InvalidArgument(
                f"the source has a partition with null in {key.name}, which is NOT NULL",
                table=table.name,
                next_step="make the column nullable, or drop the partition in Hive",
            )
        values.append(None if text is None else parse_partition_text(text, key.type))
    return encode_row(values, [f.type for f in fields])


def _identity(file: FileStat) -> str:
    return str(uuid5(NAMESPACE_URL, f"{file.path}\n{file.size}\n{file.modified_millis}"))


def _identity_in(name: str) -> str:
    """The part of a copy's name that says which file it is of."""
    return name.rpartition("-")[0][-36:]


def _copies_at(table: FileStoreTable, snapshot: Snapshot) -> dict[str, str]:
    """The paths of the live files by what their names say that they are copies of."""
    return {
        _identity_in(e.file.file_name): table.paths.data_file(e.partition, e.bucket, e.file)
        for e in scan_files(table, snapshot)
    }


def _imported(table: FileStoreTable) -> set[str]:
    """The identities of all files that the table has, or had when an earlier call committed."""
    found: set[str] = set()
    latest = table.snapshots.latest()
    if latest is None:
        return found
    for snapshot in table.snapshots.all():
        if snapshot.id == latest.id or snapshot.commit_user.startswith(_USER):
            found |= _copies_at(table, snapshot).keys()
    return found


# --- notes ----------------------------------------------------------------------------------------


def _notes_of(table: FileStoreTable, source: str) -> str:
    """The folder of the notes of calls that migrate this source to the table."""
    return f"{table.root}/{_NOTES}/{uuid5(NAMESPACE_URL, source)}"


def _write_note(table: FileStoreTable, source: str, user: str) -> str:
    latest = table.snapshots.latest()
    path = f"{_notes_of(table, source)}/{user}.json"
    base = 0 if latest is None else latest.id
    table.io.overwrite(path, to_pretty_json({"source": source, "base": base}).encode())
    return path


def _base_of(note: bytes) -> int:
    return checked_long(parse_json_object(note)["base"], "base")


def _check_notes(table: FileStoreTable, source: str) -> None:
    """CommitStateUnknown if the snapshot of an earlier call's commit may have expired."""
    ids = table.snapshots.ids()
    for note in table.io.list_dir(_notes_of(table, source)):
        try:
            base = read_with_retries(table.io, note.path, _base_of, table=table.name)
        except FileNotFoundError:
            continue  # that call ends now
        user = note.name.removesuffix(".json")
        if base + 1 < min(ids, default=0) and all(
            s.commit_user != user for s in table.snapshots.all()
        ):
            raise CommitStateUnknown(
                f"an earlier migration of {source} to table {table.name} was interrupted, and the "
                "table's snapshots from that time have expired: it may have the rows already",
                table=table.name,
                file=note.path,
                next_step=f"compare the rows: if the table has them, delete the files of {source}; "
                "if not, delete this file; then run again",
            )


def _delete_notes(table: FileStoreTable, source: str) -> None:
    table.io.delete_dir(_notes_of(table, source))
