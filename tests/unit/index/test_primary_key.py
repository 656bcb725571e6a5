"""What index files of primary-key tables say of the data files that they cover."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakes import ENV, Lake

from paimon_core.compaction import level_indexes as level_index_module
from paimon_core.errors import SchemaError, UnsupportedFeature
from paimon_core.features import check_compactable, check_writable
from paimon_core.index.global_index.btree import write_btree
from paimon_core.index.primary_key import Sources, level_indexes
from paimon_core.io.file_io import FileIO
from paimon_core.options import BTREE_INDEX_BLOCK_SIZE
from paimon_core.table.sink.compact_table import compact_table

FILES = st.lists(
    st.tuples(st.text(max_size=40).filter(lambda t: "\0" not in t), st.integers(0, 2**63 - 1)),
    min_size=1,
    max_size=5,
)


def test_bytes_are_those_of_java() -> None:
    """Written by Java 2.0.0."""
    stored = bytes.fromhex(
        "00000001"
        "00000005"
        "00000001"
        "0033646174612d38363264323563332d383864372d346538392d623137362d3539646362313332303564352d30"
        "2e706172717565740000000000000005"
    )
    name = "data-862d25c3-88d7-4e89-b176-59dcb13205d5-0.parquet"
    assert Sources.decode(stored) == Sources(5, ((name, 5),))
    assert Sources(5, ((name, 5),)).encode() == stored


@given(st.integers(1, 5), FILES)
def test_sources_survive_their_bytes(level: int, files: list[tuple[str, int]]) -> None:
    sources = Sources(level, tuple(files))
    stored = sources.encode()
    assert Sources.decode(stored) == sources
    for end in range(len(stored)):
        assert Sources.decode(stored[:end]) is None
    assert Sources.decode(stored + b"\0") is None


@given(st.binary(max_size=80))
def test_other_bytes_are_no_sources(data: bytes) -> None:
    found = Sources.decode(data)
    assert found is None or found.encode() == data


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pk-btree.index.columns": "zz"}, "unknown column 'zz'"),
        ({"pk-btree.index.columns": "v,v"}, "which has an index"),
        ({"pk-bitmap.index.columns": "v"}, "which has an index"),
        ({"deletion-vectors.enabled": "false"}, "needs deletion-vectors.enabled=true"),
        ({"bucket": "-1"}, "needs fixed buckets"),
        ({"deletion-vectors.merge-on-read": "true"}, "merge-on-read"),
        ({"pk-clustering-override": "true", "clustering.columns": "v"}, "pk-clustering-override"),
        ({"fields.v.pk-btree.index.options": "[1]"}, "is no JSON object"),
    ],
)
def test_what_java_refuses_is_refused(options: dict[str, str], said: str, lake: Lake) -> None:
    told = {"bucket": "1", "deletion-vectors.enabled": "true", "pk-btree.index.columns": "v"}
    with pytest.raises(SchemaError) as refused:
        lake.create(options=told | options)
    assert said in str(refused.value)


def test_options_of_one_index(lake: Lake) -> None:
    lake.create(
        options={
            "bucket": "1",
            "deletion-vectors.enabled": "true",
            "pk-btree.index.columns": "v, k",
            "btree-index.block-size": "2 kb",
            "fields.v.pk-btree.index.options": '{"block-size": "1 kb"}',
        }
    )
    found = level_indexes(lake.table().schema)
    assert [(i.field.name, i.options.value(BTREE_INDEX_BLOCK_SIZE)) for i in found] == [
        ("v", 1024),
        ("k", 2048),
    ]


@pytest.mark.parametrize("family", ["vector", "full-text", "multivalue"])
def test_tables_with_other_indexes_are_not_touched(family: str, lake: Lake) -> None:
    lake.primary_key()
    key = f"pk-{family}.index.columns"
    for check in (check_writable, check_compactable):
        with pytest.raises(UnsupportedFeature, match=key):
            check(lake.table(**{key: "v"}))


def test_a_failed_build_leaves_no_file(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"deletion-vectors.enabled": "true", "pk-btree.index.columns": "v,k"}
    lake.primary_key(**options)
    for keys in ([1, 2], [2, 3], [1]):
        lake.append({"k": keys, "v": ["a"] * len(keys)})
        compact_table(lake.table(), full=False, env=ENV)
    lake.append({"k": [2], "v": ["b"]})
    before = lake.on_disk()
    written: list[str] = []

    def fails_the_second_time(io: FileIO, path: str, *args: Any, **told: Any) -> Any:
        written.append(path)
        if len(written) == 2:
            raise OSError(5, "broken")
        return write_btree(io, path, *args, **told)

    writer = (fails_the_second_time, *level_index_module._WRITERS["btree"][1:])
    monkeypatch.setitem(level_index_module._WRITERS, "btree", writer)
    with pytest.raises(OSError, match="broken"):
        compact_table(lake.table(), full=True, env=ENV)
    assert len(written) == 2
    assert lake.on_disk() == before
