"""The application that Airflow mounts under /caretaker.

Every route depends on `may_see`, also those of files and of the API's description, and a path
without a route answers like any other without a login.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from starlette.responses import Response

from paimon_airflow.page.api import router
from paimon_airflow.page.files import answer_with
from paimon_airflow.page.models import ErrorAnswer
from paimon_airflow.page.security import SecurityHeaders, may_see
from paimon_core.errors import InvalidArgument, MaintenanceError, NotFound, PaimonError

logger = logging.getLogger(__name__)
PREFIX: Final = "/caretaker"
_PAGES: Final = {"/": "page-lake", "/table": "page-table", "/runs": "page-runs"}
_ANY_METHOD: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@cache
def page_app() -> FastAPI:
    """The application; made once in a process."""
    app = FastAPI(
        title="Caretaker",
        description="Health and maintenance of Paimon tables. All routes need a login of Airflow.",
        version="1",
        dependencies=[Depends(may_see)],
        # FastAPI's own routes of these have no dependencies.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    app.include_router(
        router,
        prefix="/api",
        responses={
            400: {
                "model": ErrorAnswer,
                "description": "A parameter names something that cannot be",
            },
            404: {"model": ErrorAnswer, "description": "Not found"},
            503: {"model": ErrorAnswer, "description": "The history or the lake is not reachable"},
        },
    )
    app.add_api_route("/api/openapi.json", _openapi, include_in_schema=False)
    app.add_api_route("/static/{name}", _static, include_in_schema=False)
    for path, name in _PAGES.items():
        app.add_api_route(path, _page(name), include_in_schema=False)
    app.add_api_route("/{path:path}", _nothing, methods=_ANY_METHOD, include_in_schema=False)
    app.add_exception_handler(PaimonError, _failed)
    app.add_exception_handler(OSError, _failed)
    app.add_middleware(SecurityHeaders)
    return app


def _page(name: str) -> Callable[[Request], Response]:
    """Answers with the HTML that loads the module of this page."""

    def page(request: Request) -> Response:
        return answer_with(f"{name}.html", request)

    return page


def _static(name: str, request: Request) -> Response:
    return answer_with(name, request)


def _openapi(request: Request) -> dict[str, Any]:
    app: FastAPI = request.app
    return {**app.openapi(), "servers": [{"url": request.scope.get("root_path", "")}]}


def _nothing() -> Response:
    raise HTTPException(status_code=404)


def _failed(_: Request, error: Exception) -> JSONResponse:
    """The error as JSON, with its next step; the status says whether the request was wrong."""
    status = 503 if isinstance(error, MaintenanceError | OSError) else 500
    if isinstance(error, NotFound):
        status = 404
    elif isinstance(error, InvalidArgument):
        status = 400
    elif isinstance(error, PaimonError) and status == 500:
        # Unreadable metadata, or a table that this version refuses: a property of the table, not of
        # the request.
        status = 422
    logger.warning("%s: %s", type(error).__name__, error)
    next_step = getattr(error, "next_step", None) or None
    answer = ErrorAnswer(
        # The text of an error ends with its next step, which has a field of its own here.
        detail=str(error).removesuffix(f" -> {next_step}"),
        type=type(error).__name__,
        next_step=next_step,
    )
    return JSONResponse(answer.model_dump(), status_code=status)
