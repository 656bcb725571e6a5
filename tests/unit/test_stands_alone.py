"""What may be imported without what: the core without Spark, Airflow or the extras."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Refuses the named packages as if they were not installed, then runs the rest.
WITHOUT = """
import importlib, sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
{program}
"""


def run_without(absent: set[str], program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(absent=absent, program=program)],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'maintenance'}:{ROOT / 'plugins'}:{ROOT / 'dags'}"},
        capture_output=True,
        text=True,
        check=False,
    )


def modules_of(package: str) -> list[str]:
    walk = pkgutil.walk_packages([str(ROOT / package)], f"{package}.", onerror=lambda _: None)
    return [package, *(module.name for module in walk)]


OF_AN_EXTRA = {"paimon_core.io.s3"}
"""Imported only to open a URL that needs the extra."""


def test_the_core_needs_neither_spark_nor_airflow_nor_any_extra():
    modules = [name for name in modules_of("paimon_core") if name not in OF_AN_EXTRA]
    assert len(modules) > 30
    absent = {"pyspark", "airflow", "pandas", "pydantic", "sqlalchemy", "yaml", "rich", "s3fs"}
    absent |= {"datasketches"}
    run = run_without(absent, f"for name in {modules!r}: importlib.import_module(name)")
    assert run.returncode == 0, run.stderr


def test_a_url_that_needs_an_extra_names_it():
    program = """
from paimon_core.errors import InvalidArgument
from paimon_core.io.open import open_file_io
try:
    open_file_io("s3://bucket/lake")
except InvalidArgument as e:
    print(e)
"""
    run = run_without({"s3fs"}, program)
    assert "No module named 's3fs'" in run.stdout, run.stderr
    assert "the extra 's3'" in run.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["plan", "--help"], ["read", "--help"]])
def test_the_command_line_needs_neither_spark_nor_airflow(arguments):
    program = f"from paimon_maintenance.cli.main import main\nsys.exit(main({arguments!r}))"
    run = run_without({"pyspark", "airflow", "pandas"}, program)
    assert run.returncode == 0, run.stderr
    assert "usage" in run.stdout.lower()
