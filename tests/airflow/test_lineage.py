"""Datasets of OpenLineage: names, what was read and written; through the provider where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lakes import Lake
from openlineage.client.serde import Serde

from paimon_airflow.tasks.from_reports import from_report
from paimon_airflow.tasks.lineage import changed_tables, dataset_of, operator_lineage
from paimon_airflow.tasks.results import TableResult
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.metrics import Metrics
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table

pytestmark = pytest.mark.airflow

ROOT = Path(__file__).resolve().parents[2]
RUN = """\
import json, runpy, sys
dag = runpy.run_path(sys.argv[1])["caretaker_compact"]
for conf in json.loads(sys.argv[2]):
    dag.test(run_conf=conf)
"""
LOAD = """\
import sys
from airflow import plugins_manager
plugins_manager.ensure_plugins_loaded()
assert any(m.startswith("airflow.providers.openlineage") for m in sys.modules)
print(*(m for m in sys.modules if m.startswith("openlineage")))
"""
RESULTS = [
    TableResult(
        table="db.t",
        outcome="done",
        snapshot=7,
        figures={"files": [9, 1], "bytes": [900, 500], "runs": [9, 1]},
    ),
    TableResult(table="db.u", outcome="done"),
    TableResult(table="db.v", outcome="nothing"),
    TableResult(table="db.w", outcome="failed", error="OSError"),
]


def test_a_table_is_named_by_its_store_and_folder():
    assert dataset_of("s3://lake/warehouse/", "db.t") == ("s3://lake", "warehouse/db.db/t")
    assert dataset_of("/lake", "db.t") == ("file", "/lake/db.db/t")
    assert dataset_of("file:///lake", "db.t") == ("file", "/lake/db.db/t")
    assert dataset_of("catalog:prod", "db.t") == ("paimon://prod", "db.t")


def test_only_tables_that_changed_are_datasets():
    found = changed_tables(RESULTS, job="compact", warehouse="/lake")
    assert [(t.table, t.snapshot, t.files, t.bytes) for t in found] == [
        ("db.t", 7, (9, 1), (900, 500)),
        ("db.u", None, None, None),
    ]


def test_the_provider_gets_inputs_and_outputs_with_facets():
    lineage = operator_lineage(changed_tables(RESULTS, job="compact", warehouse="/lake"))
    read, _ = [Serde.to_dict(one) for one in lineage.inputs]
    wrote, other = [Serde.to_dict(one) for one in lineage.outputs]
    assert (read["namespace"], read["name"]) == ("file", "/lake/db.db/t")
    assert read["inputFacets"]["inputStatistics"]["fileCount"] == 9
    assert wrote["outputFacets"]["outputStatistics"]["size"] == 500
    assert wrote["facets"]["version"]["datasetVersion"] == "7"
    own = wrote["facets"]["caretaker"]
    assert (own["job"], own["filesBefore"], own["filesAfter"]) == ("compact", 9, 1)
    assert (own["bytesBefore"], own["bytesAfter"], own["snapshot"]) == (900, 500, 7)
    assert "version" not in other["facets"]
    assert not other.get("outputFacets")


def test_history_metrics_task_and_lineage_count_the_same_files(tmp_path: Path):
    """A run leaves the large file of the bucket alone, and none of them counts it."""
    lake = Lake(tmp_path / "lake")
    lake.primary_key("db.t")
    many = range(50_000)
    lake.append({"k": list(many), "v": [f"value {k * 7919 % 50_021}" for k in many]})
    history, metrics = SqlHistory(f"sqlite:///{tmp_path}/history.db"), Metrics()
    services = RunServices(history=history, metrics=metrics)
    job = job_named("compact")
    asked = RunRequest(
        job=job,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=job.read_arguments({"strategy": "full"}),
    )
    run_table(asked, RunServices())
    lake.fill(6, rows=1)
    report = run_table(
        replace(asked, arguments=job.read_arguments({"strategy": "minor"})), services
    )
    assert (report.before.files, report.untouched.files, report.after.files) == (7, 1, 2)
    entry = history.newest(table="db.t")[0]
    result = from_report(report.to_json())
    (table,) = changed_tables([result], job="compact", warehouse=str(lake.warehouse))
    files, size = (entry.files_before, entry.files_after), (entry.bytes_before, entry.bytes_after)
    assert files == (6, 1) == result.figures["files"] == table.files
    assert size == result.figures["bytes"] == table.bytes
    assert max(size) < 10_000 < report.untouched.bytes
    assert result.figures["runs"] == (7, 2), "runs are those of the bucket"
    of_run = '{job="compact",table="db.t"}'
    for name, value in (("read", size[0]), ("written", size[1])):
        assert f"bytes_{name}_total{of_run} {value}\n" in metrics.to_text()
    lineage = operator_lineage([table])
    read, wrote = Serde.to_dict(lineage.inputs[0]), Serde.to_dict(lineage.outputs[0])
    assert read["inputFacets"]["inputStatistics"]["size"] == size[0]
    assert read["inputFacets"]["inputStatistics"]["fileCount"] == 6
    assert wrote["outputFacets"]["outputStatistics"]["size"] == size[1]
    assert wrote["outputFacets"]["outputStatistics"]["fileCount"] == 1


def fresh(script: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run it in a process of its own: the provider reads its settings once, with the plugins."""
    paths = (ROOT, ROOT / "maintenance", ROOT / "plugins", ROOT / "dags")
    own = {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
    }
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **own, **env},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done


