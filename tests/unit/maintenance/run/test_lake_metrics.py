"""Gauges of a lake: open alerts by kind and severity, tables by color; in the file of a command."""

from __future__ import annotations

from command_line import caretaker

from paimon_maintenance.history.alert_store import SEVERITIES, AlertStore
from paimon_maintenance.history.need_store import NeedStore, StoredDecision
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.run.lake_metrics import put_lake
from paimon_maintenance.run.metrics import Metrics
from paimon_maintenance.schedule.alerts import Alert, AlertKind


def alert(table: str, kind: AlertKind) -> Alert:
    return Alert(table=table, kind=kind, subject=f"{table} {kind}", text="why", next_step="do")


def test_every_kind_of_alert_has_a_severity():
    assert set(SEVERITIES) == set(map(str, AlertKind))


def test_open_alerts_are_counted_and_closed_ones_are_zero(tmp_path):
    url = f"sqlite:///{tmp_path}/history.db"
    history = SqlHistory(url)
    store = AlertStore(history, 's3://a"b')
    behind = alert("db.t", AlertKind.CONSUMER_BEHIND)
    store.update([behind, alert("db.u", AlertKind.CONSUMER_BEHIND)], 5_000)
    store.update([behind, alert("db.t", AlertKind.RED_TOO_LONG)], 9_000)
    metrics = Metrics()
    put_lake(metrics, history)
    text = metrics.to_text()
    here = 'branch="main",kind="{}",severity="{}",warehouse="s3://a\\"b"'
    assert f"_alerts_open{{{here.format('consumer_behind', 'warning')}}} 1\n" in text
    assert f"_alerts_open{{{here.format('red_too_long', 'critical')}}} 1\n" in text
    assert f"_alerts_open{{{here.format('failed_twice', 'warning')}}} 0\n" in text
    assert 'severity="warning",warehouse="s3://a\\"b"} 5\n' in text  # the oldest
    assert "# TYPE paimon_maintenance_alerts_open gauge" in text
    other = Metrics()
    put_lake(other, history, "/other")
    assert 's3://a\\"b' not in other.to_text()
    assert 'kind="red_too_long",severity="critical",warehouse="/other"} 0' in other.to_text()


def test_the_errors_of_predictions_are_gauges(tmp_path):
    history = SqlHistory(f"sqlite:///{tmp_path}/history.db")
    decided = [
        StoredDecision(
            at_millis=number,
            round_id=str(number),
            table="db.t",
            job="compact",
            action="run",
            reason="why",
            predicted_seconds=10.0 + off,
            past_runs=0 if off == 80 else number or None,
            status="failed" if off == 90 else "success",
            seconds=10.0,
        )
        for number, off in enumerate((1, 2, 3, 2, 2, 90, 80))
    ]
    NeedStore(history, "/lake").add(decided)
    NeedStore(history, "/other").add(decided[:1])
    metrics = Metrics()
    put_lake(metrics, history)
    text = metrics.to_text()
    name = "paimon_maintenance_predictions_error_ratio"
    assert f'{name}{{branch="main",quantile="0.5",warehouse="/lake"}} 0.2\n' in text
    assert f'{name}{{branch="main",quantile="0.9",warehouse="/lake"}} 0.26\n' in text
    assert f'{name}{{branch="main",quantile="0.5",warehouse="/other"}} 0.1\n' in text
    other = Metrics()
    put_lake(other, history, "/other")
    assert "/lake" not in other.to_text()


def test_the_command_writes_the_open_alerts(tmp_path, monkeypatch):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    file = tmp_path / "caretaker.prom"
    assert caretaker("alerts", "-w", str(tmp_path), "--metrics-file", file).code == 3
    assert 'kind="expiry_blocked"' in file.read_text()
