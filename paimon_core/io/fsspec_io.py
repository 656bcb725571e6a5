"""`FileIO` for any store that fsspec supports: S3, Google Cloud Storage, Azure, memory.

Commits need "create if absent" as one request.  Support differs by store:

- `s3`: a conditional PUT (`If-None-Match: *`), as AWS, MinIO, Ceph and R2 support it.
- `gs`: a PUT with the precondition that the object's generation is 0.
- `abfs`: a PUT with `If-None-Match: *`.
- `memory`: a lock in this process.
- all others (`oss`, ...): only an existence check, a temporary file and a rename.  On an object
  store the rename replaces what exists, and concurrent commits may be lost.  Such stores, and those
  whose PUT ignores the condition, are refused unless the option `caretaker.commit-by-rename`
  declares commits safe (one writer at a time, a file system whose rename does not replace, or the
  lock of a catalog, which sets the option).

A store that ignores a condition would lose commits; `conditional_put` detects this before the first
commit.

Listings and file states are never cached: a commit by another process must be visible at once.
Failed requests raise StorageError with the path; requests to S3 have deadlines (`s3`).
"""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import fsspec
import pyarrow as pa

from paimon_core.errors import (
    PaimonError,
    StorageAccessDenied,
    StorageError,
    UnsupportedFeature,
)
from paimon_core.io.commit_guard import check_guard
from paimon_core.io.conditional_put import COMMIT_BY_RENAME, is_proven, prove_once, refused
from paimon_core.io.file_io import FileStat, delete_files, join, parent
from paimon_core.io.move_objects import move_objects
from paimon_core.io.s3_many import MOST_DELETED, delete_objects, list_folder, list_objects
from paimon_core.io.store_retries import counting_in, current_count

CONDITIONAL_CREATE: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "memory"})
_OBJECT_STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "oss", "cos", "obs"})
_S3: Final = frozenset({"s3", "s3a"})
_AZURE: Final = frozenset({"abfs", "abfss"})
_GOOGLE: Final = frozenset({"gs", "gcs"})
_REMOTE_PARALLELISM: Final = 32
_READ_AHEAD: Final = 128 * 1024
"""The bytes read beyond those asked for.

Readers of Parquet take a megabyte here and a megabyte there, each of another column; with the 50 MB
that s3fs reads ahead, a file of ten columns would be fetched 13 times.
"""
_TIME_KEYS: Final = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")
_EXISTS_CODES: Final = frozenset({"PreconditionFailed", "412"})
_NOT_IMPLEMENTED_CODES: Final = frozenset({"NotImplemented", "501", "MethodNotAllowed", "405"})
_NO_MULTI_DELETE_CODES: Final = _NOT_IMPLEMENTED_CODES | {
    "InvalidArgument",
    "InvalidRequest",
    "MalformedXML",
    "MissingContentMD5",
}
_PATTERN: Final = re.compile(r"[*?[]")
"""What makes fsspec take a path for a pattern, in `rm`, `mv` and `copy`: names may hold it."""
_memory_lock = threading.Lock()


