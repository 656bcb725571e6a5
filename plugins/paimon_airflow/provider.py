"""What Caretaker tells Airflow of itself as a provider; `airflow providers get` shows it.

The entry point `apache_airflow_provider` names this module: that of the installed package, or in a
checkout that of the folder `paimon_caretaker-VERSION.dist-info` beside this package.  Every Airflow
process reads it, so it imports nothing.

The plugin has an entry point of its own, and is not named here again: Airflow would load it twice.
"""

from __future__ import annotations

from typing import Any, Final

_INTEGRATION: Final = "Apache Paimon"


def get_provider_info() -> dict[str, Any]:
    """The provider as Airflow's `provider_info.schema.json` has it."""
    return {
        "package-name": "paimon-caretaker",
        "name": "Caretaker",
        "description": (
            "Keeps `Apache Paimon <https://paimon.apache.org/>`__ tables healthy: task groups,"
            " sensors, alerts and a page.\n"
        ),
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://paimon.apache.org/",
                "tags": ["apache"],
            }
        ],
        "operators": _modules(
            "paimon_airflow.alerts.operator",
            "paimon_airflow.commits.operator",
            "paimon_airflow.runs.approval",
            "paimon_airflow.runs.operators",
            "paimon_airflow.runs.scheduler_operator",
            "paimon_airflow.spark.operator",
        ),
        "sensors": _modules("paimon_airflow.sensors.table_sensors"),
        "triggers": _modules("paimon_airflow.commits.trigger", "paimon_airflow.sensors.trigger"),
        "extra-links": [
            "paimon_airflow.tasks.links.CaretakerLink",
            "paimon_airflow.tasks.links.CaretakerPageLink",
            "paimon_airflow.tasks.links.SparkUiLink",
        ],
        "notifications": ["paimon_airflow.alerts.notifiers.WebhookNotifier"],
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _INTEGRATION, "python-modules": list(names)}]
