"""Tag files, their success files, and the deletion of files that only tags need."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from functools import partial

from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import SNAPSHOT_CLEAN_EMPTY_DIRECTORIES, TAG_CREATE_SUCCESS_FILE
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


def write_success_file(table: FileStoreTable, name: str, now_millis: int) -> None:
    """Write the success file of the tag if the table has it enabled (Java: `SuccessFileTagCallback`)."""
    if table.options.value(TAG_CREATE_SUCCESS_FILE):
        content = {"creationTime": now_millis, "modificationTime": now_millis}
        table.io.overwrite(_success_file(table, name), json.dumps(content).encode())


def lacks_success_file(table: FileStoreTable, name: str) -> bool:
    """Whether the success file of a tag is missing because its creation was interrupted."""
    wanted = table.options.value(TAG_CREATE_SUCCESS_FILE)
    return wanted and not table.io.exists(_success_file(table, name))


def delete_success_file(table: FileStoreTable, name: str) -> None:
    """Delete the success file, if the table has it enabled."""
    if table.options.value(TAG_CREATE_SUCCESS_FILE):
        table.io.delete(_success_file(table, name))
