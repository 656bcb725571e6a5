"""The metadata files that a reader of one snapshot needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paimon_core.io.file_io import FileIO, map_parallel
from paimon_core.manifest.data_file import ManifestFileMeta
from paimon_core.paths import TablePaths
from paimon_core.snapshot.snapshot import Snapshot


def first_missing_metadata(
    io: FileIO,
    paths: TablePaths,
    snapshot: Snapshot,
    manifests_of: Callable[[str], Sequence[ManifestFileMeta]],
) -> str | None:
    """The path of the first missing metadata file; None if every one exists.

    Checks the base and delta manifest lists, their manifests and the index manifest in storage.
    `manifests_of` returns the manifests that a list names.  A FileNotFoundError from it counts as
    a missing list; other errors are raised.
    """
    names: list[str] = []
    for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
        try:
            manifests = manifests_of(name)
        except FileNotFoundError:
            return paths.manifest(name)
        names += [name, *(m.file_name for m in manifests)]
    if snapshot.index_manifest is not None:
        names.append(snapshot.index_manifest)
    needed = [paths.manifest(name) for name in dict.fromkeys(names)]
    found = map_parallel(io, io.exists, needed)
    return next((p for p, exists in zip(needed, found, strict=True) if not exists), None)
