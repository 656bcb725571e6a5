"""Secrets of stores and catalogs in the environment of a command are in nothing that it makes.

The commands are processes of their own on a real S3 server.  Everything that others can read is
searched: arguments of processes, plans, reports, logs, errors, metrics, the history, and the files of
the table.  tests/airflow/test_secrets.py does the same for Airflow and Spark.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from catalog_rows import append, schema
from command_line import caretaker
from processes import watched_arguments
from s3_store import environment_of, s3_server

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.io.open import open_file_io

pytestmark = pytest.mark.s3
NEEDLE = "5127-KEY"
KEYS = {"s3.access-key": f"ACCESS-{NEEDLE}", "s3.secret-key": f"SECRET-{NEEDLE}"}
SESSION = f"TOKEN-{NEEDLE}"


def _run(words: str, environment: Mapping[str, str], folder: Path, code: int) -> str:
    """What the command printed, once it ended with this code."""
    ran = subprocess.run(
        [sys.executable, "-m", "paimon_maintenance.cli", *words.split()],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_nothing_that_others_can_read_holds_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("moto")
    with s3_server() as server:
        root = server.new_root()
        catalog = FileSystemCatalog(root, server.options)
        catalog.create_database("db")
        catalog.create_table("db.t", schema(bucket="-1", **{"snapshot.num-retained.min": "1"}))
        for i in range(6):
            append(catalog.get_table("db.t"), [i])
        logged = {
            "CARETAKER_HISTORY_URL": f"sqlite:///{tmp_path}/history.db",
            "CARETAKER_LOG_FORMAT": "json",
        }
        store = {"s3.endpoint": server.options["s3.endpoint"], "s3.region": "us-east-1"}
        lake = {"metastore": "filesystem", "warehouse": root, **store, **KEYS}
        refused = {**lake, "s3.endpoint": "http://127.0.0.1:1", "caretaker.request-deadline": "1 s"}
        database = {
            "metastore": "jdbc",
            "warehouse": root,
            "uri": "jdbc:postgresql://127.0.0.1:1/x",
        }
        database |= {"jdbc.user": "care", "jdbc.password": f"PASSWORD-{NEEDLE}"}
        catalogs = {"lake": lake, "refused": refused, "database": database}
        by_variables = logged | environment_of({**server.options, **KEYS})
        by_variables["AWS_SESSION_TOKEN"] = SESSION
        by_catalog = {**logged, "CARETAKER_CATALOGS": json.dumps(catalogs)}
        metrics = tmp_path / "metrics.prom"
        with watched_arguments() as commands:
            printed = [
                _run(
                    f"run compact db.t -w {root} --strategy full --engine local --json -vv "
                    f"--metrics-file {metrics}",
                    by_variables,
                    tmp_path,
                    0,
                ),
                _run("run compact db.t --catalog refused --json -vv", by_catalog, tmp_path, 1),
            ]
            for name, value in by_catalog.items():
                monkeypatch.setenv(name, value)
            for words, code in (
                ("catalogs --json", 0),
                ("plan expire_snapshots db.t --catalog lake --retain-max 1 --json", 0),
                ("run expire_snapshots db.t --catalog lake --retain-max 1 --force --json", 0),
                ("run compact db.t --catalog database", 1),
            ):
                ran = caretaker(*words.split())
                assert ran.code == code, ran.err
                printed.append(ran.out + ran.err)
        places = {
            "the arguments of processes": "\n".join(commands),
            "the history": (tmp_path / "history.db").read_bytes().decode(errors="replace"),
            "metrics": metrics.read_text(),
            "the table": _content(root, server.options),
            **{f"command {number}": text for number, text in enumerate(printed)},
        }
    # What was searched is what was meant to be searched.
    assert any("paimon_maintenance.cli run compact" in command for command in commands)
    assert '"snapshots": [7]' in places["command 0"]
    assert '"message"' in places["command 0"]
    assert "expire_snapshots" in places["the history"]
    assert "127.0.0.1:1" in places["command 1"]
    assert {name for name, text in places.items() if NEEDLE in text} == set()


def _content(root: str, options: dict[str, str]) -> str:
    io, place = open_file_io(root, options)
    files = io.list_below(place)
    assert files
    texts = [
        f"{f.path} {io.read_bytes(f.path).decode(errors='replace')}" for f in files if not f.is_dir
    ]
    return "\n".join(texts)
