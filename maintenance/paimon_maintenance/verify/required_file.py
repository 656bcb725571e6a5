"""A data, changelog or index file that a reference needs."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_core.manifest.data_file import IndexFileMeta
from paimon_core.paths import FileSlice
from paimon_maintenance.verify.findings import Problem
from paimon_maintenance.verify.references import Reference


@dataclass(frozen=True, slots=True)
class RequiredFile:
    """A file, the first reference that needs it, and its expected properties.

    `size` and `rows` are None if no metadata has them.  `path` is the path from the manifest; with
    `part`, the content is a slice of another file (java-rules F6).
    """

    path: str
    reference: Reference
    missing: Problem
    partition: bytes
    bucket: int
    size: int | None = None
    rows: int | None = None
    part: FileSlice | None = None
    index: IndexFileMeta | None = None

    @property
    def stored(self) -> str:
        """The path of the file in storage."""
        return self.path if self.part is None else self.part.path
