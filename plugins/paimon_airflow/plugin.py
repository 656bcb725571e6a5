"""What Caretaker adds to Airflow: the page in the navigation, and its API.

Every Airflow process loads this module, and only the API server asks for the application, so
importing it imports nothing else.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

PREFIX = "/caretaker"


class CaretakerPlugin(AirflowPlugin):
    """The plugin `caretaker`."""

    name = "caretaker"

    @property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]
        """The application, imported when the API server starts."""
        from paimon_airflow.page.app import page_app  # noqa: PLC0415 - FastAPI, pyarrow

        return [{"app": page_app(), "url_prefix": PREFIX, "name": "Caretaker"}]

    @property
    def external_views(self) -> list[Any]:  # type: ignore[override]
        """The entry in the navigation; its page fills the frame of Airflow's shell."""
        from paimon_airflow.tasks.links import root_path  # noqa: PLC0415 - read when asked for

        root = root_path()
        return [
            {
                "name": "Caretaker",
                "href": f"{root}{PREFIX}/",
                "destination": "nav",
                "nav_top_level": True,
                "url_route": "caretaker",
                "icon": f"{root}{PREFIX}/static/icon.svg",
                "icon_dark_mode": f"{root}{PREFIX}/static/icon-dark.svg",
            }
        ]
