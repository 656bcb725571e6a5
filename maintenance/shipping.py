"""Our own packages as one zip file, for executors that do not have them installed.

They are pure Python; what they need (pyarrow, numpy, fastavro, fsspec) has to be there already.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PACKAGES: Final = ("paimon_core", "maintenance")
_FIXED_TIME: Final = (2020, 1, 1, 0, 0, 0)
"""So that the same sources make the same bytes, and clusters that cache files see no change."""


def write_packages(target: Path) -> Path:
    """The zip file, written to `target`."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in _sources():
            entry = zipfile.ZipInfo(name, date_time=_FIXED_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, source.read_bytes())
    return target


def _sources() -> Iterator[tuple[str, Path]]:
    root = Path(__file__).resolve().parent.parent
    for package in PACKAGES:
        for source in sorted((root / package).rglob("*.py")):
            yield str(source.relative_to(root)), source
