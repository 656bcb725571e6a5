"""Every job is a folder of one shape: a light `definition`, and modules that only `steps_of` reaches.

docs/extending.md describes the shape.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import paimon_maintenance.jobs
from paimon_maintenance.job.job import Job, Steps
from paimon_maintenance.registry import JOBS, MAINTAIN

ROOT = Path(__file__).resolve().parents[4]
PACKAGE = "paimon_maintenance.jobs"
FOLDER = Path(paimon_maintenance.jobs.__path__[0])
NAMES = sorted(name for _, name, _ in pkgutil.iter_modules([str(FOLDER)]))
LIGHT_CORE = {"errors", "names", "options"}
"""The modules of `paimon_core` that a definition may bring in: plain Python."""
STEP_NAMES = f"{PACKAGE}.maintain.step_names"
"""The names of `maintain`'s steps, which the policy needs as well; as light as a definition."""


def definition(name: str) -> str:
    return f"{PACKAGE}.{name}.definition"


def jobs_in(name: str) -> dict[str, Job]:
    """The Job objects of a folder's definition, by job name."""
    found = vars(importlib.import_module(definition(name))).values()
    return {value.name: value for value in found if isinstance(value, Job)}


def imports_of(file: Path) -> Iterator[str]:
    """The modules that the file imports, wherever in it, but for the type checker alone."""
    for node in ast.walk(_without_type_checking(ast.parse(file.read_text("utf-8")))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _without_type_checking(tree: ast.Module) -> ast.Module:
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    return tree


def place_of(job: Job) -> tuple[str, str]:
    """Module and name that `steps_of` was given."""
    module, name = job.load.args  # type: ignore[attr-defined]
    return module, name


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_has_a_definition_with_jobs(name):
    assert (FOLDER / name / "definition.py").is_file()
    assert jobs_in(name) or name == "maintain"


def test_every_job_of_the_registry_comes_from_the_definition_of_a_folder():
    found = {job: value for name in NAMES for job, value in jobs_in(name).items()}
    # `maintain` is made of the other jobs, so the registry calls its definition.
    assert dict(JOBS) == {**found, MAINTAIN.name: MAINTAIN}
    assert MAINTAIN.load.func.__module__ == definition("maintain")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "maintain"])
def test_steps_are_named_by_a_text_and_are_in_the_same_folder(name):
    for job in jobs_in(name).values():
        module, attribute = place_of(job)
        assert module.startswith(f"{PACKAGE}.{name}.")
        steps = vars(importlib.import_module(module))[attribute]
        assert isinstance(steps, Steps)
        assert job.load() is steps


def test_definitions_import_nothing_heavy():
    script = (
        "import importlib, json, sys\n"
        f"for name in {NAMES!r}:\n"
        f"    importlib.import_module(f'{PACKAGE}.{{name}}.definition')\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("", "maintenance"))
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = json.loads(ran.stdout)
    tops = {module.split(".")[0] for module in loaded}
    assert not tops & {"pyarrow", "numpy", "fsspec", "pyspark", "airflow", "sqlalchemy", "yaml"}
    core = {module for module in loaded if module.startswith("paimon_core.")}
    assert core <= {f"paimon_core.{module}" for module in LIGHT_CORE}
    own = {module for module in loaded if module.startswith(f"{PACKAGE}.")}
    assert own == {f"{PACKAGE}.{name}" for name in NAMES} | {*map(definition, NAMES), STEP_NAMES}


def test_only_definitions_are_imported_from_outside_a_folder():
    allowed = {*map(definition, NAMES), STEP_NAMES}
    modules = {
        f"{PACKAGE}.{'.'.join(file.relative_to(FOLDER).with_suffix('').parts)}"
        for file in FOLDER.rglob("*.py")
        if file.name != "__init__.py"
    }
    reached = {
        (file.relative_to(ROOT), module)
        for top in ("paimon_core", "maintenance", "plugins", "dags")
        for file in (ROOT / top).rglob("*.py")
        for module in imports_of(file)
        if module in modules - allowed and module.split(".")[2] not in file.parts
    }
    assert reached == set()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "maintain"])
def test_a_definition_does_not_import_its_own_steps(name):
    found = set(imports_of(FOLDER / name / "definition.py"))
    assert [module for module in found if module.startswith(f"{PACKAGE}.")] == []
