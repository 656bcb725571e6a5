"""Marks finished partitions for readers (Java: `partition/actions/PartitionMarkDoneAction`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from paimon_core.commit.registered_partitions import registry_of
from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.json_text import parse_json_object
from paimon_core.io.read_retry import read_whole
from paimon_core.names import checked_long
from paimon_core.options import PARTITION_MARK_DONE_ACTION
from paimon_core.paths import unescape_path_name
from paimon_core.retention.registered_partitions import done_spec
from paimon_core.table.sink.http_report import HttpReport

_SUCCESS_FILE: Final = "success-file"
_HTTP_REPORT: Final = "http-report"
_DONE_PARTITION: Final = "done-partition"
_MARK_EVENT: Final = "mark-event"
_SUPPORTED: Final = frozenset({_SUCCESS_FILE, _HTTP_REPORT})
_NEED_METASTORE: Final = frozenset({_DONE_PARTITION, _MARK_EVENT})


@dataclass(frozen=True, slots=True)
class PartitionMarks:
    """The actions of `partition.mark-done-action` in order, and the server for `http-report`."""

    actions: tuple[str, ...]
    report: HttpReport | None = None

    @classmethod
    def of(cls, table: FileStoreTable) -> PartitionMarks:
        """The actions of the table; UnsupportedFeature for one that is not possible here."""
        actions = table.options.value(PARTITION_MARK_DONE_ACTION)
        registry = registry_of(table)
        supported = _SUPPORTED if registry is None else _SUPPORTED | _NEED_METASTORE
        unknown = sorted(set(actions) - supported)
        if unknown:
            raise UnsupportedFeature(
                f"partition.mark-done-action={','.join(unknown)}",
                table=table.name,
                next_step="it needs a Hive catalog and a table with metastore.partitioned-table=true; "
                "elsewhere use success-file or http-report"
                if set(unknown) <= _NEED_METASTORE
                else None,
            )
        return cls(actions, HttpReport.of(table) if _HTTP_REPORT in actions else None)

    @property
    def in_metastore(self) -> bool:
        """Whether the metastore is told, which knows whole partitions alone."""
        return not _NEED_METASTORE.isdisjoint(self.actions)

    def mark(self, table: FileStoreTable, partition: str, now_millis: int) -> None:
        """Run all actions for the partition, a path below the table ("dt=1/hh=2/")."""
        for action in self.actions:
            if action == _SUCCESS_FILE:
                _write_success_file(table, partition, now_millis)
            elif action in _NEED_METASTORE:
                _mark_in_metastore(table, partition, action)
            elif self.report is not None:
                self.report.send(partition)


def _mark_in_metastore(table: FileStoreTable, partition: str, action: str) -> None:
    """Add the partition "VALUE.done" (done-partition), or Hive's event LOAD_DONE (mark-event)."""
    registry = registry_of(table)
    if registry is None:
        raise UnsupportedFeature(f"partition.mark-done-action={action}", table=table.name)
    named = (folder.partition("=") for folder in partition.strip("/").split("/"))
    spec = {unescape_path_name(k): unescape_path_name(v) for k, _, v in named}
    if action == _DONE_PARTITION:
        registry.add([done_spec(spec)])
    else:
        registry.mark_done([spec])


def _write_success_file(table: FileStoreTable, partition: str, now: int) -> None:
    """Write _SUCCESS; an already marked partition keeps the time of its first mark."""
    path = f"{table.paths.data_root}/{partition}_SUCCESS"
    created = now
    try:
        found = parse_json_object(read_whole(table.io, path, table=table.name))
        created = checked_long(found["creationTime"], "creationTime")
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        created = now
    content = {"creationTime": created, "modificationTime": now}
    table.io.overwrite(path, json.dumps(content).encode())
