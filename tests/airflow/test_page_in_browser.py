"""The page in a real browser, on Airflow's own application; skipped where there is no Chromium."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlencode

import pytest
from airflow_page import ODD_NAMES, environment, fill_history, make_app, token_of
from chromium import Chromium, find_chromium
from lakes import Lake

from paimon_maintenance.registry import job_named

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine"),
]
ROOT = Path(__file__).resolve().parents[2]
FRAME = "document.querySelector('iframe').contentDocument"


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    found = Lake(tmp_path_factory.mktemp("lake"))
    found.primary_key("db.t", buckets=2)
    for value in ("a", "b", "c"):
        found.append({"k": [1, 2, 3, 4], "v": [value] * 4})
    found.table("db.t").consumers.set("<b onload=hacked()>", 2)
    return found


@pytest.fixture(scope="module")
def address(airflow_database, tmp_path_factory, lake):
    """Where Airflow's API server answers, with the DAGs of Caretaker in its database."""
    import uvicorn

    folder = tmp_path_factory.mktemp("state")
    url = f"sqlite:///{folder / 'history.db'}"
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    settings = {
        "CARETAKER_HISTORY_URL": url,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer,user:user",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of the tests, as long as the longest of the algorithms wants it",
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
    }
    with environment(settings):
        fill_history(url, str(lake.warehouse), ["db.t"], now=int(time.time() * 1000))
        _store_dags()
        config = uvicorn.Config(make_app(), log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join(20)


def _store_dags():
    """What the DAG processor does: the compaction DAG in Airflow's database."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    folder = Path(os.environ["AIRFLOW_HOME"]) / "page-dags"
    folder.mkdir(exist_ok=True)
    text = "from paimon_dags.job_dags import job_dag\nfrom paimon_dags.pages import COMPACT\nfrom paimon_dags.settings import Settings\n\n# airflow dag\ndag = job_dag(COMPACT, Settings())\n"
    (folder / "compact.py").write_text(text)
    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(folder, bundle_path=folder, bundle_name="dags-folder")
    assert bag.import_errors == {}
    sync_bag_to_db(bag, "dags-folder", None)


@pytest.fixture(scope="module")
def browser():
    with Chromium() as found:
        yield found


@pytest.fixture
def visit(browser, address, lake):
    """Opens a page of the plugin as this user; every page asks this server only and has no error."""
    pages = []

    def open_page(path="", user="admin", *, shell=False, until="td.name", **how):
        query = how.pop("query", {})
        page = browser.page(**how)
        pages.append(page)
        if user is not None:
            page.cookie(address, "_token", token_of(user))
        page.open(
            f"{address}{'/plugin/caretaker' if shell else ''}/caretaker/{path}"
            + (f"?{urlencode(query)}" if query else "")
        )
        place = FRAME if shell else "document"
        page.until(
            f"{place} && {place}.querySelector('{until}') && !{place}.querySelector('.loading')", 60
        )
        return page

    yield open_page
    for page in pages:
        own = (f"{address}/", "about:", "data:", "blob:")
        assert [r for r in page.requests if not r.startswith(own)] == []
        assert page.js("window.hacked") is None
        page.close()


def texts(page, selector):
    return page.js(
        f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)"
    )


def test_odd_names_are_text_and_nothing_else(visit, lake):
    page = visit()
    assert set(texts(page, "td.name")) == {"db.t", *ODD_NAMES}
    assert page.js("document.querySelectorAll('main img, main script, main iframe').length") == 0
    assert page.problems == []
    for name in ODD_NAMES:
        # The link leads to the page of the same name, whatever it holds.
        link = page.js(
            f"[...document.querySelectorAll('td.name a')].find(a => a.textContent === {json.dumps(name)}).href"
        )
        table = visit(until=".reasons", path="table?" + link.partition("?")[2])
        assert texts(table, "h1") == [name]
        assert f"{name} has" in texts(table, ".reasons p")[0]
        assert (
            table.js(
                "document.querySelectorAll('main img, main script, main iframe, main i b').length"
            )
            == 0
        )
    runs = visit(path="runs", until=".failures li")
    shown = texts(runs, ".failures")[0]
    assert all(f"look at {name}" in shown for name in ODD_NAMES[::2])
    assert "<i>GuardTripped</i>" in shown


def test_keys_find_sort_and_open_tables(visit):
    page = visit()
    page.key("/")
    assert page.js("document.activeElement.type") == "search"
    page.write("script")
    page.until(
        "document.querySelectorAll('td.name').length === 2"
    )  # the owner of one, the name of both
    page.key("Escape")
    page.key("j")
    first = page.js("document.activeElement.textContent")
    page.key("j")
    assert page.js("document.activeElement.textContent") != first
    page.key("k")
    assert page.js("document.activeElement.textContent") == first
    page.key("Enter")
    page.until("location.pathname.endsWith('/table') && document.querySelector('h1')")
    page.key("?")
    assert "compact this table" in page.until("document.querySelector('dialog').textContent")
    page.key("Escape")
    page.until("!document.querySelector('dialog')")
    page.key("g")
    page.key("r")
    page.until("location.pathname.endsWith('/runs') && document.querySelector('.card')")
    page.key("g")
    page.key("l")
    page.until("location.pathname.endsWith('/caretaker/') && document.querySelector('td.name')")
    page.js(
        "[...document.querySelectorAll('th button')].find(b => b.textContent.startsWith('Data')).click()"
    )
    page.until("document.querySelector('th[aria-sort=descending]')")
    assert texts(page, "td.name")[0] == "db.t"
    page.key("1")
    page.until("document.querySelector('.segments .red').getAttribute('aria-pressed') === 'true'")
    assert "color=red" in page.js("location.search")


def test_the_table_shows_files_snapshots_and_a_plan(visit, lake):
    query = {"warehouse": str(lake.warehouse), "table": "db.t"}
    page = visit(path="table", query=query, until=".bucket")
    page.until("document.querySelector('.timeline') && document.querySelector('.options')")
    assert page.js("document.querySelectorAll('.box').length") == 6
    assert "keys 1 to 4" in " ".join(texts(page, ".box title")) or "keys" in " ".join(
        texts(page, ".box title")
    )
    assert "consumer <b onload=hacked()> reads from 2" in texts(page, ".timeline")[0]
    page.js("document.querySelector('select[aria-label=Job]').value = 'compact full'")
    page.key("p")
    assert "6 files" in page.until(
        "document.querySelector('.plan') && document.querySelector('.plan').textContent"
    )
    assert page.problems == []


def test_dark_mode_and_phone_width(visit, lake):
    query = {"warehouse": str(lake.warehouse), "table": "db.t"}
    color = "getComputedStyle(document.body).color"
    light = visit().js(color)
    dark = visit(dark=True).js(color)
    assert light != dark
    for path, until, params in (
        ("", "td.name", {}),
        ("table", ".bucket", query),
        ("runs", ".failures", {}),
    ):
        page = visit(path=path, until=until, query=params, width=375, height=700)
        assert page.js("document.documentElement.scrollWidth") == 375, path
    wide = visit(path="runs", until=".failures")
    assert wide.js("document.documentElement.scrollWidth") == 1280
    owners = "[...document.querySelectorAll('td.owner')].map(e => e.getBoundingClientRect().right)"
    assert max(visit().js(owners)) <= 1280


def test_the_form_of_the_dag_is_filled_in_and_sent_from_airflows_shell(visit, address, lake):
    query = {"warehouse": str(lake.warehouse), "table": "db.t"}
    page = visit(path="table", query=query, until=".actions button", shell=True)
    page.js(
        f"[...{FRAME}.querySelectorAll('.actions button')].find(b => b.textContent === 'compact').click()"
    )
    page.until(f"{FRAME}.querySelector('form.job')")
    assert page.js(f"{FRAME}.querySelector('#field-tables').value") == "db.t"
    assert page.js(f"{FRAME}.querySelector('#field-warehouse').value") == str(lake.warehouse)
    page.js(f"{FRAME}.querySelector('#field-dry_run').click()")
    page.js(f"{FRAME}.querySelector('form.job').requestSubmit()")
    link = page.until(
        f"{FRAME}.querySelector('.says a') && {FRAME}.querySelector('.says a').getAttribute('href')"
    )
    assert link.startswith("/dags/caretaker_compact/runs/")
    run = page.js(
        f"fetch('/api/v2' + {json.dumps(link.replace('/runs/', '/dagRuns/'))}).then(a => a.json())"
    )
    assert run["conf"] == {"warehouse": str(lake.warehouse), "tables": ["db.t"], "dry_run": True}
    # The frame cannot leave Airflow's shell; the shell goes to the run itself.
    page.js(f"{FRAME}.querySelector('.says a').click()")
    page.until(f"location.pathname === {json.dumps(link)}")


def test_a_wrong_value_is_said_at_its_field_and_leaves_the_dag_paused(visit, address, lake):
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    def pause(*, change: bool | None = None) -> bool:
        with create_session() as session:
            dag = session.get(DagModel, "caretaker_compact")
            if change is not None:
                dag.is_paused = change
            return dag.is_paused

    pause(change=True)
    query = {"warehouse": str(lake.warehouse), "table": "db.t"}
    page = visit(path="table", query=query, until=".actions button")
    page.key("c")
    page.until("document.querySelector('form.job')")
    page.js("document.querySelector('#field-max_rewrite').value = 'lots'")
    page.js("document.querySelector('form.job').requestSubmit()")
    (text,) = page.until(
        "document.querySelector('.wrong') && [...document.querySelectorAll('.wrong')].map(e => e.textContent)"
    )
    assert text == "'lots' is not what this field takes, see above"
    assert page.js("document.activeElement.id") == "field-max_rewrite"
    assert page.js("document.querySelector('#field-max_rewrite').closest('details').open")
    assert pause(), "a run that was refused must not start the schedule"
    page.js("document.querySelector('#field-max_rewrite').value = ''")
    page.js("document.querySelector('form.job').requestSubmit()")
    page.until("document.querySelector('.says a') && !document.querySelector('.wrong')")
    deadline = time.monotonic() + 20
    while pause() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not pause()


def test_a_viewer_sees_the_form_and_cannot_send_it(visit, lake):
    query = {"warehouse": str(lake.warehouse), "table": "db.t"}
    page = visit(path="table", query=query, until=".actions button", user="viewer")
    page.key("c")
    page.until("document.querySelector('form.job')")
    assert page.js("document.querySelector('form.job button[type=submit]').disabled")
    assert "not trigger" in texts(page, ".buttons .note")[0]


def test_a_session_that_ended_is_said(visit):
    page = visit()
    page.call("Network.clearBrowserCookies")
    page.key("2")
    page.until("document.querySelector('.problem')")
    assert "session has ended" in texts(page, ".problem")[0]


def test_what_is_not_there_is_said_in_words_and_across_the_page(visit, lake):
    page = visit("table", query={"warehouse": str(lake.warehouse), "table": "db.no"}, until=".next")
    width = page.js("document.querySelector('.problem').getBoundingClientRect().width")
    assert width > 1000
    (text,) = texts(page, ".problem")
    assert text.count("caretaker schedule") == 1
    (text,) = texts(visit("table", until=".problem"), ".problem")
    assert text == "warehouse: Field required; table: Field required"
    (text,) = texts(visit(query={"warehouse": "/no"}, until=".empty"), ".empty")
    assert text.startswith("No table of /no was measured.")


def test_the_form_gets_the_values_of_a_partition_and_not_its_folder(visit):
    """The argument is what `caretaker run compact --partition` and the DAG's form read."""
    page = visit()
    page.js("import('/caretaker/static/format.js').then(m => { window.argument = m })")
    page.until("window.argument")
    for folder, values in (
        ("dt=2024-01-01/hr=1", {"dt": "2024-01-01", "hr": "1"}),
        ("dt=a%2Fb%25%3D%27/hr=c d", {"dt": "a/b%='", "hr": "c d"}),
        ("dt=a,b;c", {"dt": "a,b;c"}),
        ("dt=__DEFAULT_PARTITION__", {"dt": "__DEFAULT_PARTITION__"}),
    ):
        argument = page.js(f"window.argument.partitionArgument({json.dumps(folder)})")
        read = job_named("compact").read_arguments({"partitions": [argument]})
        assert read["partitions"] == (values,)
