"""The page and its API inside Airflow's own application: logins, permissions, answers."""

from __future__ import annotations

import re
import threading
import time
from urllib.parse import quote

import pytest
from airflow_page import ODD_NAMES, environment, fill_history, make_app, token_of
from lakes import Lake

pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    found = Lake(tmp_path_factory.mktemp("lake"))
    found.primary_key("db.t", buckets=2)
    for value in ("a", "b", "c"):
        found.append({"k": [1, 2, 3, 4], "v": [value] * 4})
    return found


@pytest.fixture(scope="module")
def server(airflow_database, tmp_path_factory, lake):
    folder = tmp_path_factory.mktemp("state")
    url = f"sqlite:///{folder / 'history.db'}"
    users = "admin:admin,viewer:viewer,user:user"
    settings = {
        "CARETAKER_HISTORY_URL": url,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": users,
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of the tests, as long as the longest of the algorithms wants it",
        "AIRFLOW__API__BASE_URL": "http://testserver",
    }
    with environment(settings):
        fill_history(url, str(lake.warehouse), ["db.t"], now=int(time.time() * 1000))
        yield make_app()


@pytest.fixture
def ask(server, lake):
    """Asks as a user, or as nobody."""
    from fastapi.testclient import TestClient

    client = TestClient(server, follow_redirects=False)

    def send(path, user=None, method="GET", **params):
        cookie = params.pop("cookie", True)
        if params.pop("in_lake", False):
            params["warehouse"] = str(lake.warehouse)
        client.cookies.clear()
        headers = {}
        if user is not None and cookie:
            client.cookies.set("_token", token_of(user))
        elif user is not None:
            headers["Authorization"] = f"Bearer {token_of(user)}"
        body = params.pop("json", None)
        return client.request(method, path, params=params or None, headers=headers, json=body)

    return send


def all_paths():
    from paimon_airflow.page.app import page_app
    from paimon_airflow.page.files import page_files

    paths = {route.path for route in page_app().routes}
    paths |= {f"/static/{name}" for name in page_files()}
    paths |= {"/nothing", "/static/..%2f..%2fapp.py", "/api/", "/docs", "/openapi.json"}
    return sorted(paths - {"/{path:path}", "/static/{name}"})


def test_anonymous_gets_nothing_from_any_route(ask):
    paths = all_paths()
    assert {"/", "/api/lake", "/api/table/plan", "/api/openapi.json", "/static/dom.js"} <= set(
        paths
    )
    for path in paths:
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"):
            answer = ask(f"/caretaker{path}", method=method)
            if answer.status_code == 307:  # to the same path with a slash
                assert answer.headers["location"].endswith("/caretaker/")
                continue
            assert answer.status_code in (401, 405), (method, path, answer.text)
            assert answer.text in (
                "",
                '{"detail":"Not authenticated"}',
                '{"detail":"Method Not Allowed"}',
            )


def test_a_forged_login_gets_nothing(server):
    from fastapi.testclient import TestClient

    client = TestClient(server)
    for value in ("x", "a.b.c", token_of("admin") + "x"):
        client.cookies.set("_token", value)
        assert client.get("/caretaker/api/lake").status_code in (401, 403)
        client.cookies.clear()
        headers = {"Authorization": f"Bearer {value}"}
        assert client.get("/caretaker/api/lake", headers=headers).status_code in (401, 403)


def test_who_may_not_see_the_dag_sees_nothing(ask, monkeypatch):
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    asked = []

    def refuse(self, **what):
        asked.append((what["method"], what["access_entity"].name, what["details"].id))
        return False

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", refuse)
    for path in all_paths():
        answer = ask(f"/caretaker{path}", user="viewer")
        assert answer.status_code in (307, 403), path
    assert set(asked) == {("GET", "RUN", "caretaker_maintain")}


def test_a_viewer_sees_and_cannot_trigger(ask):
    for cookie in (True, False):
        found = ask("/caretaker/api/lake", user="viewer", cookie=cookie).json()
        assert {row["table"] for row in found["tables"]} == {"db.t", *ODD_NAMES}
    session = ask("/caretaker/api/session", user="viewer").json()
    assert session["user"] == "viewer"
    assert not any(job["may_trigger"] for job in session["jobs"])
    assert all(j["may_trigger"] for j in ask("/caretaker/api/session", user="user").json()["jobs"])
    # The page triggers through Airflow's own API, which checks again.
    run = {"logical_date": None, "conf": {}}
    path = "/api/v2/dags/no_such_dag/dagRuns"
    assert ask(path, user="viewer", method="POST", json=run).status_code == 403
    assert ask(path, user="user", method="POST", json=run).status_code == 404


