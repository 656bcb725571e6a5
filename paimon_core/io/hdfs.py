"""`FileIO` on HDFS, by hdfs-native: a client without Java (Java: `HadoopFileIO`).

A file gets its final name by the NameNode's atomic rename, which fails if the name is taken; Java's
clients create snapshots in the same way, so both can write to one table.

If the reply to a rename is lost, the temporary file is deleted: from then on the rename can no
longer happen.  Then the content of the target shows whose file it is.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
from fsspec.caching import ReadAheadCache

from paimon_core.errors import PaimonError, StorageAccessDenied, StorageError
from paimon_core.io.file_io import FileStat, join, parent

if TYPE_CHECKING:
    from hdfs_native import Client

_PARALLELISM: Final = 32
_READ_AHEAD: Final = 128 * 1024
_WRITE_PIECE: Final = 1024 * 1024
_RPC_ERROR: Final = re.compile(r'^\w*RPCError\("([\w.$]+)", "(.*?)(?:\\n|"\)$)', re.DOTALL)
_NOT_EMPTY: Final = "PathIsNotEmptyDirectoryException"
_DENIED: Final = frozenset({"AccessControlException", "AuthorizationException"})


class HdfsFileIO:
    """`FileIO` over one NameNode, name service or ViewFS; paths carry the scheme and the host.

    `client` has the arguments of `hdfs_native.Client`; `umask`, `replication` and `block_size`
    apply to new files, the last two where they are not None.
    """

    __slots__ = ("_arguments", "_block_size", "_client", "_process", "_replication", "_umask")

    def __init__(
        self,
        client: Mapping[str, Any],
        *,
        umask: int = 0o022,
        replication: int | None = None,
        block_size: int | None = None,
    ) -> None:
        self._arguments = dict(client)
        self._umask, self._replication, self._block_size = umask, replication, block_size
        self._client = _connected(self._arguments)
        self._process = os.getpid()

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self._arguments, self._umask, self._replication, self._block_size))

    def __repr__(self) -> str:
        return f"HdfsFileIO({self._arguments.get('url')!r})"

    @property
    def parallelism(self) -> int:
        return _PARALLELISM

    @property
    def deletes_at_once(self) -> int:
        return 1

    @property
    def client(self) -> Client:
        """The connected client; another one in a forked process, where its threads are missing."""
        if self._process != os.getpid():
            self._client, self._process = _connected(self._arguments), os.getpid()
        return self._client

    def read_bytes(self, path: str) -> bytes:
        with _os_errors(path):
            return bytes(self.client.read(_in_hdfs(path)).read())

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:  # noqa: ARG002 - FileIO
        with _os_errors(path):
            return pa.PythonFile(_Input(self.client.read(_in_hdfs(path)), path), mode="r")

    def open_output(self, path: str) -> pa.NativeFile:
        with _os_errors(path):
            return pa.PythonFile(_Output(self._create(path), path), mode="w")

    def write_bytes(self, path: str, data: bytes) -> None:
        with self.open_output(path) as f:
            f.write(data)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        if self.exists(path):
            return False
        temporary = _temporary(path)
        self.write_bytes(temporary, data)
        try:
            with _os_errors(path):
                self.client.rename(_in_hdfs(temporary), _in_hdfs(path), overwrite=False)
        except FileExistsError:
            self._drop(temporary)
            return False
        except OSError:
            self._drop(temporary)
            if not self.exists(path):
                raise
            return self._holds(path, data)
        return True

    def overwrite(self, path: str, data: bytes) -> None:
        temporary = _temporary(path)
        self.write_bytes(temporary, data)
        try:
            with _os_errors(path):
                self.client.rename(_in_hdfs(temporary), _in_hdfs(path), overwrite=True)
        except OSError:
            self._drop(temporary)
            if not self._holds(path, data):
                raise

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def stat(self, path: str) -> FileStat:
        with _os_errors(path):
            return _file_stat(path, self.client.get_file_info(_in_hdfs(path)))

    def list_dir(self, path: str) -> list[FileStat]:
        own = _in_hdfs(path).rstrip("/")
        try:
            with _os_errors(path):
                return [
                    _file_stat(join(path, status.path.rsplit("/", 1)[-1]), status)
                    for status in self.client.list_status(own or "/", recursive=False)
                    if status.path != own  # the listing of a file is the file itself
                ]
        except FileNotFoundError:
            return []

    def list_names(self, path: str) -> None:  # noqa: ARG002 - FileIO
        return None  # a listing holds sizes and times

    def list_below(self, path: str) -> list[FileStat] | None:  # noqa: ARG002 - FileIO
        return None  # the client lists each folder

    def delete(self, path: str) -> bool:
        with _os_errors(path):
            return bool(self.client.delete(_in_hdfs(path), recursive=False))

    def delete_many(self, paths: Sequence[str]) -> list[bool]:
        return [self.delete(path) for path in paths]

    def delete_dir(self, path: str, *, recursive: bool = True) -> bool:
        try:
            with _os_errors(path):
                return bool(self.client.delete(_in_hdfs(path), recursive=recursive))
        except StorageError as e:
            if not recursive and _NOT_EMPTY in e.message:
                return False
            raise

    def rename(self, src: str, dst: str) -> bool:
        self.make_dirs(parent(dst))
        try:
            with _os_errors(src):
                self.client.rename(_in_hdfs(src), _in_hdfs(dst), overwrite=False)
        except FileExistsError:
            return False
        except StorageError:
            # A file in place of a folder, or the reverse, has an error of its own.
            if self.exists(src) and self.exists(dst):
                return False
            raise
        return True

    def make_dirs(self, path: str) -> None:
        with _os_errors(path):
            self.client.mkdirs(_in_hdfs(path), 0o777 & ~self._umask, create_parent=True)

    def _create(self, path: str) -> Any:
        from hdfs_native import WriteOptions  # noqa: PLC0415 - an extra

        options = WriteOptions(
            block_size=self._block_size,
            replication=self._replication,
            permission=0o666 & ~self._umask,
            overwrite=True,  # a repeated call must not fail on the file of the first one
            create_parent=True,
        )
        return self.client.create(_in_hdfs(path), options)

    def _drop(self, temporary: str) -> None:
        with suppress(OSError):
            self.delete(temporary)

    def _holds(self, path: str, data: bytes) -> bool:
        with suppress(FileNotFoundError):
            return self.read_bytes(path) == data
        return False


def _rebuild(
    arguments: Mapping[str, Any], umask: int, replication: int | None, block_size: int | None
) -> HdfsFileIO:
    return HdfsFileIO(arguments, umask=umask, replication=replication, block_size=block_size)


def _connected(arguments: Mapping[str, Any]) -> Client:
    from hdfs_native import Client  # noqa: PLC0415 - an extra

    try:
        return Client(**arguments)  # sends nothing yet
    except RuntimeError as e:
        raise ValueError(str(e)) from e


def _in_hdfs(path: str) -> str:
    """Return the path below the root of the file system, as the NameNode wants it."""
    return "/" + path.partition("://")[2].partition("/")[2]


def _temporary(path: str) -> str:
    return join(parent(path), f".{path.rsplit('/', 1)[-1]}.{uuid4()}.tmp")


def _file_stat(path: str, status: Any) -> FileStat:
    return FileStat(path, int(status.length), int(status.modification_time), bool(status.isdir))


class _Input:
    """An open file for reading, of the size that it had when it was opened.

    The client panics if it is asked for bytes beyond the end, so that is never done.
    """

    def __init__(self, reader: Any, path: str) -> None:
        self._path, self._size, self._at = path, len(reader), 0

        def fetch(start: int, end: int) -> bytes:
            return bytes(reader.read_range(start, end - start))

        self._cache = ReadAheadCache(_READ_AHEAD, fetch, self._size)
        self.closed = False

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._at + size)
        if self._at >= end:
            return b""
        with _os_errors(self._path):
            data = bytes(self._cache._fetch(self._at, end))  # noqa: SLF001 - how fsspec's files call it
        self._at += len(data)
        return data

    def close(self) -> None:
        self.closed = True


class _Output:
    """A file that the client writes."""

    def __init__(self, writer: Any, path: str) -> None:
        self._writer, self._path, self._at = writer, path, 0
        self.closed = False

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return self._at

    def write(self, data: bytes) -> int:
        view = memoryview(data).cast("B")
        with _os_errors(self._path):
            for start in range(0, len(view), _WRITE_PIECE):
                self._writer.write(bytes(view[start : start + _WRITE_PIECE]))
        self._at += len(view)
        return len(view)

    def flush(self) -> None:
        """Do nothing: the blocks are complete when the file is closed."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with _os_errors(self._path):
                self._writer.close()


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Turn the client's errors into an OSError that names the path, without Java's stack."""
    try:
        yield
    except PaimonError:
        raise
    except FileNotFoundError as e:
        if "is not a file" in str(e):
            raise _of_kind(IsADirectoryError, errno.EISDIR, path) from e
        raise _of_kind(FileNotFoundError, errno.ENOENT, path) from e
    except FileExistsError as e:
        raise _of_kind(FileExistsError, errno.EEXIST, path) from e
    except RuntimeError as e:
        known = _RPC_ERROR.match(str(e))
        if known is None:
            raise StorageError(f"{path}: {e}", file=path) from e
        kind, message = known[1].rsplit(".", 1)[-1], known[2]
        if "is not a directory" in message:
            raise _of_kind(NotADirectoryError, errno.ENOTDIR, path) from e
        if kind in _DENIED:
            raise StorageAccessDenied(f"{path}: {message}", file=path) from e
        raise StorageError(f"{path}: {kind}: {message}", file=path) from e
    except OSError as e:
        first = str(e).partition("\n")[0]
        raise StorageError(f"{path}: {type(e).__name__}: {first}", file=path) from e


def _of_kind(kind: Callable[[int, str, str], OSError], code: int, path: str) -> OSError:
    return kind(code, os.strerror(code), path)
