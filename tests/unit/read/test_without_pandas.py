"""Reading, looking and planning do not import pandas, which would cost every process about a third of a second.

pyarrow imports it at the first `pa.array` or `pa.scalar` of Python or numpy values; conditions in a
WHERE, ORC files and times of 96 bits still do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
SCRIPT = """
import sys
from paimon_maintenance.cli.main import main
code = main(sys.argv[1:])
print(code, "pandas" in sys.modules, file=sys.stderr)
"""


def without_pandas(*words: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, which says at its end whether pandas was imported."""
    paths = os.pathsep.join(str(CHECKOUT / p) for p in ("", "maintenance", "plugins", "dags"))
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name",
    ["dedup_write_only", "deletion_vectors", "partitions_pk_overwrite", "levels"],
)
def test_reading_leaves_pandas_alone(golden: Callable[[str], object], name: str) -> None:
    table = golden(name)
    ran = without_pandas("read", "db.t", "-w", str(table.warehouse))
    assert ran.stderr.splitlines()[-1:] == ["0 False"], ran.stderr
    assert ran.stdout


@pytest.mark.sampled
@pytest.mark.parametrize(
    "words",
    ["inspect", "files", "verify", "plan compact", "plan expire_snapshots", "plan maintain"],
)
def test_looks_and_plans_leave_pandas_alone(golden: Callable[[str], object], words: str) -> None:
    table = golden("dedup_write_only")
    ran = without_pandas(*words.split(), "db.t", "-w", str(table.warehouse))
    assert ran.stderr.splitlines()[-1:] in (["0 False"], ["3 False"]), ran.stderr


@pytest.mark.sampled
@pytest.mark.parametrize(
    "module",
    ["paimon_core.table.open", "paimon_core.read.table_read", "paimon_core.write.row_writer"],
)
def test_imports_leave_pandas_alone(module: str) -> None:
    code = f"import sys, {module}; print('pandas' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == "False"
