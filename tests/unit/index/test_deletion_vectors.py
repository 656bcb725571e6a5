"""Index files with deletion vectors: Java's bytes, and what must not be in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from long_run import examples

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.index.deletion_vectors import (
    encoded_size,
    packed,
    read_deletion_vectors,
    unpacked,
    write_deletion_vectors,
)
from paimon_core.io.local import LocalFileIO
from paimon_core.scan.vectors import vector_files
from paimon_core.table.open import open_table

IO = LocalFileIO()
POSITIONS = st.sets(st.integers(0, 2**20) | st.integers(2**31 - 9, 2**31 - 1)).map(
    lambda values: np.array(sorted(values), np.int64)
)


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_the_bytes_are_javas(golden, version, tmp_path):
    table = open_table(str(golden("deletion_vectors", version).warehouse), "db.t")
    seen = 0
    for snapshot in table.snapshots.all():
        for (partition, bucket), files in vector_files(table, snapshot).items():
            for file in files:
                path = table.paths.index_file(partition, bucket, file)
                vectors = read_deletion_vectors(table.io, path, file)
                copy = tmp_path / str(snapshot.id) / file.file_name
                assert write_deletion_vectors(IO, str(copy), vectors, bitmap64=False) == file
                assert copy.read_bytes() == Path(path).read_bytes()
                seen += 1
    assert seen > 3


@settings(max_examples=examples(30))
@given(vectors=st.dictionaries(st.text("abc", min_size=1), POSITIONS), wide=st.booleans())
def test_what_is_written_is_read(tmp_path_factory, vectors, wide):
    path = str(tmp_path_factory.mktemp("index") / "index-1")
    file = write_deletion_vectors(IO, path, vectors, bitmap64=wide)
    read = read_deletion_vectors(IO, path, file)
    assert list(read) == list(vectors)
    for name, positions in vectors.items():
        assert read[name].tolist() == positions.tolist()
        assert read[name].dtype == np.int64
    assert file.file_size == 1 + sum(encoded_size(p, bitmap64=wide) for p in vectors.values())


@given(positions=POSITIONS)
def test_packing(positions):
    assert unpacked(packed(positions)).tolist() == positions.tolist()


def test_positions_beyond_32_bit_need_the_wide_form(tmp_path):
    far = {"a": np.array([2**31], np.int64)}
    with pytest.raises(UnsupportedFeature, match="bitmap64"):
        write_deletion_vectors(IO, str(tmp_path / "narrow"), far, bitmap64=False)
    file = write_deletion_vectors(IO, str(tmp_path / "wide"), far, bitmap64=True)
    assert read_deletion_vectors(IO, str(tmp_path / "wide"), file)["a"].tolist() == [2**31]


def test_a_missing_file_may_have_expired(tmp_path):
    path = tmp_path / "index-1"
    file = write_deletion_vectors(IO, str(path), {"a": np.arange(3)}, bitmap64=False)
    path.unlink()
    with pytest.raises(CorruptTable, match=r"vector file is missing.*if its snapshot expired"):
        read_deletion_vectors(IO, str(path), file)


@pytest.mark.parametrize("place", [0, 3, 6, 12, -2])
@pytest.mark.parametrize("wide", [False, True])
def test_damage_is_seen(tmp_path, place, wide):
    path = tmp_path / "index-1"
    positions = {"a": np.arange(3, 900, 7)}
    file = write_deletion_vectors(IO, str(path), positions, bitmap64=wide)
    data = bytearray(path.read_bytes())
    data[place] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(CorruptTable):
        read_deletion_vectors(IO, str(path), file)
