"""The file that Airflow parses: what it costs, what Airflow makes of it."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from paimon_maintenance.registry import JOBS

pytestmark = pytest.mark.airflow

ROOT = Path(__file__).resolve().parents[2]
DAG_FILE = ROOT / "dags" / "caretaker.py"
PARSE = """\
import airflow.sdk, json, runpy, sys
before = set(sys.modules)
runpy.run_path(sys.argv[1])
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_parsing_imports_nothing_heavy():
    found = subprocess.run(
        [sys.executable, "-c", PARSE, str(DAG_FILE)],
        check=True,
        capture_output=True,
        text=True,
        env={**_environment()},
    )
    modules = json.loads(found.stdout.splitlines()[-1])
    heavy = {"pyspark", "pyarrow", "numpy", "pandas", "fsspec", "requests", "sqlalchemy"}
    assert not [m for m in modules if m.split(".")[0] in heavy]
    assert not [m for m in modules if m.startswith("airflow.providers.apache")]
    # What a job says about itself needs the names of errors and of options, which are plain Python.
    core = {m for m in modules if m.split(".")[0] == "paimon_core"}
    assert core <= {"paimon_core", "paimon_core.errors", "paimon_core.options"}


def _environment() -> dict[str, str]:
    import os

    paths = [str(ROOT), *(str(ROOT / p) for p in ("maintenance", "plugins", "dags"))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@pytest.fixture(scope="module")
def dags(airflow_database):
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(DAG_FILE))
    assert bag.import_errors == {}
    return bag.dags


def test_every_job_is_a_dag(dags):
    assert set(dags) == {f"caretaker_{job}" for job in JOBS}


def test_dags_are_serialised_and_back(dags):
    from airflow.serialization.serialized_objects import DagSerialization

    for dag in dags.values():
        written = json.loads(json.dumps(DagSerialization.to_dict(dag)))
        read = DagSerialization.from_dict(written)
        assert set(read.task_dict) == set(dag.task_dict)
        assert read.doc_md == dag.doc_md
        assert read.max_active_runs == 1
        assert read.params.dump() == dag.params.dump()


def test_dags_start_paused_and_do_not_catch_up(dags):
    for dag in dags.values():
        assert dag.is_paused_upon_creation is True
        assert dag.catchup is False


@pytest.mark.parametrize(
    "wrong",
    [
        {"strategy": "fully"},
        {"tables": []},
        {"tables": ["orders"]},
        {"tables": "sales.*"},
        {"partitions": "dt=1"},
        {"dry_run": "yes"},
        {"batch_size": "a lot"},
        {"max_rewrite": "much"},
        {"options": {"bucket": 5}},
    ],
    ids=lambda wrong: "-".join(f"{k}={v}" for k, v in wrong.items()),
)
def test_the_form_refuses_wrong_values(dags, wrong):
    from airflow.sdk.exceptions import ParamValidationError

    params = copy.deepcopy(dags["caretaker_compact"].params)
    with pytest.raises(ParamValidationError):
        params.update(wrong)


def test_the_form_takes_right_values(dags):
    params = copy.deepcopy(dags["caretaker_compact"].params)
    params.update(
        {
            "warehouse": "s3://lake",
            "tables": ["sales.*", "crm.contacts"],
            "excluding": [".*\\.tmp_.*"],
            "strategy": "full",
            "partitions": ["dt=2024-01-01,hh=10"],
            "where": "dt > '2024-01-01'",
            "partition_idle_time": "1 h",
            "options": {"target-file-size": "256 mb"},
            "dry_run": True,
            "max_rewrite": "1 tb",
        }
    )
    assert params.validate()["strategy"] == "full"


def test_airflow_parses_one_file_and_one_plugin():
    from airflow._shared.plugins_manager.plugins_manager import _load_plugins_from_plugin_directory
    from airflow.utils.file import list_py_file_paths

    assert [Path(p) for p in list_py_file_paths(DAG_FILE.parent)] == [DAG_FILE]
    plugins, errors = _load_plugins_from_plugin_directory(
        plugins_folder=str(ROOT / "plugins"), ignore_file_syntax="glob"
    )
    assert ([plugin.name for plugin in plugins], errors) == (["caretaker"], {})
