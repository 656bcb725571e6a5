"""`CALL sys.copy`: the rows of a table, or of some of its partitions, into another table.

Java: `spark/procedure/CopyFilesProcedure`.  Java copies the files; here the rows are written again,
so that nothing of the source's layout has to fit the target.  Both overwrite the partitions that
they write.
"""

from __future__ import annotations

from functools import partial

from paimon_core.catalog.catalog import Catalog
from paimon_core.commit.same_table import check_same_table, naming_what_is_gone
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict, InvalidArgument, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import BUCKET, FILE_FORMAT, PATH
from paimon_core.predicate import Predicate, fields_of, parse_where
from paimon_core.schema.table_schema import VALUE_KIND
from paimon_core.table.sink.write_session import commit_overwrite, new_writer
from paimon_core.table.source.batch_scan import BatchScan, read_batch
from paimon_core.write.incoming_rows import without_defaults
from paimon_core.write.on_failure import aborted_on_failure


def copy_table(
    catalog: Catalog, source: str, target: str, where: str | None, *, env: Environment
) -> None:
    """Create the target like the source, if it is missing, and write the rows into it.

    `where` may use partition columns only.  InvalidArgument if an existing target does not fit;
    other errors as of `_copy_rows`.
    """
    read = catalog.get_table(source)
    predicate = None if where is None else parse_where(where, read.schema.row_type)
    if predicate is not None:
        others = sorted(set(fields_of(predicate)) - set(read.schema.partition_keys))
        if others:
            raise InvalidArgument(
                f"Only partition predicate is supported, not {', '.join(others)} of table {source}",
                table=source,
            )
    try:
        write = catalog.get_table(target)
        _check(read, write)
    except NotFound:
        _create(catalog, read, target, env)
        write = catalog.get_table(target)
    with naming_what_is_gone(read, partial(catalog.get_table, source), "sys.copy"):
        _copy_rows(read, write, predicate, env)


def _copy_rows(
    read: FileStoreTable, write: FileStoreTable, predicate: Predicate | None, env: Environment
) -> None:
    """Overwrite the partitions of the rows; TableGone if the source is no longer there.

    CommitConflict if its columns have changed.
    """
    snapshot = read.snapshots.latest()
    check_same_table(read)  # one that was dropped or renamed has no snapshot, either
    if snapshot is None:
        return
    if snapshot.schema_id > read.schema.id:
        raise CommitConflict(
            f"the schema of table {read.name} changed while it was copied",
            table=read.name,
            snapshot=snapshot.id,
            next_step="run again",
        )
    user = env.new_uuid()
    writer = new_writer(without_defaults(write), env=env, user=user, overwrite=True)
    with aborted_on_failure((writer,)):
        for batch in read_batch(BatchScan(table=read, whole=snapshot), predicate=predicate):
            writer.write(batch.drop_columns([VALUE_KIND]))
        messages = writer.prepare_commit()
    commit_overwrite(write, messages, user=user, env=env, partition={})


def _create(catalog: Catalog, source: FileStoreTable, target: str, env: Environment) -> None:
    schema = source.schemas.get(source.schema.id)
    catalog.create_database(target.partition(".")[0], if_not_exists=True)
    made = create_schema(
        [Column(f.name, f.type, f.description, f.default_value) for f in schema.fields],
        now_millis=env.now_millis(),
        partition_keys=schema.partition_keys,
        primary_keys=schema.primary_keys,
        options={k: v for k, v in schema.options.items() if k != PATH.key},
        comment=schema.comment,
    )
    catalog.create_table(target, made)


def _check(source: FileStoreTable, target: FileStoreTable) -> None:
    """The checks of Java's `CopySchemaOperator`."""
    ours, theirs = source.schema, target.schema
    known = {(f.name, f.type) for f in theirs.fields}
    for what, fits in {
        "bucket": ours.options.value(BUCKET) == theirs.options.value(BUCKET),
        "format": ours.options.value(FILE_FORMAT) == theirs.options.value(FILE_FORMAT),
        "primary keys": set(ours.primary_keys) == set(theirs.primary_keys),
        "partition keys": set(ours.partition_keys) == set(theirs.partition_keys),
        "fields": {(f.name, f.type) for f in ours.fields} <= known,
    }.items():
        if not fits:
            raise InvalidArgument(
                f"source table {what} is not compatible with existed paimon table {what}.",
                table=target.name,
            )
