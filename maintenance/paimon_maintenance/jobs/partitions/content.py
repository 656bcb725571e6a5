"""What dropping partitions removes, and which partitions a spec means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from paimon_core.commit.overwrite import PartitionTest, static_partition_test
from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.retention.partitions import Partition
from paimon_maintenance.job.plan import Effect, Loss, LossKind
from paimon_maintenance.rules.partition_choice import partition_value


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
