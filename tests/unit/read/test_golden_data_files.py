"""Every live data file that Java wrote is read; where no merge decides, row by row as Java reads."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from golden_files import VERSIONS, GoldenTable, golden_table, table_names

from paimon_core.io.local import LocalFileIO
from paimon_core.read.data_file import read_data_file
from paimon_core.schema.key_value import kv_schema
from paimon_core.types.json_columns import batch_to_json_rows

TABLES = [(v, n) for v in VERSIONS for n in table_names(v)]


def batches(table: GoldenTable, file, batch_rows=7):
    return list(
        read_data_file(
            LocalFileIO(),
            str(file.path),
            file.meta,
            file_schema=file.schema,
            read_type=table.schema.row_type,
            key_value=table.key_value,
            batch_rows=batch_rows,
        )
    )


@pytest.mark.one_java
@pytest.mark.parametrize(("version", "name"), TABLES)
def test_every_file_gives_valid_batches(version, name):
    table = golden_table(version, name)
    for file in table.all_files():
        read = batches(table, file)
        for batch in read:
            batch.validate(full=True)
        assert sum(b.num_rows for b in read) == file.meta.row_count
        if table.key_value:
            whole = pa.Table.from_batches(read, kv_schema(table.schema.row_type))
            numbers = whole["_SEQUENCE_NUMBER"].to_pylist()
            assert (min(numbers), max(numbers)) == (
                file.meta.min_sequence_number,
                file.meta.max_sequence_number,
            )
            deletes = sum(kind in {1, 3} for kind in whole["_VALUE_KIND"].to_pylist())
            assert deletes == file.meta.delete_row_count


@pytest.mark.parametrize(("version", "name"), [t for t in TABLES if not golden_table(*t).key_value])
def test_append_tables_read_as_java_reads_them(version, name):
    table = golden_table(version, name)
    rows = []
    for file in table.files():
        for batch in batches(table, file):
            rows += batch_to_json_rows(batch, table.schema.row_type)
    expected = [r[1:] for r in table.expected["reads"]["latest"]["rows"]]
    assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, expected))


DEDUPLICATED = [
    (v, n)
    for v in VERSIONS
    for n in (
        "dedup", "dedup_per_level", "dedup_thin", "dedup_write_only_compacted", "file_gzip",
        "file_lz4", "file_none", "file_snappy", "file_suffix_prefix", "levels", "pk_types",
        "types_pk_avro", "types_pk_orc", "types_pk_parquet", "schema_evolution_pk",
    )
]  # fmt: skip


@pytest.mark.parametrize(("version", "name"), DEDUPLICATED)
def test_the_newest_record_of_each_key_is_what_java_reads(version, name):
    table = golden_table(version, name)
    row_type = table.schema.row_type
    at = [row_type.names.index(k) for k in table.schema.primary_keys]
    newest = {}
    for file in table.files():
        for batch in batches(table, file):
            values = batch.select(row_type.names)
            for number, kind, row in zip(
                batch["_SEQUENCE_NUMBER"].to_pylist(),
                batch["_VALUE_KIND"].to_pylist(),
                batch_to_json_rows(values, row_type),
                strict=True,
            ):
                key = json.dumps([row[i] for i in at])
                newest[key] = max(newest.get(key, (-1, 0, [])), (number, kind, row))
    rows = [row for _, kind, row in newest.values() if kind in {0, 2}]
    expected = [r[1:] for r in table.expected["reads"]["latest"]["rows"]]
    assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, expected))
