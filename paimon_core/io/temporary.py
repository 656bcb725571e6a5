"""Local files and folders for rows that do not fit into memory.

Their failures say so, and what to do: a temporary file that is missing must not be taken for a
missing file of the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory, gettempdir

from paimon_core.errors import StorageError
from paimon_core.io.file_io import named_in_errors


def temporary_folder(prefix: str, parent: str | None = None) -> TemporaryDirectory[str]:
    """Return a new folder, in `parent` or where the system has temporary files; StorageError."""
    with temporary_files():
        return TemporaryDirectory(prefix=prefix, dir=parent)


def folder_of_temporary_files() -> str:
    """Return where the system has temporary files; StorageError if it has no place for them."""
    with temporary_files():
        return gettempdir()


@contextmanager
def temporary_files(path: str | None = None) -> Iterator[None]:
    """The block uses temporary files, and nothing else: its OSErrors become StorageError.

    The error has the `errno` of its cause, and names `path`, or the file that the cause names.
    """
    try:
        if path is None:
            yield
            return
        with named_in_errors(path):
            yield
    except OSError as e:
        error = StorageError(
            f"a temporary file cannot be used: {e}",
            file=None if e.filename is None else str(e.filename),
            next_step="free some space where the temporary files are, or name another folder in the "
            "variable TMPDIR, then run again",
        )
        error.errno = e.errno
        raise error from e
