"""Tag files, how tags are announced, and the deletion of files that only tags need.

A tag is announced by its success file (Java: `SuccessFileTagCallback`), and by a partition in the
catalog (Java: `AddPartitionTagCallback`), each if the table has it enabled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import (
    SNAPSHOT_CLEAN_EMPTY_DIRECTORIES,
    TAG_CREATE_SUCCESS_FILE,
    TAG_TO_PARTITION,
)
from paimon_core.reachability.files import StoredFile
from paimon_core.reachability.references import Reference
from paimon_core.reachability.release import Removed, release
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.storage.bulk import delete_paths


def free_tags(
    table: FileStoreTable,
    going: Sequence[Reference],
    context: RunContext,
    change: Callable[[], object],
    *,
    planned: Collection[StoredFile] | None = None,
) -> Removed:
    """Run the change that removes the tags, then delete the files that only they need."""

    def delete_references() -> None:
        change()

    return release(
        table,
        going,
        delete_references,
        new_uuid=context.env.new_uuid,
        planned=planned,
        clean_folders=table.options.value(SNAPSHOT_CLEAN_EMPTY_DIRECTORIES),
        delete=partial(delete_paths, context=context),
    )


def _success_file(table: FileStoreTable, name: str) -> str:
    return f"{table.paths.tag_success_dir}/{name}_SUCCESS"


def announce_tag(table: FileStoreTable, name: str, now_millis: int) -> None:
    """Write the success file of the tag, and add its partition."""
    if table.options.value(TAG_CREATE_SUCCESS_FILE):
        content = {"creationTime": now_millis, "modificationTime": now_millis}
        table.io.overwrite(_success_file(table, name), json.dumps(content).encode())
    key = table.options.value(TAG_TO_PARTITION)
    if key is not None and table.partition_registry is not None:
        table.partition_registry.add([{key: name}])


def is_unannounced(table: FileStoreTable, name: str) -> bool:
    """Whether the success file or the partition of a tag is missing, as after an interrupted run."""
    if table.options.value(TAG_CREATE_SUCCESS_FILE) and not table.io.exists(
        _success_file(table, name)
    ):
        return True
    key = table.options.value(TAG_TO_PARTITION)
    registry = table.partition_registry
    return key is not None and registry is not None and name not in _values(registry.specs())


def _values(specs: Sequence[Mapping[str, str]]) -> set[str]:
    return {value for spec in specs for value in spec.values()}


def withdraw_tag(table: FileStoreTable, name: str) -> None:
    """Delete the success file, and drop the partition; before the tag, which they announce."""
    if table.options.value(TAG_CREATE_SUCCESS_FILE):
        table.io.delete(_success_file(table, name))
    key = table.options.value(TAG_TO_PARTITION)
    if key is not None and table.partition_registry is not None:
        table.partition_registry.drop([{key: name}])
