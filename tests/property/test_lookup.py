"""Keys looked up in random levels, against a dict per level."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from lakes import ENV, Lake
from long_run import examples

from paimon_core.compaction import lookup as lookup_module
from paimon_core.compaction.lookup import KeyLookup
from paimon_core.lsm.tree.sorted_run import SortedRun, sorted_run
from paimon_core.manifest.data_file import DataFileMeta, FileSource
from paimon_core.read.section import SectionReader
from paimon_core.schema.key_value import kv_schema
from paimon_core.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_core.write.data_file_writer import RollingKeyValueWriter

LAST_KEY = 60
files_of_a_level = st.lists(st.sets(st.integers(0, 9), min_size=1), max_size=4)
"""Keys of each file, tens apart: the files of a level do not overlap."""


@st.composite
def levels_of_keys(draw):
    levels = []
    for _ in range(draw(st.integers(1, 3))):
        files = draw(files_of_a_level)
        places = sorted(draw(st.permutations(range(LAST_KEY // 10)))[: len(files)])
        levels.append(
            [sorted(10 * p + k for k in keys) for p, keys in zip(places, files, strict=True)]
        )
    return levels


class Bucket:
    """A bucket of a real table, files written level by level."""

    def __init__(self, folder: str, *, row_group_bytes: int = 1 << 20, **options: str) -> None:
        self.row_group_bytes = row_group_bytes
        self.lake = Lake(folder)
        self.lake.primary_key(**options)
        self.table = self.lake.table()

    def write(self, level: int, keys: list[int], sequence: int) -> DataFileMeta:
        writer = RollingKeyValueWriter(
            self.table.io,
            self.table.paths,
            PARTITION,
            0,
            self.table.schema,
            level=level,
            file_source=FileSource.COMPACT,
            env=ENV,
            row_group_bytes=self.row_group_bytes,
        )
        rows = len(keys)
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array(np.arange(sequence, sequence + rows)),
                pa.array(np.zeros(rows, np.int8)),
                pa.array(keys, pa.int32()),
                pa.array([f"{level}-{k}" for k in keys]),
            ],
            schema=kv_schema(self.table.schema.row_type),
        )
        for begin in range(0, rows, 3):  # a row group each, if these are small
            writer.write(batch.slice(begin, 3))
        (file,) = writer.close()
        return file


PARTITION = b"\x00\x00\x00\x00" + b"\x00" * 8


@settings(max_examples=examples(40), deadline=None)
@given(
    levels_of_keys(),
    st.lists(st.sets(st.integers(-1, LAST_KEY), min_size=1), max_size=5),
    st.sampled_from(["parquet", "orc", "avro"]),
    st.integers(1, 4),
    st.booleans(),
    st.data(),
)
def test_lookup_finds_the_nearest_record(levels, slices, file_format, batch_rows, skip, data):
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(lookup_module, "_WORTH_SKIPPING", 0 if skip else 1 << 20),
    ):
        small = 1 if skip else 1 << 20
        bucket = Bucket(folder, row_group_bytes=small, file_format=file_format)
        runs, vectors, model = [], {}, {}
        for number, files in reversed(list(enumerate(levels, 1))):
            metas = []
            for keys in files:
                file = bucket.write(number, keys, 100 * number)
                metas.append(file)
                gone = sorted(data.draw(st.sets(st.sampled_from(range(len(keys))))))
                if gone:
                    vectors[file.file_name] = np.array(gone, np.int64)
                for position, key in enumerate(keys):
                    if position not in gone and key % 7:
                        model[key] = (file.file_name, position, f"{number}-{key}")
            runs.insert(0, sorted_run(metas, bucket.table.schema.key_type))
        reader = SectionReader(
            table=bucket.table,
            partition=PARTITION,
            bucket=0,
            read_type=bucket.table.schema.row_type,
            vectors=vectors,
        )
        lookup = KeyLookup(
            reader,
            [r for r in runs if r.files],
            keep=lambda batch: np.asarray(batch.column("k")) % 7 != 0,
        )
        for level in lookup._levels:
            level._rows = batch_rows
        asked = sorted(set().union(*slices))
        bounds = [0, *sorted(data.draw(st.lists(st.integers(0, len(asked)), max_size=4)))]
        for begin, end in zip(bounds, [*bounds[1:], len(asked)], strict=True):
            keys = asked[begin:end]
            found = lookup.find(pa.record_batch({"k": pa.array(keys, pa.int32())}))
            got = {
                keys[row]: (lookup.files[f].file_name, p, r["v"])
                for row, f, p, r in zip(
                    found.keys, found.files, found.positions, found.records.to_pylist(), strict=True
                )
            }
            assert got == {k: model[k] for k in keys if k in model}
            assert found.records.schema.names == [SEQUENCE_NUMBER, VALUE_KIND, "k", "v"]
            assert [r["k"] for r in found.records.to_pylist()] == sorted(got)


def test_a_file_is_opened_only_when_a_key_may_be_in_it(tmp_path):
    bucket = Bucket(str(tmp_path))
    files = [bucket.write(5, [k, k + 5], 0) for k in (0, 10, 20)]
    for gone in (files[0], files[2]):
        bucket.table.io.delete(bucket.table.paths.data_file(PARTITION, 0, gone))
    reader = SectionReader(
        table=bucket.table, partition=PARTITION, bucket=0, read_type=bucket.table.schema.key_type
    )
    lookup = KeyLookup(reader, [SortedRun(tuple(files))])
    found = lookup.find(pa.record_batch({"k": pa.array([7, 10, 12, 16, 26], pa.int32())}))
    assert found.keys.tolist() == [1]
    assert found.records.schema.names == [SEQUENCE_NUMBER, VALUE_KIND, "k"]


def test_row_groups_are_read_only_where_a_key_may_be(tmp_path, monkeypatch):
    monkeypatch.setattr(lookup_module, "_WORTH_SKIPPING", 0)
    bucket = Bucket(str(tmp_path), row_group_bytes=1)
    file = bucket.write(5, list(range(0, 60, 2)), 0)
    path = Path(bucket.table.paths.data_file(PARTITION, 0, file))
    groups = pq.read_metadata(path).num_row_groups
    assert groups == 10
    # Only the groups with 20 and 44 stay readable.
    content = bytearray(path.read_bytes())
    metadata = pq.read_metadata(path)
    for number in range(groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(number).column(column)
            begin = chunk.dictionary_page_offset or chunk.data_page_offset
            if number not in (3, 7):
                content[begin : begin + chunk.total_compressed_size] = bytes(
                    chunk.total_compressed_size
                )
    path.write_bytes(content)
    reader = SectionReader(
        table=bucket.table,
        partition=PARTITION,
        bucket=0,
        read_type=bucket.table.schema.row_type,
        vectors={file.file_name: np.array([10])},
    )
    lookup = KeyLookup(reader, [SortedRun((file,))])
    lookup._levels[0]._rows = 1
    for asked, positions in (([18, 20, 22], [9, 11]), ([44], [22])):
        found = lookup.find(pa.record_batch({"k": pa.array(asked, pa.int32())}))
        assert found.positions.tolist() == positions
        assert [r["v"] for r in found.records.to_pylist()] == [f"5-{2 * p}" for p in positions]
