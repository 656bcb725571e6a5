"""Compares the statistics in manifests with the rows of a sample of files.

Readers skip files by their statistics, so bounds that are too narrow lose rows.  Bounds may be
wider than the values, because long strings are truncated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from paimon_core.errors import PaimonError
from paimon_core.features import check_readable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.column_stats import ColumnStats, Detail, StatsCollector, sorts_before
from paimon_core.io.file_io import map_parallel
from paimon_core.lsm.key_order import Key, KeyView, stored_key
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.read.data_file import read_data_file
from paimon_core.scan.key_bounds import bound_fields
from paimon_core.scan.prune import column_stats
from paimon_core.types.data_types import AtomicType, DataField, RowType, TypeRoot
from paimon_maintenance.verify.findings import Finding, Problem, Severity
from paimon_maintenance.verify.references import Reference

FILES: Final = 20
"""Sample size per branch."""
_MOST_BYTES: Final = 64 * 1024**2
"""Maximum size of a sample file, to keep the check fast."""


def sample(entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """A sample of the files, evenly spread and deterministic."""
    fitting = sorted(
        (e for e in entries if e.file.file_size <= _MOST_BYTES), key=lambda e: e.file.file_name
    )
    step = max(1, len(fitting) // FILES)
    return fitting[::step][:FILES]


def check_statistics(reference: Reference, chosen: Sequence[ManifestEntry]) -> list[Finding]:
    """Findings about statistics and key bounds that contradict the rows.

    Skips unsupported tables and missing or unreadable files, which other checks report.
    """
    table = reference.table
    try:
        check_readable(table)
    except PaimonError:
        return []
    found = map_parallel(table.io, lambda e: _wrong(table, e), chosen)
    return [
        Finding(
            problem=Problem.WRONG_STATISTICS,
            severity=Severity.ERROR,
            message=f"the statistics of {entry.file.file_name} are wrong: {reason}; "
            "readers may skip matching rows",
            reference=reference.label,
            branch=table.branch,
            snapshot=reference.snapshot.id,
            partition=table.paths.partition_path(entry.partition),
            bucket=entry.bucket,
            file=table.paths.data_file(entry.partition, entry.bucket, entry.file),
        )
        for entry, reasons in zip(chosen, found, strict=True)
        for reason in reasons
    ]


def _wrong(table: FileStoreTable, entry: ManifestEntry) -> list[str]:
    try:
        return list(_differences(table, entry))
    except (PaimonError, OSError):
        return []


def _differences(table: FileStoreTable, entry: ManifestEntry) -> Iterator[str]:
    file = entry.file
    written = table.schema_of(file.schema_id)
    recorded = column_stats(file, written)
    fields = [f for f in written.fields if f.name in recorded]
    keys = bound_fields(table, file)
    wanted = {f.name: f for f in (*fields, *(_value_field(written.fields, k) for k in keys))}
    read_type = RowType(fields=tuple(wanted.values()))
    seen = StatsCollector(
        RowType(fields=tuple(fields)), [Detail.FULL] * len(fields), _format(file.file_name)
    )
    first: Key | None = None
    last: Key | None = None
    key_type = RowType(fields=tuple(keys))
    for batch in read_data_file(
        table.io,
        table.paths.data_file(entry.partition, entry.bucket, file),
        file,
        file_schema=written,
        read_type=read_type,
        key_value=table.has_primary_key,
        partition=entry.partition if table.schema.partition_keys else None,
    ):
        if not batch.num_rows:
            continue
        seen.update([batch.column(f.name) for f in fields])
        if keys:
            view = KeyView(batch, key_type)
            first = view.at(0) if first is None else first
            last = view.at(batch.num_rows - 1)
    for field, real in zip(fields, seen.results(), strict=True):
        yield from _compare(field, recorded[field.name], real)
    if first is not None and last is not None:
        ends = (stored_key(file.min_key, key_type), stored_key(file.max_key, key_type))
        if ends != (first, last):
            yield f"its keys range from {first} to {last}, not {ends[0]} to {ends[1]}"


def _value_field(fields: Sequence[DataField], key: DataField) -> DataField:
    name = key.name.removeprefix("_KEY_")
    return next(f for f in fields if f.name == name)


def _format(name: str) -> str:
    # Only ORC has bounds for timestamps beyond microseconds; compare what the file has.
    return "orc" if ".orc" in name else "parquet"


def _trimmed(value: object) -> object:
    return value.rstrip(" ") if isinstance(value, str) else value


def _compare(
    field: DataField, recorded: tuple[object, object, int | None], real: ColumnStats
) -> Iterator[str]:
    low, high, nulls = recorded
    least, most = real.minimum, real.maximum
    if isinstance(field.type, AtomicType) and field.type.root is TypeRoot.CHAR:
        # Java's ORC writer pads the bounds with blanks; its reader trims the values.
        low, high, least, most = (_trimmed(v) for v in (low, high, least, most))
    if nulls is not None and real.null_count is not None and nulls != real.null_count:
        yield f"column {field.name} has {real.null_count:,} nulls, not {nulls:,}"
    if any(isinstance(v, float) and math.isnan(v) for v in (low, high, least, most)):
        return  # Java's bounds of a column with NaN depend on the order of the rows
    if low is not None and least is not None and sorts_before(least, low):
        yield f"column {field.name} has minimum {least!r}, not {low!r}"
    if high is not None and most is not None and sorts_before(high, most):
        yield f"column {field.name} has maximum {most!r}, not {high!r}"
