"""Tables that Java wrote, compacted: the same rows, in sound files, and nothing left on failure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lakes import ENV

from paimon_core.compaction.append_coordinator import pick_bucketed, pick_unaware
from paimon_core.compaction.pick import pick_primary_key
from paimon_core.compaction.rewrite import rewrite
from paimon_core.compaction.slices import slice_unit
from paimon_core.compaction.unit import CompactUnit, merged
from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.lsm.chosen_engine import merge_engine_of
from paimon_core.lsm.key_order import stored_key
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.manifest.data_file import DataFileMeta, FileSource
from paimon_core.read import section as section_module
from paimon_core.read.data_file import read_data_file
from paimon_core.read.section import SectionReader
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.types.json_columns import batch_to_json_rows

PRIMARY_KEY = [
    "dedup_write_only",
    "dedup_ignore_delete",
    "dedup_per_level",
    "dedup_thin",
    "deletes",
    "dynamic_bucket",
    "levels",
    "partitions_pk_overwrite",
    "pk_types",
    "rescaled",
    "schema_evolution_pk",
    "seq_field",
    "seq_field_desc",
    "seq_field_two",
    "types_pk_avro",
    "types_pk_orc",
    "types_pk_parquet",
]
APPEND = [
    "append_bucketed",
    "append_unaware",
    "schema_evolution_append",
    "types_append_avro",
    "types_append_orc",
    "types_append_parquet",
]
Bucket = tuple[bytes, int]


class GoldenTable:
    """A table, its live files by bucket, and a way to compact one bucket."""

    def __init__(self, warehouse: Path, **options: str) -> None:
        self.table: FileStoreTable = open_table(str(warehouse), "db.t", dynamic_options=options)
        self.entries = scan_files(self.table, self.table.latest_or_not_found())
        self.files: dict[Bucket, list[DataFileMeta]] = defaultdict(list)
        for entry in self.entries:
            self.files[entry.partition, entry.bucket].append(entry.file)

    def units(self, bucket: Bucket, *, full: bool = True) -> list[CompactUnit]:
        place = {"partition": bucket[0], "total_buckets": 1}
        files, options = self.files[bucket], self.table.options
        if self.table.has_primary_key:
            unit = pick_primary_key(
                files, self.table.schema, full=full, local_millis=0, bucket=bucket[1], **place
            )
            return [] if unit is None else [unit]
        if self.table.bucket_mode is BucketMode.UNAWARE:
            return pick_unaware(files, options, **place)
        return pick_bucketed(files, options, full=full, bucket=bucket[1], **place)

    def rewrite(self, unit: CompactUnit) -> Any:
        ids = count()
        env = replace(
            ENV,
            new_uuid=lambda: f"made-here-{unit.bucket}-{next(ids)}-{id(unit)}",
            local_millis=lambda: 77,
        )
        return rewrite(self.table, unit, env=env)

    def rows(self, bucket: Bucket, files: Sequence[DataFileMeta]) -> list[str]:
        """The rows that a reader sees, as JSON texts."""
        table = self.table
        if table.has_primary_key:
            reader = SectionReader(
                table=table, partition=bucket[0], bucket=bucket[1], read_type=table.schema.row_type
            )
            engine = merge_engine_of(table.schema).engine
            batches: Iterable[pa.RecordBatch] = (
                batch
                for section in interval_partition(files, table.schema.key_type)
                for batch in reader.merged(section, engine, drop_deletes=True)
            )
        else:
            ordered = sorted(files, key=lambda f: f.min_sequence_number)
            batches = (b for f in ordered for b in self.file_rows(bucket, f))
        names = table.schema.names
        return [
            json.dumps(row)
            for batch in batches
            for row in batch_to_json_rows(batch.select(names), table.schema.row_type)
        ]

    def file_rows(self, bucket: Bucket, file: DataFileMeta) -> Iterable[pa.RecordBatch]:
        table = self.table
        return read_data_file(
            table.io,
            table.paths.data_file(*bucket, file),
            file,
            file_schema=table.schemas.get(file.schema_id),
            read_type=table.schema.row_type,
            key_value=table.has_primary_key,
        )

    def on_disk(self) -> set[str]:
        return {str(p) for p in Path(self.table.root).rglob("*") if p.is_file()}


def outcome(files: Sequence[DataFileMeta], result: Any) -> list[DataFileMeta]:
    """The live files after the commit."""
    gone = {(f.file_name, f.level) for f in result.before}
    left = [f for f in files if (f.file_name, f.level) not in gone]
    assert len(left) == len(files) - len(result.before)
    return [*left, *result.after]


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
@pytest.mark.parametrize("name", PRIMARY_KEY)
def test_full_compaction_keeps_the_rows(
    golden: Callable[..., Any], name: str, version: str
) -> None:
    force = {"compaction.force-rewrite-all-files": "true"} if name == "pk_types" else {}
    kept = GoldenTable(golden(name, version, copy=True).warehouse, **force)
    key = kept.table.schema.key_type
    compacted = 0
    for bucket, files in kept.files.items():
        for unit in kept.units(bucket):
            compacted += 1
            result = kept.rewrite(CompactUnit.from_bytes(unit.to_bytes()))
            live = outcome(files, result)
            assert kept.rows(bucket, live) == kept.rows(bucket, files)
            assert {f.level for f in live} <= {unit.output_level}
            spans = sorted((stored_key(f.min_key, key), stored_key(f.max_key, key)) for f in live)
            assert all(left[1] < right[0] for left, right in pairwise(spans))
            for file in result.after:
                if not file.file_name.startswith("data-made-here"):
                    continue  # moved up
                assert file.file_source is FileSource.COMPACT
                assert file.creation_time == 77
                assert file.delete_row_count == 0
                assert file.schema_id == kept.table.schema.id
                assert (
                    file.file_size == Path(kept.table.paths.data_file(*bucket, file)).stat().st_size
                )
    assert compacted


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
@pytest.mark.parametrize("name", ["dedup_write_only", "deletes", "seq_field", "types_pk_parquet"])
def test_minor_compaction_keeps_the_rows(
    golden: Callable[..., Any], name: str, version: str
) -> None:
    kept = GoldenTable(
        golden(name, version, copy=True).warehouse, **{"num-sorted-run.compaction-trigger": "2"}
    )
    for bucket, files in kept.files.items():
        for unit in kept.units(bucket, full=False):
            live = outcome(files, kept.rewrite(unit))
            assert kept.rows(bucket, live) == kept.rows(bucket, files)


@pytest.mark.parametrize("name", ["dedup_write_only", "types_pk_parquet", "pk_types", "deletes"])
def test_slices_do_together_what_the_unit_does(golden: Callable[..., Any], name: str) -> None:
    kept = GoldenTable(golden(name, copy=True).warehouse)
    for bucket, files in kept.files.items():
        for unit in kept.units(bucket):
            slices = slice_unit(kept.table, unit, slice_bytes=max(1, unit.rewritten_bytes // 5))
            assert len(slices) > 1 or not unit.rewrites or unit.rewritten_rows < 5
            result = merged([kept.rewrite(s) for s in slices])
            live = outcome(files, result)
            assert kept.rows(bucket, live) == kept.rows(bucket, files)
            key = kept.table.schema.key_type
            spans = sorted((stored_key(f.min_key, key), stored_key(f.max_key, key)) for f in live)
            assert all(left[1] < right[0] for left, right in pairwise(spans))


@pytest.mark.parametrize("name", ["dedup_write_only", "schema_evolution_pk"])
def test_many_runs_go_over_local_disk(
    golden: Callable[..., Any], name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = GoldenTable(golden(name, copy=True).warehouse)
    spill = tmp_path / "spill"
    spill.mkdir()
    for bucket, files in kept.files.items():
        expected = kept.rows(bucket, files)
        with monkeypatch.context() as patched:
            patched.setattr(section_module, "MAX_FAN_IN", 2)
            for unit in kept.units(bucket):
                assert max(len(s) for r in unit.rewrites for s in r) > 2
                result = rewrite(
                    kept.table,
                    unit,
                    env=ENV,
                    spill_dir=str(spill),
                )
        assert list(spill.iterdir()) == []
        assert kept.rows(bucket, outcome(files, result)) == expected


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
@pytest.mark.parametrize("name", APPEND)
def test_append_files_are_joined_in_order(
    golden: Callable[..., Any], name: str, version: str
) -> None:
    kept = GoldenTable(
        golden(name, version, copy=True).warehouse, **{"compaction.min.file-num": "2"}
    )
    joined = 0
    for bucket, files in kept.files.items():
        for unit in kept.units(bucket):
            joined += len(unit.append_files)
            result = kept.rewrite(unit)
            assert result.before == unit.append_files
            expected = [
                row
                for f in unit.append_files
                for b in kept.file_rows(bucket, f)
                for row in batch_to_json_rows(b, kept.table.schema.row_type)
            ]
            actual = [
                row
                for f in result.after
                for b in kept.file_rows(bucket, f)
                for row in batch_to_json_rows(b, kept.table.schema.row_type)
            ]
            assert actual == expected
            first = unit.append_files[0].min_sequence_number
            for file in result.after:
                assert file.min_sequence_number == first
                first += file.row_count
                assert file.max_sequence_number == first - 1
            if kept.table.bucket_mode is BucketMode.FIXED:
                assert kept.rows(bucket, outcome(files, result)) == kept.rows(bucket, files)
    assert joined > 1


@pytest.mark.parametrize("name", ["dedup_write_only", "append_unaware"])
def test_a_failed_task_leaves_no_file(golden: Callable[..., Any], name: str) -> None:
    kept = GoldenTable(
        golden(name, copy=True).warehouse,
        **{"compaction.min.file-num": "2", "target-file-size": "3 kb"},
    )
    bucket = next(b for b in kept.files if kept.units(b) and kept.units(b)[0].rewritten_files)
    (unit, *_) = kept.units(bucket)
    Path(kept.table.paths.data_file(*bucket, unit.rewritten_files[-1])).unlink()
    before = kept.on_disk()
    with pytest.raises(CorruptTable, match="missing"):
        kept.rewrite(unit)
    assert kept.on_disk() == before


def test_progress_counts_the_rows(golden: Callable[..., Any]) -> None:
    kept = GoldenTable(golden("append_bucketed", copy=True).warehouse)
    bucket, _ = next(iter(kept.files.items()))
    (unit,) = kept.units(bucket)
    seen: list[int] = []
    rewrite(
        kept.table,
        unit,
        env=ENV,
        progress=seen.append,
    )
    assert sum(seen) == unit.rewritten_rows
