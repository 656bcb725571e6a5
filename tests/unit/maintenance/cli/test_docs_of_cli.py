"""docs/cli.md and docs/jobs.md say what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import caretaker

from paimon_maintenance.cli.parsers.commands import build_parser
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.registry import JOBS
from paimon_maintenance.run import lake_metrics as metrics_of_lakes
from paimon_maintenance.run import metrics as metrics_of_runs
from paimon_maintenance.run.metrics import Metric
from paimon_maintenance.schedule import round as metrics_of_rounds
from paimon_maintenance.verify.findings import Problem

ROOT = Path(__file__).parents[4]
DOCS = ROOT / "docs"
TEXT = (DOCS / "cli.md").read_text(encoding="utf-8")
# A name in the code, and what the script and the tests set.
NOT_FOR_USERS = {"CARETAKER_DIR", "CARETAKER_FIND_JAVA", "CARETAKER_JAVA_PLACES"}
LISTED_JOBS = (DOCS / "jobs.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", ExitCode)
def test_exit_codes_are_documented(code):
    assert f"| {int(code)} | {code.name.lower().replace('_', ' ')} |" in TEXT


@pytest.mark.parametrize("problem", Problem)
def test_findings_are_documented(problem):
    assert f"`{problem}`" in TEXT


def test_environment_variables_are_documented():
    code = [ROOT / "caretaker", *ROOT.glob("bootstrap/*.py")]
    for top in ("paimon_core", "paimon_spark", "maintenance", "plugins", "dags"):
        code += (ROOT / top).rglob("*.py")
    read = {v for file in code for v in re.findall(r"\bCARETAKER_[A-Z_]+", file.read_text("utf-8"))}
    text = TEXT + (DOCS / "development.md").read_text("utf-8")
    assert {v for v in read if f"`{v}`" not in text} == NOT_FOR_USERS


def test_metrics_are_documented():
    metrics = {
        name
        for module in (metrics_of_runs, metrics_of_lakes, metrics_of_rounds)
        for name in (m.name for m in vars(module).values() if isinstance(m, Metric))
    }
    shown = {f"paimon_maintenance{name}" for name in re.findall(r"`(_[a-z_]+)`", TEXT)}
    assert [m for m in sorted(metrics - shown) if f"`{m}`" not in TEXT] == []


def test_commands_are_documented():
    commands = build_parser()._subparsers._group_actions[0].choices
    for name in commands:
        assert f"| `{name}" in TEXT


@pytest.mark.parametrize("name", JOBS)
def test_jobs_are_listed(name):
    assert re.search(rf"^\|.*`{name}`", LISTED_JOBS, re.MULTILINE)


def test_the_keys_of_json_are_documented(lake, tmp_path, monkeypatch):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    monkeypatch.setenv("CARETAKER_POLICY", str(tmp_path / "policy.yaml"))
    (tmp_path / "policy.yaml").write_text("version: 1\nrules: [{ tables: '*.*' }]\n")
    lake.primary_key("db.t")
    lake.fill(6)
    section = TEXT.partition("## The JSON of the other commands")[2].partition("## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", section, re.MULTILINE)
    assert len(rows) == 9
    for command, keys in rows:
        words = command.replace("TABLE", "db.t").split()
        found = caretaker(*words, "-w", lake.warehouse, "--json")
        assert set(found.json) == set(re.findall(r"`(\w+)`", keys)), command


def test_the_keys_of_inspect_are_documented(lake):
    lake.primary_key("db.t")
    lake.fill(2)
    section = TEXT.partition("\n## inspect\n")[2].partition("\n## ")[0]
    found = caretaker("inspect", "db.t", "-w", lake.warehouse, "--json").json
    assert [key for key in found if f"`{key}`" not in section] == []


@pytest.mark.parametrize("name", ["compact", "rescale", "sort_compact", "maintain"])
def test_the_sections_of_jobs_have_all_their_arguments(name):
    section = TEXT.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
    assert [a.option for a in JOBS[name].arguments if f"`{a.option}" not in section] == []
