"""Manifests that Java wrote, decoded into columns, hold what the decoder of objects finds."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from paimon_core.errors import PaimonError
from paimon_core.io.local import LocalFileIO
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.manifest.entries import columns_codec as entry_columns_codec
from paimon_core.manifest.entries.columns import NUMBERS, Partitions, columns_of
from paimon_core.manifest.entries.columns_codec import Decoded, RawManifest, decode_columns
from paimon_core.manifest.manifest_file import read_manifest

GOLDEN = Path(__file__).parents[2] / "golden"
IO = LocalFileIO()


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0", "flink", "newer"])
def test_java_manifests(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_columns_codec, "_LEAST_LANES", 1)
    walked = []
    walk = entry_columns_codec._walked
    monkeypatch.setattr(
        entry_columns_codec, "_walked", lambda *given: walked.append(1) or walk(*given)
    )
    found = sorted(GOLDEN.joinpath(version).rglob("manifest/manifest-*"))
    paths = [str(p) for p in found if not p.name.startswith("manifest-list-")]
    manifests: list[tuple[bytes, list[ManifestEntry]]] = []
    for path in paths:
        try:
            manifests.append((IO.read_bytes(path), read_manifest(IO, path)))
        except PaimonError:
            continue  # of a version that is refused; other tests say so
    partitions = Partitions()
    raw = [RawManifest(data, partial(list, entries)) for data, entries in manifests]
    decoded = list(decode_columns(raw, partitions, NUMBERS))
    wanted = [e for _, entries in manifests for e in entries]
    assert wanted
    assert [e for part in decoded for e in _all(part)] == wanted
    assert [i for part in decoded for i in _identities(part)] == [e.identity for e in wanted]
    for name in NUMBERS:
        values = np.concatenate([part.columns.numbers[name] for part in decoded])
        assert values.tolist() == columns_of(wanted, Partitions(), [name]).numbers[name].tolist()
    assert walked


def _all(part: Decoded) -> list[ManifestEntry]:
    return part.entries(np.arange(len(part.columns)))


def _identities(part: Decoded) -> list[object]:
    return [part.columns.identity(i) for i in range(len(part.columns))]
