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

PAGES: Final = ("page-lake", "page-table", "page-runs")
"""The pages, named as the module that each of them loads."""
_SHELL: Final = "page.html"
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
    """All files of `static/` by name, and the HTML of each page; a request can name no other."""
    found = {}
    for file in resources.files("paimon_airflow.page").joinpath("static").iterdir():
        if file.name == _SHELL:
            shell = file.read_text("utf-8")
            for page in PAGES:
                name = f"{page}.html"
                found[name] = _page_file(name, shell.replace("{module}", page).encode())
        elif file.name[file.name.rfind(".") :] in _TYPES:
            found[file.name] = _page_file(file.name, file.read_bytes())
    return found


def _page_file(name: str, content: bytes) -> PageFile:
    tag = sha256(content).hexdigest()[:16]
    kind = _TYPES[name[name.rfind(".") :]]
    return PageFile(content=content, media_type=kind, etag=f'"{tag}"')


def answer_with(name: str, request: Request) -> Response:
    """The file; 404 for an unknown name, 304 if the browser has it."""
    file = page_files().get(name)
    if file is None:
        return Response(status_code=404)
    headers = {"ETag": file.etag, "Cache-Control": "private, no-cache"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
