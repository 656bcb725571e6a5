"""The files of the page, read from the package when the server starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFile:
    """A file with its type and its entity tag."""

    content: bytes
    media_type: str
    etag: str


@cache
def page_files() -> Mapping[str, PageFile]:
    """All files of `static/` by name; a request can only name one of these."""
    found = {}
    for file in resources.files("paimon_airflow.page").joinpath("static").iterdir():
        kind = _TYPES.get(file.name[file.name.rfind(".") :])
        if kind is not None:
            content = file.read_bytes()
            tag = sha256(content).hexdigest()[:16]
            found[file.name] = PageFile(content=content, media_type=kind, etag=f'"{tag}"')
    return found


def answer_with(name: str, request: Request) -> Response:
    """The file; 404 for an unknown name, 304 if the browser has it."""
    file = page_files().get(name)
    if file is None:
        return Response(status_code=404)
    headers = {"ETag": file.etag, "Cache-Control": "private, no-cache"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