def facets(event: dict[str, Any], side: str, name: str) -> dict[str, Any]:
    (found,) = (one for one in event[side] if one["name"].endswith(f"/db.db/{name}"))
    kind = f"{side.removesuffix('s')}Facets"
    return {"namespace": found["namespace"], **found["facets"], **found.get(kind, {})}


@pytest.mark.slow
def test_a_task_writes_what_it_read_and_wrote_also_when_another_table_fails(
    airflow_database: None, tmp_path: Path
):
    lake = Lake(tmp_path / "lake")
    for name in ("db.t", "db.u", "db.broken"):
        lake.primary_key(name)
        lake.fill(3, rows=5, name=name)
    next(Path(lake.table("db.broken").root).glob("bucket-0/data-*")).unlink()
    written = tmp_path / "events.json"
    transport = {"type": "file", "log_file_path": str(written), "append": True}
    common = {"warehouse": str(lake.warehouse), "strategy": "full"}
    confs = [{**common, "tables": ["db.t"]}, {**common, "tables": ["db.u", "db.broken"]}]
    fresh(
        RUN,
        str(ROOT / "dags" / "caretaker.py"),
        json.dumps(confs),
        AIRFLOW__OPENLINEAGE__TRANSPORT=json.dumps(transport),
    )
    events = [json.loads(line) for line in written.read_text().splitlines()]
    ends = [e for e in events if e["job"]["name"] == "caretaker_compact.in_process"]
    assert [e["eventType"] for e in ends] == ["START", "COMPLETE", "START", "FAIL"]
    for event, name in ((ends[1], "t"), (ends[3], "u")):
        read, wrote = facets(event, "inputs", name), facets(event, "outputs", name)
        own = wrote["caretaker"]
        assert (own["job"], own["snapshot"]) == ("compact", 4)
        assert (own["filesBefore"], own["filesAfter"]) == (3, 1)
        assert own["bytesBefore"] > own["bytesAfter"] > 0
        assert read["namespace"] == wrote["namespace"] == "file"
        assert read["inputStatistics"]["fileCount"] == 3
        assert read["inputStatistics"]["size"] == own["bytesBefore"]
        assert wrote["outputStatistics"]["fileCount"] == 1
        assert wrote["outputStatistics"]["size"] == own["bytesAfter"]
        assert wrote["version"]["datasetVersion"] == "4"
        assert wrote["symlinks"]["identifiers"][0]["name"] == f"db.{name}"
    other = [e for e in events if e not in ends]
    assert {e["job"]["name"].rpartition(".")[2] for e in other} >= {"plan", "report"}
    assert not [e for e in other if e["inputs"] or e["outputs"]]


def test_without_settings_the_provider_loads_nothing(tmp_path: Path):
    done = fresh(LOAD, AIRFLOW_HOME=str(tmp_path))
    assert done.stdout.splitlines()[-1] == ""
    assert "openlineage" not in done.stderr.lower()
