"""Opens the `FileIO` for a URL.

Options are Paimon's own (`s3.endpoint`, `s3.access-key`, `s3.secret-key`, `s3.path.style.access`,
and the same under `fs.s3a.`).  `caretaker.request-deadline` ("60 s") limits an S3 request including
all its retries.  `fsspec.KEY` is passed to the fsspec file system, parsed as JSON if it is valid
JSON.
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
from paimon_core.options import parse_bool, parse_duration_millis

_FSSPEC_PREFIX: Final = "fsspec."
_S3_PREFIXES: Final = ("s3.", "s3a.", "fs.s3.", "fs.s3a.")
_S3_SCHEMES: Final = frozenset({"s3", "s3a", "s3n"})
REQUEST_DEADLINE: Final = "caretaker.request-deadline"


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
    from paimon_core.io.fsspec_io import FsspecFileIO  # noqa: PLC0415 - slow import

    protocol = "s3" if scheme in _S3_SCHEMES else scheme
    storage = _s3_options(options) if protocol == "s3" else {}
    storage.update(
        {
            k[len(_FSSPEC_PREFIX) :]: _json_or_text(v)
            for k, v in options.items()
            if k.startswith(_FSSPEC_PREFIX)
        }
    )
    try:
        io = FsspecFileIO(
            protocol, storage, commit_by_rename=parse_bool(options.get(COMMIT_BY_RENAME, "false"))
        )
    except (ImportError, ValueError) as e:
        raise InvalidArgument(
            f"cannot open {url}: {e}",
            next_step="install what the message names (for S3: the extra 's3') or correct the URL",
        ) from e
    return io, f"{scheme}://{rest.rstrip('/')}"


def _s3_options(options: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, str] = {}
    for key, value in options.items():
        for prefix in _S3_PREFIXES:
            if key.startswith(prefix):
                found[key[len(prefix) :].replace("-", ".")] = value
    result: dict[str, Any] = {}
    for option, keyword in (
        ("access.key", "key"),
        ("secret.key", "secret"),
        ("session.token", "token"),
        ("endpoint", "endpoint_url"),
    ):
        if option in found:
            result[keyword] = found[option]
    endpoint = result.get("endpoint_url")
    if endpoint and "://" not in endpoint:
        result["endpoint_url"] = f"https://{endpoint}"
    region = found.get("region") or found.get("endpoint.region")
    if region:
        result["client_kwargs"] = {"region_name": region}
    if "path.style.access" in found:
        style = "path" if parse_bool(found["path.style.access"]) else "virtual"
        result["config_kwargs"] = {"s3": {"addressing_style": style}}
    if REQUEST_DEADLINE in options:
        result["deadline_seconds"] = parse_duration_millis(options[REQUEST_DEADLINE]) / 1000
    return result


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
