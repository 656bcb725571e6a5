"""A data, changelog or index file that a reference needs."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_core.manifest.data_file import IndexFileMeta
from paimon_core.paths import FileSlice
from paimon_maintenance.verify.findings import Problem
from paimon_maintenance.verify.references import Reference


@dataclass(frozen=True, slots=True)
class RequiredFile:
    """A file, the first reference that needs it, and what is known of it.

    `size` and `rows` are None where nobody wrote them down.  `path` is what the manifest names;
    with `part` its bytes are these of another file (java-rules F6).
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
        """The path of the file that is on disk."""
        return self.path if self.part is None else self.part.path
