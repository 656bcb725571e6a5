"""Packs Caretaker's packages into a zip file for executors without an installation.

They are pure Python.  Their dependencies (pyarrow, numpy, fastavro, fsspec, zstandard, pyroaring) must be
installed on the executors.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PACKAGES: Final = ("paimon_core", "paimon_spark", "paimon_maintenance")
_FIXED_TIME: Final = (2020, 1, 1, 0, 0, 0)
"""A fixed time: the same sources give the same bytes, so clusters can cache the file."""


def write_packages(target: Path) -> Path:
    """Write the zip file to `target` and return its path."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in _sources():
            entry = zipfile.ZipInfo(name, date_time=_FIXED_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, source.read_bytes())
    return target


def package_folder(name: str) -> Path:
    """The folder of a package, without importing it.  ModuleNotFoundError if it is not installed."""
    spec = importlib.util.find_spec(name)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        return Path(folder)
    message = f"package {name} is not on the Python path"
    raise ModuleNotFoundError(message, name=name)


def package_parents() -> list[str]:
    """The folders that must be on the path of a Python that imports our packages."""
    return list(dict.fromkeys(str(package_folder(package).parent) for package in PACKAGES))


def _sources() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        folder = package_folder(package)
        for source in sorted((*folder.rglob("*.py"), *folder.rglob("*.tsv"))):
            yield str(source.relative_to(folder.parent)), source
