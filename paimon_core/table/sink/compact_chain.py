"""Writes the rows that a chain table has in a partition into its snapshot branch.

Java: `spark/procedure/CompactChainTableProcedure`.  Later reads of the partition need no merge.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace

from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict, InvalidArgument
from paimon_core.features import CHAIN_TABLE
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import DYNAMIC_PARTITION_OVERWRITE
from paimon_core.predicate import Predicate
from paimon_core.scan.scan import partition_filter, scan_files
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.chain.read import Chain, branch_of_chain, chain_of, read_chain
from paimon_core.table.sink.write_session import commit_overwrite, commit_write, new_writer
from paimon_core.write.incoming_rows import without_defaults
from paimon_core.write.on_failure import aborted_on_failure


def compact_chain(
    table: FileStoreTable, partition: Predicate, *, overwrite: bool, env: Environment
) -> bool:
    """Fill the partitions of the snapshot branch that match; return whether any row was written.

    Nothing happens if the branch has one of them, unless `overwrite` replaces it by the merge of
    an earlier one with the deltas.  InvalidArgument for a table that is no chain table,
    CommitConflict if such a partition changed meanwhile in one of the branches; errors as in
    `read_chain`.
    """
    chain = chain_of(table)
    if chain is None:
        raise InvalidArgument(
            f"Table {table.name} is not a chain table: compact_chain_table needs {CHAIN_TABLE} and "
            "both fallback branches",
            table=table.name,
        )
    matches = partition_filter(table, partition)
    assert matches is not None  # a predicate is given
    there = {
        e.partition
        for e in (scan_files(chain.snapshot, chain.snapshot_at) if chain.snapshot_at else ())
        if matches(e.partition)
    }
    if there and not overwrite:
        return False
    dynamic = {DYNAMIC_PARTITION_OVERWRITE.key: "true"}
    target = branch_of_chain(table, chain.snapshot.branch)
    target = replace(target, schema=target.schema.with_options(dynamic))
    user = env.new_uuid()
    writer = new_writer(without_defaults(target), env=env, user=user, overwrite=bool(there))
    rows = 0
    with aborted_on_failure((writer,)):
        merged = read_chain(
            replace(chain, only=matches, again=frozenset(there)),
            columns=None,
            predicate=None,
            keep_deletes=False,
        )
        for batch in merged:
            rows += batch.num_rows
            writer.write(batch.select(table.schema.names))
        messages = writer.prepare_commit()
        _check_unchanged(chain, matches)
    if not rows:
        return False
    if there:
        commit_overwrite(target, messages, env=env, user=user)
    else:
        commit_write(target, messages, env=env, user=user)
    return True


def _check_unchanged(chain: Chain, matches: Callable[[bytes], bool]) -> None:
    """Raise CommitConflict if one of the branches has other files in these partitions by now.

    A complete partition hides later deltas, so Java's result would be outdated without a sign.  And
    rows that somebody else wrote to the snapshot branch would get lost, or mixed with older ones.
    """

    def files(branch: FileStoreTable, at: Snapshot | None) -> set[Hashable]:
        entries = scan_files(branch, at) if at is not None else ()
        return {e.identity for e in entries if matches(e.partition)}

    for branch, at in ((chain.delta, chain.delta_at), (chain.snapshot, chain.snapshot_at)):
        latest = branch.snapshots.latest()
        if latest != at and files(branch, latest) != files(branch, at):
            raise CommitConflict(
                f"branch {branch.branch} of table {branch.name} changed while the partition was "
                "merged",
                table=branch.name,
                next_step="run compact_chain_table again",
            )