def test_metrics_are_text_for_prometheus(ask, lake):
    answer = ask("/caretaker/api/metrics", user="viewer")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    place = f'branch="main",color="red",warehouse="{lake.warehouse}"'
    assert f"paimon_maintenance_tables{{{place}}} {len(ODD_NAMES)}\n" in answer.text
    assert 'kind="failed_twice",severity="warning"' in answer.text


def test_every_route_of_the_api_only_reads_and_is_described(ask):
    described = ask("/caretaker/api/openapi.json", user="viewer").json()
    assert len(described["paths"]) == 10
    for path, methods in described["paths"].items():
        assert list(methods) == ["get"], path
        content = methods["get"]["responses"]["200"]["content"]
        if path == "/api/metrics":
            assert set(content) == {"text/plain"}
        else:
            assert "$ref" in content["application/json"]["schema"], path
        assert methods["get"]["summary"]
        assert methods["get"]["description"]


def test_browsers_are_told_to_load_nothing_from_elsewhere(ask):
    for path in ("/caretaker/", "/caretaker/static/dom.js", "/caretaker/api/lake", "/caretaker/no"):
        headers = ask(path, user="viewer").headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
    first = ask("/caretaker/static/style.css", user="viewer")
    assert first.headers["content-type"].startswith("text/css")
    assert ask("/caretaker/static/..%2fapp.py", user="viewer").status_code == 404
    assert ask("/caretaker/static/app.py", user="viewer").status_code == 404


def test_the_files_of_the_page_name_no_other_server_and_build_no_markup():
    from paimon_airflow.page.files import page_files

    for name, file in page_files().items():
        text = file.content.decode()
        addresses = set(re.findall(r"https?://[^\s\"'`<>)]+", text)) - {
            "http://www.w3.org/2000/svg"
        }
        assert addresses == set(), name
        if name.endswith(".js"):
            for way in (
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "DOMParser",
            ):
                assert way not in text, (name, way)
        if name.endswith(".html"):
            assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", text), name


def test_one_table_from_the_history_and_from_the_lake(ask):
    table = {"table": "db.t", "in_lake": True}
    found = ask("/caretaker/api/table", user="viewer", **table).json()
    assert found["row"]["files"] == 6
    assert found["runs"][0]["status"] == "success"
    files = ask("/caretaker/api/table/files", user="viewer", **table).json()
    assert [(b["bucket"], b["files"], b["runs"]) for b in files["buckets"]] == [
        (0, 3, 3),
        (1, 3, 3),
    ]
    assert {box["level"] for box in files["buckets"][0]["boxes"]} == {0}
    line = ask("/caretaker/api/table/snapshots", user="viewer", **table).json()
    assert [s["id"] for s in line["snapshots"]] == [1, 2, 3]
    schemas = ask("/caretaker/api/table/schemas", user="viewer", **table).json()
    assert [c["name"] for c in schemas["columns"]] == ["k", "v"]
    plan = ask("/caretaker/api/table/plan", user="viewer", job="compact", full=True, **table).json()
    assert not plan["empty"]
    assert plan["effect"]["rewritten_files"] == 6
    assert ask("/caretaker/api/table/snapshots", user="viewer", **table).json()["latest"] == 3


def test_only_tables_that_the_history_knows_can_be_read(ask, lake):
    for warehouse, table in (
        (str(lake.warehouse), "db.other"),
        (str(lake.warehouse.parent), "lake.t"),
        ("/etc", "db.t"),
        (str(lake.warehouse), "../../etc"),
    ):
        for route in ("table", "table/files", "table/snapshots", "table/schemas"):
            answer = ask(f"/caretaker/api/{route}", user="admin", warehouse=warehouse, table=table)
            assert answer.status_code == 404, (route, table)
            assert answer.json()["type"] == "NotFound"
    # A name that the history has, and the lake has not.
    for name in ODD_NAMES:
        assert (
            ask("/caretaker/api/table", user="admin", table=name, in_lake=True).status_code == 200
        )
        answer = ask("/caretaker/api/table/files", user="admin", table=name, in_lake=True)
        assert answer.status_code in (400, 404), answer.text
        assert answer.headers["content-type"] == "application/json"


