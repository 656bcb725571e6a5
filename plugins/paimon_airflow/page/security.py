"""Who may see the page, and who may trigger a job.

Airflow does not authenticate the routes of plugins, so each route depends on `may_see`.  Triggering
needs no route here: the page calls Airflow's own API, which checks the permission again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from airflow.models.dag import DagModel
from fastapi import Depends
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SEEN_BY: Final = "caretaker_maintain"
"""Users who may see the runs of this DAG may see the page."""
may_see = requires_access_dag("GET", DagAccessEntity.RUN, param_dag_id=SEEN_BY)
"""401 without a valid login, 403 without the permission."""
User = Annotated[BaseUser, Depends(get_user)]

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def dag_of(job: str) -> str:
    """The id of the DAG of the job (`paimon_dags.pages`)."""
    return f"caretaker_{job}"


def triggerable(user: BaseUser, jobs: Iterable[str]) -> dict[str, bool]:
    """For each job whether the user may trigger its DAG."""
    manager = get_auth_manager()
    return {
        job: manager.is_authorized_dag(
            method="POST",
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=dag_of(job), team_name=DagModel.get_team_name(dag_of(job))),
            user=user,
        )
        for job in jobs
    }


class SecurityHeaders:
    """Adds the headers that stop a browser from loading or running content of other servers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, with_headers)
