"""Caretaker as a provider of Airflow: found in a checkout, complete, and of the form that Airflow asks for."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import pkgutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

from paimon_airflow.provider import get_provider_info

pytestmark = pytest.mark.airflow

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SEEN = """\
import json, logging, sys, warnings
import paimon_airflow.provider
light = not {m.partition(".")[0] for m in sys.modules} & {"airflow", "paimon_maintenance", "pyarrow"}
warned = []
class Keep(logging.Handler):
    def emit(self, record):
        warned.append(record.getMessage())
from airflow.providers_manager import ProvidersManager
logging.getLogger().addHandler(Keep(logging.WARNING))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    manager = ProvidersManager()
    own = manager.providers["paimon-caretaker"]
    found = {
        "links": [n for n in manager.extra_links_class_names if n.startswith("paimon")],
        "notifications": [n for n in manager.notification if n.startswith("paimon")],
        "triggers": [t.trigger_class_name for t in manager.trigger if t.package_name == "paimon-caretaker"],
    }
from airflow import plugins_manager
names = [p.name for p in plugins_manager._get_plugins()[0]]
errors = plugins_manager.get_import_errors()
warned += [str(w.message) for w in caught if "paimon" in f"{w.message}{w.filename}"]
print(json.dumps({"version": own.version, "light": light, "warned": warned, "plugins": names,
    "errors": errors, "name": own.data["name"], **found}))
"""


def test_a_checkout_is_a_provider_without_warnings(tmp_path):
    paths = [ROOT, ROOT / "maintenance", ROOT / "plugins", ROOT / "dags"]
    env = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    done = subprocess.run(
        [sys.executable, "-c", SEEN],
        check=False,
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    info = get_provider_info()
    assert (seen["name"], seen["version"]) == ("Caretaker", PROJECT["version"])
    assert seen["links"] == sorted(info["extra-links"])
    assert seen["notifications"] == info["notifications"]
    assert sorted(seen["triggers"]) == info["triggers"][0]["python-modules"]
    assert seen["light"]
    assert seen["warned"] == []
    assert (seen["plugins"].count("caretaker"), seen["errors"]) == (1, {})


def test_a_checkout_says_the_same_as_an_installed_package():
    (folder,) = (ROOT / "plugins").glob("*.dist-info")
    said = Parser().parsestr((folder / "METADATA").read_text())
    assert folder.name == f"paimon_caretaker-{PROJECT['version']}.dist-info"
    for field, name in (("Name", "name"), ("Version", "version"), ("Summary", "description")):
        assert said[field] == PROJECT[name]
    own = PROJECT["entry-points"]["apache_airflow_provider"]
    (points,) = (
        (one.name, one.value)
        for one in importlib.metadata.PathDistribution(folder).entry_points
        if one.group == "apache_airflow_provider"
    )
    assert dict([points]) == own
    # Two entry points of one plugin are a warning in each process of Airflow.
    assert "airflow.plugins" not in (folder / "entry_points.txt").read_text()


def test_it_has_the_form_that_airflow_asks_for():
    import airflow
    import jsonschema

    schema = json.loads(Path(airflow.__path__[0], "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)
    # The schema lets unknown sections pass.
    assert get_provider_info().keys() <= schema["properties"].keys()


def classes() -> Iterator[type]:
    import paimon_airflow

    for found in pkgutil.walk_packages(paimon_airflow.__path__, "paimon_airflow."):
        if ".page" not in found.name:
            module = importlib.import_module(found.name)
            yield from (
                value
                for value in vars(module).values()
                if isinstance(value, type) and value.__module__ == found.name
            )


def test_every_operator_sensor_trigger_link_and_notifier_is_named():
    from airflow.sdk import BaseOperator, BaseOperatorLink, BaseSensorOperator
    from airflow.sdk.bases.notifier import BaseNotifier
    from airflow.triggers.base import BaseTrigger

    info = get_provider_info()
    own = list(classes())

    def modules(base: type) -> set[str]:
        return {one.__module__ for one in own if issubclass(one, base)}

    def named(base: type) -> set[str]:
        return {f"{one.__module__}.{one.__name__}" for one in own if issubclass(one, base)}

    sensors = modules(BaseSensorOperator)
    shared = {"paimon_airflow.tasks.job_task"}  # what the operators of jobs have in common
    assert modules(BaseOperator) - sensors - shared == set(info["operators"][0]["python-modules"])
    assert sensors == set(info["sensors"][0]["python-modules"])
    assert modules(BaseTrigger) == set(info["triggers"][0]["python-modules"])
    assert named(BaseOperatorLink) == set(info["extra-links"])
    assert named(BaseNotifier) == set(info["notifications"])
