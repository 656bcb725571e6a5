"""Gauges of a lake, from the history: open alerts, tables by color, errors of predictions."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.history.alert_store import SEVERITIES, Severity, open_alerts
from paimon_maintenance.history.lake_view import tables_by_color
from paimon_maintenance.history.report import newest_predictions
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.run.metrics import Metric, Metrics

ALERTS: Final = Metric(
    "paimon_maintenance_alerts_open", "Open alerts by kind and severity.", "gauge"
)
OLDEST: Final = Metric(
    "paimon_maintenance_alerts_oldest_timestamp_seconds",
    "When the oldest open alert of a severity was opened.",
    "gauge",
)
TABLES: Final = Metric(
    "paimon_maintenance_tables", "Measured tables by the color of their health score.", "gauge"
)
PREDICTIONS: Final = Metric(
    "paimon_maintenance_predictions_error_ratio",
    "Difference of predicted and measured seconds of the newest runs with past runs of their job, "
    "divided by the measured.",
    "gauge",
)


def put_lake(metrics: Metrics, history: SqlHistory, warehouse: str | None = None) -> None:
    """Set the gauges of one warehouse, or of all that the history knows.

    A kind of alert that is not open is 0, so that rules on it resolve.  MaintenanceError if the
    database does not answer.
    """
    counts = open_alerts(history, warehouse)
    colors = tables_by_color(history, warehouse)
    places = {(c.warehouse, c.branch) for c in counts} | {(w, b) for w, b, _ in colors}
    if warehouse is not None:
        places.add((warehouse, "main"))
    for place, branch in places:
        here = {"warehouse": place, "branch": branch}
        for kind, severity in SEVERITIES.items():
            metrics.put(ALERTS, 0, kind=kind, severity=str(severity), **here)
    for one in counts:
        severity = SEVERITIES.get(one.kind, Severity.WARNING)
        here = {"warehouse": one.warehouse, "branch": one.branch}
        metrics.put(ALERTS, one.number, kind=one.kind, severity=str(severity), **here)
    for severity in Severity:
        for place, branch in places:
            opened = [
                c.oldest_millis
                for c in counts
                if (c.warehouse, c.branch) == (place, branch)
                and SEVERITIES.get(c.kind, Severity.WARNING) is severity
            ]
            if opened:
                here = {"warehouse": place, "branch": branch, "severity": str(severity)}
                metrics.put(OLDEST, min(opened) / 1000, **here)
    for (place, branch), spread in newest_predictions(history, warehouse).items():
        here = {"warehouse": place, "branch": branch}
        metrics.put(PREDICTIONS, spread.median, quantile="0.5", **here)
        metrics.put(PREDICTIONS, spread.p90, quantile="0.9", **here)
    for (place, branch, color), number in colors.items():
        metrics.put(TABLES, number, warehouse=place, branch=branch, color=color)
