"""Datasets of OpenLineage: names, what was read and written; through the provider where it is installed."""

from __future__ import annotations

import pytest

from paimon_airflow.tasks.lineage import changed_tables, dataset_of, operator_lineage
from paimon_airflow.tasks.results import TableResult

pytestmark = pytest.mark.airflow

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
    pytest.importorskip("airflow.providers.openlineage")
    from openlineage.client.serde import Serde

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
