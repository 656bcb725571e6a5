"""Takes the pictures in docs/images from a running `./caretaker demo`, with a headless Chromium.

    ./caretaker python tools/take_pictures.py --url http://HOST:8080 --password P --part sick
    ./caretaker python tools/take_pictures.py --url http://HOST:8080 --password P --part waiting
    ./caretaker python tools/take_pictures.py --url http://HOST:8080 --password P --part healed

`sick`: after the demo measured the lake, before the scheduler ran.  `waiting`: when the demo says
what waits for you; approves it.  `healed`: when all tables are green.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from chromium import Chromium, Page  # noqa: E402 - of the tests

IMAGES = ROOT / "docs" / "images"
FRAME = "document.querySelector('iframe').contentDocument"
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Airflow:
    """The demo's Airflow: its API, and its pages in a browser."""

    def __init__(self, url: str, password: str, browser: Chromium) -> None:
        self.url = url
        self.browser = browser
        login = {"username": "admin", "password": password}
        self.token = ""
        self.token = self.ask("/auth/token", login)["access_token"]

    def ask(self, path: str, body: object = None) -> Any:
        """The answer of the API."""
        request = urllib.request.Request(
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"},
        )
        with _direct.open(request, timeout=60) as answer:
            return json.load(answer)

    def page(self, path: str, width: int, height: int, *, dark: bool = False) -> Page:
        """A page, after Airflow drew it."""
        page = self.browser.page(width=width, height=height, dark=dark)
        page.cookie(self.url, "_token", self.token)
        page.open(self.url + path)
        return page

    def own(
        self, path: str, wait: str, width: int, height: int, *, dark: bool = False, **query: str
    ) -> Page:
        """A page of the plugin in Airflow's shell, after everything on it was loaded."""
        text = f"?{urlencode(query)}" if query else ""
        page = self.page(f"/plugin/caretaker/caretaker/{path}{text}", width, height, dark=dark)
        page.until(
            f"document.querySelector('iframe') && {FRAME} && {FRAME}.querySelector('{wait}') && !{FRAME}.querySelector('.loading')",
            60,
        )
        time.sleep(0.8)
        return page

    def newest_run(self, job: str) -> str:
        """The path of the newest run of the job's DAG."""
        dag = f"caretaker_{job}"
        found = self.ask(f"/api/v2/dags/{dag}/dagRuns?order_by=-run_after&limit=1")["dag_runs"]
        return f"/dags/{dag}/runs/{quote(found[0]['dag_run_id'], safe='')}"

    def report_task(self, job: str) -> str:
        """The path of the report of the newest run."""
        run = self.newest_run(job)
        tasks = self.ask(f"/api/v2{run.replace('/runs/', '/dagRuns/')}/taskInstances")
        task = next(
            t["task_id"] for t in tasks["task_instances"] if t["task_id"].endswith("report")
        )
        return f"{run}/tasks/{task}/rendered_templates"


def take(page: Page, name: str, seconds: float = 0.0) -> None:
    """Save the picture."""
    time.sleep(seconds)
    page.picture(IMAGES / f"{name}.png")
    print(name, page.problems or "")


def sick(airflow: Airflow, lake: str) -> None:
    """Pictures of the lake before anything maintains it."""
    take(airflow.own("", "td.name", 1400, 640), "page-sick")
    table = {"warehouse": lake, "table": "shop.payment"}
    take(airflow.own("table", ".bucket", 1400, 980, **table), "page-table")
    table = {"warehouse": lake, "table": "shop.transfer"}
    page = airflow.own("table", ".timeline", 1400, 460, **table)
    card = f"{FRAME}.querySelector('.timeline').closest('.card')"
    page.js(f"{FRAME}.documentElement.scrollTop = {card}.offsetTop - 58")
    take(page, "page-snapshots", 0.3)
    page = airflow.own("table", ".actions button", 1400, 900, dark=True, **table)
    page.js(f"[...{FRAME}.querySelectorAll('.actions button')][0].click()")
    page.until(f"{FRAME}.querySelector('form.job')")
    take(page, "page-form", 0.5)


def waiting(airflow: Airflow, lake: str) -> None:
    """The rescale that waits for a person; then the click on Approve."""
    del lake
    page = airflow.page(
        f"{airflow.newest_run('rescale')}/tasks/approve/required_actions", 1300, 760
    )
    button = "[...document.querySelectorAll('button')].find(b => b.innerText.trim() === 'Approve')"
    page.until(button, 60)
    take(page, "airflow-approval", 2)
    page.js(f"{button}.click()")
    time.sleep(3)


def healed(airflow: Airflow, lake: str) -> None:
    """Pictures of the lake after the scheduler and people, and of Airflow's own pages."""
    take(airflow.own("", "td.name", 1400, 640), "page")
    take(airflow.own("", "td.name", 1400, 640, dark=True), "page-dark")
    take(airflow.own("runs", ".works", 1400, 900), "page-runs")
    page = airflow.page("/caretaker/", 390, 800)
    page.until("document.querySelector('td.name') && document.querySelector('.tile')")
    take(page, "page-phone", 0.5)
    page = airflow.page("/dags?limit=50", 1300, 1000)
    page.until("document.body.innerText.includes('Caretaker: compact')", 60)
    page.js("document.querySelector('button[aria-label=\"Show table view\"]').click()")
    take(page, "airflow-dags", 3)
    for job, name in (("compact", "airflow"), ("expire_snapshots", "airflow-expiry")):
        page = airflow.page(airflow.report_task(job), 1440, 640)
        page.until(
            "document.body.innerText.includes('rows') || document.body.innerText.includes('snapshots')",
            60,
        )
        take(page, name, 4)
    for job, name in (("compact", "airflow-form"), ("rollback", "airflow-form-by-hand")):
        page = airflow.page(f"/dags/caretaker_{job}", 1300, 1160)
        page.until(
            "[...document.querySelectorAll('button')].find(b => b.innerText.includes('Trigger'))",
            60,
        )
        page.js(
            "[...document.querySelectorAll('button')].find(b => b.innerText.includes('Trigger')).click()"
        )
        page.until("document.body.innerText.includes('Path or URL of the warehouse')", 60)
        take(page, name, 3)
    del lake


def main() -> None:
    """Take the pictures of one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--password", required=True)
    parser.add_argument("--part", choices=("sick", "waiting", "healed"), required=True)
    args = parser.parse_args()
    with Chromium() as browser:
        airflow = Airflow(args.url, args.password, browser)
        lake = airflow.ask("/caretaker/api/lake")["warehouse"]
        {"sick": sick, "waiting": waiting, "healed": healed}[args.part](airflow, lake)


if __name__ == "__main__":
    main()
