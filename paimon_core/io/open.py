"""Opens the `FileIO` for a URL.

Options are Paimon's own (`s3.endpoint`, `fs.oss.accessKeyId`, ...; `store_options`).
`caretaker.request-deadline` ("60 s") limits an S3 request including all its retries.  `fsspec.KEY`
is passed to the fsspec file system, parsed as JSON if it is valid JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from paimon_core.errors import InvalidArgument
from paimon_core.io.conditional_put import COMMIT_BY_RENAME
from paimon_core.io.file_io import FileIO
from paimon_core.io.local import LocalFileIO, local_path
from paimon_core.io.store_options import scheme_of
from paimon_core.options import parse_bool

_FSSPEC_PREFIX: Final = "fsspec."


def open_file_io(url: str, options: Mapping[str, str] | None = None) -> tuple[FileIO, str]:
    """Return the store of `url`, and `url` as an absolute path in it without trailing slash.

    A plain path and "file:" use the local file system.  Raises InvalidArgument for a scheme that no
    installed package supports.
    """
    options = options or {}
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == "file":
        if not url:
            raise InvalidArgument("the path is empty")
        path = local_path(url)
        return LocalFileIO(), os.path.abspath(path).rstrip("/") or "/"
    store = scheme_of(scheme)
    try:
        io = _opened(store.protocol, store.arguments(url, options), options)
    except (ImportError, ValueError, OSError) as e:
        raise InvalidArgument(
            f"cannot open {url}: {_first_line(e)}",
            next_step=f"{store.needs}, or correct the URL and its options",
        ) from e
    return io, f"{scheme}://{rest.rstrip('/')}"


def _opened(protocol: str, arguments: Mapping[str, Any], options: Mapping[str, str]) -> FileIO:
    if protocol == "hdfs":
        from paimon_core.io.hdfs import HdfsFileIO  # noqa: PLC0415 - slow import

        return HdfsFileIO(**arguments)
    from paimon_core.io.fsspec_io import FsspecFileIO  # noqa: PLC0415 - slow import

    named = {
        k[len(_FSSPEC_PREFIX) :]: _json_or_text(v)
        for k, v in options.items()
        if k.startswith(_FSSPEC_PREFIX)
    }
    by_rename = parse_bool(options.get(COMMIT_BY_RENAME, "false"))
    return FsspecFileIO(protocol, {**arguments, **named}, commit_by_rename=by_rename)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
