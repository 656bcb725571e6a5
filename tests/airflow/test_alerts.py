"""Alerts are delivered through Airflow's notifiers to real servers: a webhook and SMTP."""

from __future__ import annotations

import email
import json
import socketserver
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest
from airflow.sdk import DAG
from airflow.sdk.bases.notifier import BaseNotifier

from paimon_airflow.alerts import notifiers
from paimon_airflow.alerts.notifiers import WebhookNotifier, notifier_of
from paimon_airflow.alerts.operator import SendAlerts
from paimon_dags.alert_dag import alert_dags
from paimon_dags.settings import settings_from
from paimon_maintenance.history.entry import Entry
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.policy.needs import AlertTarget

pytestmark = pytest.mark.airflow
NOW = 1_780_000_000_000
FAILED = Entry(
    at_millis=NOW,
    event="run",
    job="compact",
    table="db.t",
    warehouse="/lake",
    status="failed",
    run_id="r",
    error_type="OSError",
    error="<script>{{ 7 * 7 }}",
    next_step="make room",
)


class Own(BaseNotifier):
    """A notifier of a deployment's own, found by its import path."""

    template_fields = ("words",)
    got: ClassVar[list[str]] = []

    def __init__(self, *, words: str, context: Any = None) -> None:
        super().__init__(context)
        self.words = words

    def notify(self, context: Any) -> None:
        Own.got.append(self.words)


class Posts(BaseHTTPRequestHandler):
    """Keeps what is posted; answers 500 as often as asked."""

    got: ClassVar[list[tuple[dict[str, Any], str | None]]] = []
    failures = 0

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        failing = Posts.failures > 0
        Posts.failures -= failing
        if not failing:
            Posts.got.append((body, self.headers["Authorization"]))
        self.send_response(500 if failing else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Smtp(socketserver.StreamRequestHandler):
    """The part of SMTP that a client needs to leave a message."""

    got: ClassVar[list[str]] = []

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            word = line[:4].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = []
                while (part := self.rfile.readline()) != b".\r\n":
                    lines.append(part.decode())
                Smtp.got.append("".join(lines))
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 fine\r\n")
            if word == b"QUIT":
                return


@pytest.fixture
def servers(monkeypatch):
    Posts.got, Posts.failures, Smtp.got, Own.got = [], 0, [], []
    found = [HTTPServer(("127.0.0.1", 0), Posts), socketserver.TCPServer(("127.0.0.1", 0), Smtp)]
    for server in found:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    web, smtp = (s.server_address[1] for s in found)
    smtp_extra = {"disable_ssl": True, "disable_tls": True, "from_email": "care@example.com"}
    connections = {
        "HOOK": {
            "conn_type": "http",
            "host": f"http://127.0.0.1:{web}",
            "password": "secret",
            "extra": {"endpoint": "/in"},
        },
        "SMTP_DEFAULT": {
            "conn_type": "smtp",
            "host": "127.0.0.1",
            "port": smtp,
            "extra": smtp_extra,
        },
    }
    for name, value in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(value))
    yield
    for server in found:
        server.shutdown()
        server.server_close()


POLICY = """
version: 1
alert_targets:
  hook: { notifier: webhook, arguments: { connection: hook } }
  mail: { notifier: email, arguments: { to: ops@example.com } }
  own: { notifier: %s.Own, arguments: { words: "{{ alert.table }}: {{ alert.word }}" } }
rules:
  - { tables: "db.*", owner: sales, alerts: [hook, mail, own] }
"""


@pytest.fixture
def task(tmp_path, monkeypatch) -> SendAlerts:
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY % __name__)
    with DAG("alerts_test", schedule=None):
        return SendAlerts(task_id="alerts", warehouse="/lake", policy=str(policy))


def test_every_target_gets_the_alert_once_and_the_all_clear(
    airflow_database, servers, task, tmp_path, monkeypatch
):
    from paimon_core import environment

    clock = [NOW + 1]
    real = environment.system_environment
    monkeypatch.setattr(
        environment,
        "system_environment",
        lambda *a, **k: replace(real(*a, **k), now_millis=lambda: clock[0]),
    )
    history = SqlHistory(f"sqlite:///{tmp_path}/history.db")
    history.add([FAILED, FAILED])
    context: Any = {"dag": task.dag, "task": task}
    Posts.failures = 1
    with pytest.raises(Exception, match="hook: OSError: the webhook answered 500") as failed:
        task.execute(context)
    assert "secret" not in str(failed.value)
    assert [len(Smtp.got), Own.got] == [1, ["db.t: open"]], "the others got it"
    assert task.execute(context) == {"open": ["db.t: compact failed 2 times in a row"], "sent": 1}
    assert task.execute(context)["sent"] == 0
    ((alert, authorization),) = Posts.got
    assert authorization == "Bearer secret"
    assert (alert["word"], alert["table"], alert["owner"]) == ("open", "db.t", "sales")
    assert (alert["text"], alert["next_step"]) == ("OSError: <script>{{ 7 * 7 }}", "make room")
    mail = email.message_from_string(Smtp.got[0])
    assert mail["Subject"] == "[caretaker] open: db.t: compact failed 2 times in a row"
    assert mail["From"] == "care@example.com"
    body = next(part for part in mail.walk() if part.get_content_type() == "text/html")
    # Texts of errors are neither templates nor HTML.
    text = body.get_payload(decode=True).decode()
    assert "<p>OSError: &lt;script&gt;{{ 7 * 7 }}</p>" in text
    assert "<p>Next step: make room</p>" in text
    history.add([replace(FAILED, status="success", at_millis=clock[0])])
    clock[0] += 60_000
    assert task.execute(context) == {"open": [], "sent": 0}
    clock[0] += 11 * 60_000
    assert task.execute(context) == {"open": [], "sent": 3}
    assert Posts.got[-1][0]["word"] == "all clear"
    assert Own.got == ["db.t: open", "db.t: all clear"]


