"""Packs Caretaker's packages into a zip file for executors without an installation.

They are pure Python.  Their dependencies (pyarrow, numpy, fastavro, fsspec, zstandard, pyroaring)
must be installed on the executors.

The bytecode goes with the sources.  Python keeps no bytecode of modules in a zip file, so each
Python worker would compile all of them again, which takes longer than the rest of its start.  A
Python of another version takes the sources.
"""

from __future__ import annotations

import importlib.util
import marshal
import zipfile
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Final

PACKAGES: Final = ("paimon_core", "paimon_spark", "paimon_maintenance")
_FIXED_TIME: Final = (2020, 1, 1, 0, 0, 0)
"""A fixed time: the same packages give the same bytes, so clusters can cache the file."""
_UNCHECKED: Final = (1).to_bytes(4, "little")
"""The flags of bytecode that is not compared with its source (PEP 552)."""
_WITHOUT_REFERENCES: Final = 2
"""The version of marshal.  References between constants depend on what else
the process has loaded."""
_QUICK: Final = 1
"""The level of compression: the driver waits for it, and bytecode does not get much smaller."""


def write_packages(target: Path) -> Path:
    """Write the zip file to `target` and return its path."""
    with zipfile.ZipFile(target, "w") as archive:

        def add(name: str, content: bytes) -> None:
            entry = zipfile.ZipInfo(name, _FIXED_TIME)
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, _QUICK)

        for name, source in _sources():
            content = source.read_bytes()
            add(name, content)
            if source.suffix == ".py" and (bytecode := _bytecode(source, content)) is not None:
                add(f"{name}c", bytecode)
    return target


def package_folder(name: str) -> Path:
    """The folder of a package, without importing it.

    ModuleNotFoundError if it is not installed.
    """
    spec = importlib.util.find_spec(name)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        return Path(folder)
    message = f"package {name} is not on the Python path"
    raise ModuleNotFoundError(message, name=name)


def package_parents() -> list[str]:
    """The folders that must be on the path of a Python that imports our packages."""
    return list(dict.fromkeys(str(package_folder(package).parent) for package in PACKAGES))


def _bytecode(source: Path, content: bytes) -> bytes | None:
    """The content of a module's .pyc file, the same each time.

    None if this version of marshal cannot do that.  Python's cache spares compiling what did not
    change.
    """
    code = SourceFileLoader(source.stem, str(source)).get_code(source.stem)
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(content)
    try:
        return head + marshal.dumps(code, _WITHOUT_REFERENCES)
    except ValueError:  # constants of newer Pythons, such as slices since 3.14
        return None


def _sources() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        folder = package_folder(package)
        for source in sorted((*folder.rglob("*.py"), *folder.rglob("*.tsv"))):
            yield str(source.relative_to(folder.parent)), source