class FsspecFileIO:
    """`FileIO` over one fsspec file system; paths carry the scheme ("s3://bucket/w/db.db/t")."""

    __slots__ = ("_by_rename", "_fs", "_options", "_protocol")

    def __init__(
        self,
        protocol: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        commit_by_rename: bool = False,
    ) -> None:
        self._protocol = protocol
        self._options = dict(storage_options or {})
        self._by_rename = commit_by_rename
        self._fs = _file_system(protocol, {"use_listings_cache": False, **self._options})

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self._protocol, self._options, self._by_rename))

    def __repr__(self) -> str:
        return f"FsspecFileIO({self._protocol!r})"  # options may hold secrets

    @property
    def parallelism(self) -> int:
        return 1 if self._protocol == "memory" else _REMOTE_PARALLELISM

    def read_bytes(self, path: str) -> bytes:
        # s3fs first requests the size, to read large objects in parts; one stream is enough here.
        at_once = {"max_concurrency": 1} if self._protocol in _S3 else {}
        with _os_errors(path):
            return bytes(self._fs.cat_file(path, **at_once))

    @property
    def deletes_at_once(self) -> int:
        return MOST_DELETED if self._protocol in _S3 else 1

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        known = {"size": size} if size is not None and self._protocol in _S3 else {}
        with _os_errors(path):
            opened = self._fs.open(
                path, "rb", cache_type="readahead", block_size=_READ_AHEAD, **known
            )
        return pa.PythonFile(_NamedFile(opened, path), mode="r")

    def open_output(self, path: str) -> pa.NativeFile:
        with _os_errors(path):
            self._make_parent(path)
            opened = self._fs.open(path, "wb")
        return pa.PythonFile(_NamedFile(opened, path), mode="w")

    def write_bytes(self, path: str, data: bytes) -> None:
        with _os_errors(path):
            self._make_parent(path)
            self._fs.pipe_file(path, data)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        if self._protocol not in CONDITIONAL_CREATE:
            return self._create_by_rename(path, data)
        if self._protocol == "memory":
            with _memory_lock, _os_errors(path):
                self._make_parent(path)
                return self.put_if_absent(path, data)
        if self._by_rename:
            if not is_proven(self, self._place(path), path):
                return self._create_by_rename(path, data)
        else:
            prove_once(self, self._place(path), path)
        return self.put_if_absent(path, data) or self._holds(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Return whether the store reports that it created the object (for `conditional_put`)."""
        try:
            with _os_errors(path):
                self._fs.pipe_file(path, data, mode="create")
        except FileExistsError:
            return False
        except OSError as e:
            code = _error_code(e)
            if code in _NOT_IMPLEMENTED_CODES:
                raise refused(path, f"the store answers a conditional PUT with {code}") from e
            if code not in _EXISTS_CODES:
                raise
            return False
        return True

    def overwrite(self, path: str, data: bytes) -> None:
        with _os_errors(path):
            self._make_parent(path)
            if self._protocol == "memory" or self._is_object_store:
                self._fs.pipe_file(path, data)
                return
            temporary = _temporary(path)
            self._fs.pipe_file(temporary, data)
            # Overwritten files may be missing for a moment (as in Java).
            with suppress(FileNotFoundError):
                self._fs.rm_file(path)
            self._fs.mv(temporary, path)

    def exists(self, path: str) -> bool:
        # Not `fs.exists`, which returns False for every failure.
        try:
            with _os_errors(path):
                self._fs.info(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def stat(self, path: str) -> FileStat:
        with _os_errors(path):
            return _file_stat(path, self._fs.info(path))

    def list_dir(self, path: str) -> list[FileStat]:
        try:
            with _os_errors(path):
                if self._protocol in _S3:
                    return list_folder(self._fs.call_s3, *self._folder(path))
                infos = self._fs.ls(path, detail=True)
        except FileNotFoundError:
            return []
        own = self._fs._strip_protocol(path).rstrip("/")  # noqa: SLF001 - public in all but name
        found = []
        for info in infos:
            name = info["name"].rstrip("/")
            if name != own:  # object stores list the folder marker itself
                found.append(_file_stat(join(path, name.rsplit("/", 1)[-1]), info))
        return found

    def list_names(self, path: str) -> None:  # noqa: ARG002 - FileIO
        return None  # a listing holds sizes and times

    def list_below(self, path: str) -> list[FileStat] | None:
        if self._protocol not in _S3:
            return None
        with _os_errors(path):
            return list_objects(self._fs.call_s3, *self._folder(path))

    def _folder(self, path: str) -> tuple[str, str, str]:
        """Return the bucket, the prefix of the objects in a folder, and its path without slash."""
        bucket, key, _ = self._fs.split_path(path)
        return bucket, f"{key.rstrip('/')}/" if key else "", path.rstrip("/")

    def delete_many(self, paths: Sequence[str]) -> list[bool]:
        # Files that the store reports as failed, and all if it has no such request, one by one.
        left = list(paths) if self._protocol not in _S3 else self._delete_objects(paths)
        failure: OSError | None = None
        gone = dict.fromkeys(paths, True)
        for path in left:
            try:
                gone[path] = self.delete(path)
            except OSError as e:
                failure = failure or e
        if failure is not None:
            raise failure
        return [gone[path] for path in paths]

    def _delete_objects(self, paths: Sequence[str]) -> list[str]:
        """Delete the objects of each bucket by one request; return the paths that are left."""
        left: list[str] = []
        buckets: dict[str, dict[str, str]] = {}
        for path in paths:
            bucket, key, _ = self._fs.split_path(path)
            buckets.setdefault(bucket, {})[key] = path
        for bucket, by_key in buckets.items():
            try:
                with _os_errors(next(iter(by_key.values()))):
                    failed = delete_objects(self._fs.call_s3, bucket, list(by_key))
            except StorageAccessDenied:
                raise
            except OSError as e:
                if _error_code(e) not in _NO_MULTI_DELETE_CODES:
                    raise
                failed = list(by_key)
            left += [by_key[key] for key in failed]
        return left

    def delete(self, path: str) -> bool:
        try:
            with _os_errors(path):
                self._fs.rm_file(path)
        except FileNotFoundError:
            return False
        return True

    def delete_dir(self, path: str, *, recursive: bool = True) -> bool:
        try:
            with _os_errors(path):
                if not recursive:
                    return self._delete_empty(path)
                if self._protocol in _S3:
                    return self._delete_below(path)
                if _PATTERN.search(path):  # `rm` would delete the folders that it matches
                    files = self._fs.find(path)
                    for file in files:
                        self._fs.rm_file(file)
                    return bool(files)
                self._fs.rm(path, recursive=True)
        except FileNotFoundError:
            return False
        return True

    def _delete_below(self, path: str) -> bool:
        """Delete all objects below a folder of S3.

        `rm` of s3fs keeps quiet about those that it cannot.
        """
        found = list_objects(self._fs.call_s3, *self._folder(path))
        if not found:
            return self._delete_marker(path)
        delete_files(self, [file.path for file in found if not file.is_dir])
        for folder in (*(file.path for file in found if file.is_dir), path):
            self._fs.call_s3("delete_object", **self._marker(folder))
        return True

    def rename(self, src: str, dst: str) -> bool:
        with _os_errors(src):
            is_folder = self._fs.info(src)["type"] == "directory"
            if is_folder and self._is_object_store:
                return move_objects(self._fs, src, dst)
            if self.exists(dst):
                return False
            self._make_parent(dst)
            check_guard()  # as late as possible: what follows replaces `dst`
            if not is_folder and (self._is_object_store or self._protocol == "memory"):
                # Not `mv`, which takes the name for a pattern.
                self._fs.cp_file(src, dst)
                self._fs.rm_file(src)
            elif not is_folder:
                self._fs.mv(src, dst)
            else:
                self._fs.mv(src, dst, recursive=True)
        return True

    def make_dirs(self, path: str) -> None:
        with _os_errors(path):
            if not self._is_object_store:
                self._fs.makedirs(path, exist_ok=True)
            elif self._protocol in _S3 and not self.exists(path):
                # Like Hadoop clients: an empty object whose name ends with a slash.
                self._fs.call_s3("put_object", Body=b"", **self._marker(path))
            elif self._protocol in _AZURE and not self.exists(path):
                # As Azure's own clients mark folders: an empty blob with this property.
                self._fs.open(path, "wb", metadata={"hdi_isfolder": "true"}).close()
            elif self._protocol in _GOOGLE and not self.exists(path):
                self._fs.pipe_file(f"{path}/", b"")

    @property
    def _is_object_store(self) -> bool:
        return self._protocol in _OBJECT_STORES

    def _make_parent(self, path: str) -> None:
        if not self._is_object_store:
            self._fs.makedirs(parent(path), exist_ok=True)

    def _delete_empty(self, path: str) -> bool:
        if self.list_dir(path):
            return False
        if self._is_object_store:
            return self._delete_marker(path)
        self._fs.rmdir(path)
        return True

    def _delete_marker(self, path: str) -> bool:
        if self._protocol not in _S3 | _AZURE | _GOOGLE or not self.exists(path):
            return False
        if self._protocol in _AZURE:
            self._fs.rm_file(path)
        elif self._protocol in _GOOGLE:
            self._fs.rm_file(f"{path}/")
        else:
            self._fs.call_s3("delete_object", **self._marker(path))
        return True

    def _marker(self, path: str) -> dict[str, str]:
        bucket, key, _ = self._fs.split_path(path)
        return {"Bucket": bucket, "Key": f"{key}/"}

    def _holds(self, path: str, data: bytes) -> bool:
        # The client retries a request whose reply was lost, so the existing file may be our own.
        try:
            return self.read_bytes(path) == data
        except FileNotFoundError:
            return False
        except StorageAccessDenied as e:
            raise StorageError(
                f"{path} exists, but cannot be read to find out who created it: {e.message}",
                file=path,
            ) from e

    def _place(self, path: str) -> tuple[str, str]:
        client = self._options.get("client_kwargs") or {}
        endpoint = self._options.get("endpoint_url") or client.get("endpoint_url") or ""
        bucket = path.partition("://")[2].partition("/")[0]
        return f"{self._protocol} {endpoint}", bucket

    def _create_by_rename(self, path: str, data: bytes) -> bool:
        if not self._by_rename:
            raise UnsupportedFeature(
                f"commit on {self._protocol}, which has no exclusive create",
                file=path,
                next_step="use a catalog with lock.enabled=true (JDBC, Hive), or set the file option "
                f"{COMMIT_BY_RENAME}=true if only one process commits at a time, or if renaming on this store fails when the name is taken",
            )
        if self.exists(path):
            return False
        temporary = _temporary(path)
        self.write_bytes(temporary, data)
        try:
            return self.rename(temporary, path)
        except OSError:
            # The name may have been taken after the check, or the reply was lost.
            if not self.exists(path):
                raise
            return self._holds(path, data)
        finally:
            with suppress(OSError):
                self.delete(temporary)


def _rebuild(protocol: str, options: Mapping[str, Any], by_rename: bool) -> FsspecFileIO:  # noqa: FBT001 - pickle
    return FsspecFileIO(protocol, options, commit_by_rename=by_rename)


def _temporary(path: str) -> str:
    return join(parent(path), f".{path.rsplit('/', 1)[-1]}.{uuid4()}.tmp")


def _file_stat(path: str, info: Mapping[str, Any]) -> FileStat:
    if info["type"] == "directory":
        return FileStat(path, 0, 0, is_dir=True)
    return FileStat(path, int(info["size"] or 0), _modified_millis(info))


def _modified_millis(info: Mapping[str, Any]) -> int:
    for key in _TIME_KEYS:
        value = info.get(key)
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return int(aware.timestamp() * 1000)
        if isinstance(value, int | float):
            return int(value * 1000)
    return 0


def _error_code(error: BaseException) -> str | None:
    """Return the store's error code ("PreconditionFailed"), if there is one."""
    seen: BaseException | None = error
    while seen is not None:
        response = getattr(seen, "response", None)
        if isinstance(response, Mapping):
            return str(response.get("Error", {}).get("Code"))
        seen = seen.__cause__ or seen.__context__
    return None


def _file_system(protocol: str, options: Mapping[str, Any]) -> Any:
    if protocol in _S3:
        from paimon_core.io.s3 import BoundedS3FileSystem  # noqa: PLC0415 - s3fs may be missing

        return BoundedS3FileSystem(**options)
    return fsspec.filesystem(protocol, **options)


class _NamedFile:
    """An open fsspec file whose errors name its path."""

    def __init__(self, opened: Any, path: str) -> None:
        self._opened = opened
        self._path = path
        self._retries = current_count()

    @property
    def closed(self) -> bool:
        return bool(self._opened.closed)

    def readable(self) -> bool:
        return bool(self._opened.readable())

    def writable(self) -> bool:
        return bool(self._opened.writable())

    def seekable(self) -> bool:
        return bool(self._opened.seekable())

    def read(self, size: int = -1) -> bytes:
        # Readers of Parquet call this from threads of their own.
        with _os_errors(self._path), counting_in(self._retries):
            return bytes(self._opened.read(size))

    def write(self, data: bytes) -> int:
        with _os_errors(self._path):
            return int(self._opened.write(data))

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._opened.seek(offset, whence))

    def tell(self) -> int:
        return int(self._opened.tell())

    def flush(self) -> None:
        with _os_errors(self._path):
            self._opened.flush()

    def close(self) -> None:
        with _os_errors(self._path):
            self._opened.close()


_KINDS: Final[Mapping[type[OSError], int]] = {
    FileNotFoundError: errno.ENOENT,
    FileExistsError: errno.EEXIST,
    NotADirectoryError: errno.ENOTDIR,
    IsADirectoryError: errno.EISDIR,
}


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Turn the client libraries' errors into an OSError that names the path."""
    try:
        yield
    except PaimonError:
        raise
    except tuple(_KINDS) as e:
        if e.filename is not None:
            raise
        kind = next(kind for kind in _KINDS if isinstance(e, kind))
        raise kind(_KINDS[kind], os.strerror(_KINDS[kind]), path) from e
    except PermissionError as e:
        raise StorageAccessDenied(f"{path}: {e}", file=path) from e
    except (NotImplementedError, TypeError, ValueError, AttributeError, KeyError):
        raise  # a programming error, not a failure of the store
    except Exception as e:
        raise StorageError(f"{path}: {type(e).__name__}: {e}", file=path) from e