def test_a_target_that_does_not_answer_is_asked_once(airflow_database, servers, task, tmp_path):
    """In an outage of a target, its timeouts must not keep the alerts from the others."""
    asked: list[None] = []

    class Silent(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            asked.append(None)  # and hangs up

    with socketserver.TCPServer(("127.0.0.1", 0), Silent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        hook = "hook: { notifier: webhook, arguments: { connection: hook } }"
        silent = f"hook: {{ notifier: webhook, arguments: {{ url: '{url}' }} }}"
        text = (tmp_path / "policy.yaml").read_text()
        assert hook in text
        (tmp_path / "policy.yaml").write_text(text.replace(hook, silent))
        history = SqlHistory(f"sqlite:///{tmp_path}/history.db")
        tables = ("db.a", "db.b", "db.c")
        failed = replace(FAILED, at_millis=int(time.time() * 1000))
        history.add([replace(failed, table=table) for table in tables for _ in range(2)])
        with pytest.raises(Exception, match="2 more to hook, which does not answer"):
            task.execute({"dag": task.dag, "task": task})
        server.shutdown()
    assert len(asked) == 1
    assert len(Smtp.got) == 3
    (tmp_path / "policy.yaml").write_text(text)
    assert task.execute({"dag": task.dag, "task": task})["sent"] == 3
    assert {alert["table"] for alert, _ in Posts.got} == set(tables)


def test_a_notifier_that_hangs_keeps_neither_the_task_nor_the_other_targets(
    airflow_database, servers, task, tmp_path, monkeypatch
):
    hanging = threading.Event()
    asked: list[None] = []

    def hang(*_: Any) -> None:
        asked.append(None)
        hanging.wait(20)

    monkeypatch.setattr(notifiers, "_MOST_SECONDS", 0.2)
    monkeypatch.setattr(WebhookNotifier, "notify", hang)
    failed = replace(FAILED, at_millis=int(time.time() * 1000))
    tables = ("db.a", "db.b", "db.c")
    SqlHistory(f"sqlite:///{tmp_path}/history.db").add(
        [replace(failed, table=table) for table in tables for _ in range(2)]
    )
    begin = time.monotonic()
    with pytest.raises(Exception, match="hook: TimeoutError: the notifier has not ended after"):
        task.execute({"dag": task.dag, "task": task})
    assert time.monotonic() - begin < 15
    hanging.set()
    assert (len(asked), len(Smtp.got), len(Own.got)) == (1, 3, 3)


def test_a_webhook_that_redirects_gets_no_alert_and_its_token_goes_nowhere(servers, monkeypatch):
    asked: list[str | None] = []

    class Elsewhere(Posts):
        def do_GET(self) -> None:
            asked.append(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()

    class Redirects(Posts):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{elsewhere.server_port}/login")
            self.end_headers()

    with (
        HTTPServer(("127.0.0.1", 0), Elsewhere) as elsewhere,
        HTTPServer(("127.0.0.1", 0), Redirects) as moved,
    ):
        for server in (elsewhere, moved):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{moved.server_port}"
        hook = {"conn_type": "http", "host": url, "password": "secret"}
        monkeypatch.setenv("AIRFLOW_CONN_HOOK", json.dumps(hook))
        with pytest.raises(OSError, match="the webhook answered 302"):
            WebhookNotifier(connection="hook").notify({"alert": {"word": "open"}})
        for server in (elsewhere, moved):
            server.shutdown()
    assert asked == []


def test_wrong_targets_are_named():
    with pytest.raises(ValueError, match=r"there is no notifier a\.b"):
        notifier_of(AlertTarget(notifier="a.b"))
    with pytest.raises(TypeError, match="is not a notifier"):
        notifier_of(AlertTarget(notifier="json.JSONDecoder"))
    with pytest.raises(TypeError):
        notifier_of(AlertTarget(notifier="webhook", arguments={"uri": "x"}))
    with pytest.raises(ValueError, match="either `url` or `connection`"):
        WebhookNotifier()
    with pytest.raises(ValueError, match="must begin with"):
        WebhookNotifier(url="file:///etc/passwd").notify({})


def test_the_dag_exists_with_its_settings():
    assert list(alert_dags(settings_from({}, environ={}))) == []
    (dag,) = alert_dags(settings_from({"alerts": {}, "caretaker": {"warehouse": "/w"}}, environ={}))
    assert (dag.dag_id, dag.schedule) == ("caretaker_alerts", "*/5 * * * *")
