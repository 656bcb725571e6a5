"""Retries of store requests, and the time waited before them, are in reports and metrics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from catalog_rows import append, schema
from s3_store import s3_server
from slow_store import GET, LIST, PUT, Fault, slow_store

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.errors import StorageError
from paimon_core.io.store_retries import (
    ContextPool,
    RetryReason,
    add_retries,
    counted_retries,
    note_retry,
)
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.engine import WorkUnit, run_unit
from paimon_maintenance.job.report import Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.metrics import Metrics
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table


def test_throttling_resets_and_slow_replies_are_in_the_report_and_the_metrics() -> None:
    pytest.importorskip("moto")
    metrics = Metrics()
    with s3_server() as server, slow_store(server) as store:
        root = store.new_root()
        catalog = FileSystemCatalog(root, server.options)
        catalog.create_database("db")
        catalog.create_table("db.t", schema(bucket="-1"))
        for i in range(6):
            append(catalog.get_table("db.t"), [i])
        definition = job_named("compact")
        request = RunRequest(
            job=definition,
            warehouse=root,
            table="db.t",
            arguments=definition.read_arguments({"strategy": "full", "parallelism": 2}),
            file_io_options={**store.options, "caretaker.request-deadline": "20 s"},
            force=True,
        )
        faults = [
            Fault("answer", {LIST, GET}, times=2, status=503, code="SlowDown"),
            Fault("answer", {PUT}, r"manifest/manifest-", times=1, status=500, code="Internal"),
            # Data files are read by units of work, and written by streams.
            Fault("reset", {GET}, r"bucket-0/data-", times=1),
            Fault("lose reply", {PUT}, r"bucket-0/data-", times=1),
            Fault("hang", {GET}, r"snapshot/snapshot-\d+$", times=1),
        ]
        for fault in faults:
            store.add(fault)
        report = run_table(request, RunServices(metrics=metrics))
        assert report.status is Status.SUCCESS, report.error
        assert [fault.hits for fault in faults] == [2, 1, 1, 1, 1]
        retries = report.details["store_retries"]
        assert isinstance(retries, dict)
        waited = retries.pop("backoff_seconds")
        assert retries == {"connection": 3, "server_error": 1, "throttled": 2}
        assert 6 * 0.2 <= waited <= 6 * 0.5
        text = metrics.to_text()
        for reason, number in retries.items():
            labels = f'job="compact",reason="{reason}",table="db.t"'
            assert f"paimon_maintenance_store_retries_total{{{labels}}} {number}\n" in text
        assert 'store_backoff_seconds_total{job="compact",table="db.t"} ' in text
        assert any(line.startswith("  store retries connection 3") for line in report.lines())

        store.clear()
        again = run_table(request, RunServices(metrics=metrics))
        assert "store_retries" not in again.details
        store.add(Fault("answer", {LIST, GET}, status=503, code="SlowDown"))
        hasty = {**store.options, "caretaker.request-deadline": "3 s"}
        failed = run_table(replace(request, file_io_options=hasty), RunServices(metrics=metrics))
        assert isinstance(failed.error, StorageError)
        assert failed.details["store_retries"]["throttled"] >= 1  # type: ignore[index]


def test_counts_reach_threads_units_and_the_enclosing_count() -> None:
    def work(payload: bytes) -> bytes:
        note_retry(RetryReason.THROTTLED, 0.5)
        return payload

    note_retry(RetryReason.THROTTLED, 1.0)  # nobody counts
    with counted_retries() as outer:
        with counted_retries() as inner, ContextPool(2) as pool:
            list(pool.map(work, [b"a", b"b"]))
        assert inner.to_json() == outer.to_json() == {"throttled": 2, "backoff_seconds": 1.0}
        units = [WorkUnit(payload=b"", expected_bytes=1, label="")] * 3
        results = LocalEngine(threads=2).run_units(units, work)
        assert results[0].retries == {"throttled": 1, "backoff_seconds": 0.5}
        assert outer.to_json() == {"throttled": 5, "backoff_seconds": 2.5}
    # On an executor nothing encloses the unit: its result carries the count.
    carried = run_unit(0, b"", work).retries
    with counted_retries() as driver:
        add_retries(carried)
    assert driver.to_json() == {"throttled": 1, "backoff_seconds": 0.5}
