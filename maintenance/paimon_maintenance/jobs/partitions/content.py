"""The partitions of the newest snapshot, with their content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from paimon_core.commit.overwrite import PartitionTest, static_partition_test
from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.job.plan import Effect, Loss, LossKind
from paimon_maintenance.rules.partition_choice import partition_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition: its stored row, its path, and its live files.

    `newest_file` is the creation time of its newest file, in milliseconds of the local wall clock.
    """

    row: bytes
    path: str
    files: int
    bytes: int
    newest_file: int


def partitions_of(table: FileStoreTable, snapshot: Snapshot | None) -> list[Partition]:
    """All partitions with live files, sorted by path."""
    found: dict[bytes, tuple[int, int, int]] = {}
    for entry in [] if snapshot is None else scan_files(table, snapshot):
        files, size, newest = found.get(entry.partition, (0, 0, 0))
        made = entry.file.creation_time or 0
        found[entry.partition] = (files + 1, size + entry.file.file_size, max(newest, made))
    partitions = [
        Partition(
            row=row,
            path=table.paths.partition_path(row),
            files=files,
            bytes=size,
            newest_file=newest,
        )
        for row, (files, size, newest) in found.items()
    ]
    return sorted(partitions, key=lambda p: p.path)


def effect_of(going: Iterable[Partition], everything: Iterable[Partition]) -> Effect:
    """The effect of dropping these partitions from the newest snapshot."""
    going, everything = list(going), list(everything)
    files, size = sum(p.files for p in going), sum(p.bytes for p in going)
    table_files, table_bytes = sum(p.files for p in everything), sum(p.bytes for p in everything)
    return Effect(
        deleted_files=files,
        deleted_bytes=size,
        table_files=table_files,
        table_bytes=table_bytes,
        losses=(Loss(LossKind.FILES, files, table_files), Loss(LossKind.BYTES, size, table_bytes)),
    )


def spec_tests(
    table: FileStoreTable, specs: Sequence[Mapping[str, str]]
) -> list[PartitionTest | None]:
    """One test per spec for whether it matches a partition; InvalidArgument for invalid specs."""
    types = {f.name: f.type for f in table.schema.partition_type.fields}
    if not types:
        raise InvalidArgument(f"table {table.name} is not partitioned", table=table.name)
    tests = []
    for spec in specs:
        unknown = sorted(set(spec) - set(types))
        if unknown:
            raise InvalidArgument(
                f"table {table.name} is not partitioned by {', '.join(unknown)} "
                f"(partition keys: {', '.join(types)})",
                table=table.name,
            )
        values = {k: partition_value(table, k, v) for k, v in spec.items()}
        tests.append(static_partition_test(table, values))
    return tests