def test_only_few_requests_read_the_lake_at_once(ask, monkeypatch):
    from paimon_airflow.page import reading

    monkeypatch.setattr(reading, "_reading", threading.BoundedSemaphore(1))
    monkeypatch.setattr(reading, "_WAIT_SECONDS", 0.01)
    table = {"table": "db.t", "in_lake": True}
    with reading._one_of_few():
        answer = ask("/caretaker/api/table/files", user="viewer", **table)
        assert (answer.status_code, answer.json()["type"]) == (503, "TooBusy")
        assert ask("/caretaker/api/table", user="viewer", **table).status_code == 200
    assert ask("/caretaker/api/table/files", user="viewer", **table).status_code == 200


def test_only_some_requests_wait_for_a_lake_that_does_not_answer(ask, monkeypatch):
    """Whoever waits holds a thread of the server, and all of Airflow's API shares them."""
    from paimon_airflow.page import reading

    monkeypatch.setattr(reading, "_reading", threading.BoundedSemaphore(1))
    monkeypatch.setattr(reading, "_waiting", threading.BoundedSemaphore(1))
    monkeypatch.setattr(reading, "_WAIT_SECONDS", 30.0)
    with reading._one_of_few():
        first = threading.Thread(target=reading._wait)
        first.start()
        while reading._waiting._value:
            time.sleep(0.01)
        begin = time.monotonic()
        answer = ask("/caretaker/api/table/files", user="viewer", table="db.t", in_lake=True)
        assert (answer.status_code, answer.json()["type"]) == (503, "TooBusy")
        assert time.monotonic() - begin < 10
    first.join()
    reading._reading.release()


def test_wrong_parameters_are_refused(ask):
    for path in (
        "lake?sort=bytes;drop",
        "lake?limit=100000",
        f"lake?offset={10**30}",
        "lake?color=pink",
        "table",
        "runs?days=0",
        f"table/plan?warehouse=x&table={quote(ODD_NAMES[0])}&job=rollback",
    ):
        assert ask(f"/caretaker/api/{path}", user="admin").status_code == 422, path


def test_an_error_says_its_next_step_once(ask):
    answer = ask("/caretaker/api/table", user="viewer", table="db.no", in_lake=True).json()
    assert answer["detail"] == "no table db.no was measured in this warehouse and branch"
    assert answer["next_step"].startswith("run `caretaker schedule`")


def test_a_parameter_with_a_nul_is_refused(ask):
    answer = ask("/caretaker/api/lake?search=a%00", user="viewer")
    assert (answer.status_code, answer.json()["type"]) == (400, "InvalidArgument")


def test_without_a_warehouse_the_branch_counts(ask, lake):
    found = ask("/caretaker/api/lake?branch=main", user="viewer").json()
    assert (found["warehouse"], found["branch"]) == (str(lake.warehouse), "main")
    found = ask("/caretaker/api/lake?branch=no", user="viewer").json()
    assert (found["warehouse"], found["branch"], found["tables"]) == (None, "no", [])
    assert found["places"]


def test_a_history_that_is_gone_is_said(ask, monkeypatch, tmp_path):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", "none")
    answer = ask("/caretaker/api/lake", user="viewer")
    assert answer.status_code == 503
    assert "CARETAKER_HISTORY_URL" in answer.json()["next_step"]
    (tmp_path / "file").touch()
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/file/history.db")
    assert ask("/caretaker/api/runs", user="viewer").status_code == 503


def test_an_empty_history_has_an_empty_lake(ask, monkeypatch, tmp_path):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path / 'empty.db'}")
    assert ask("/caretaker/api/lake", user="viewer").json()["places"] == []
    assert ask("/caretaker/api/runs", user="viewer").json()["total"]["runs"] == 0


def test_airflow_shows_the_page_in_its_navigation(ask):
    plugins = ask("/api/v2/plugins", user="admin").json()["plugins"]
    ours = next(p for p in plugins if p["name"] == "caretaker")
    view = ours["external_views"][0]
    assert (view["href"], view["destination"], view["url_route"]) == (
        "/caretaker/",
        "nav",
        "caretaker",
    )
    assert ours["fastapi_apps"][0]["url_prefix"] == "/caretaker"
