"""Runs a job on many tables, several at a time, each in a thread of its own.

Most of the time of a small table goes to waiting for the store, so that threads run many of them in
the time of one.  What they work on at the same time is limited elsewhere: by the gate of the local
engine, or by the cores of Spark.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import Final

from paimon_maintenance.job.report import Report
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table

TABLES_AT_ONCE: Final = 8


def run_tables(
    requests: Iterable[RunRequest],
    services: RunServices,
    *,
    at_once: int = TABLES_AT_ONCE,
) -> Iterator[tuple[RunRequest, Report]]:
    """The report of each request, as soon as its run ends.

    Requests for the same table run one after the other, in their order.  If the caller stops, by an
    error such as KeyboardInterrupt or by closing the iterator, then Spark ends, no table begins,
    and none that runs commits any more.
    """
    by_table: dict[str, list[RunRequest]] = {}
    for request in requests:
        by_table.setdefault(f"{request.warehouse} {request.table}", []).append(request)
    stopped = threading.Event()

    def check() -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        services.check_supervised()

    def run(request: RunRequest) -> tuple[RunRequest, Report]:
        return request, run_table(request, replace(services, check_supervised=check))

    def run_all(group: list[RunRequest]) -> list[tuple[RunRequest, Report]]:
        return [run(request) for request in group if not stopped.is_set()]

    if len(by_table) == 1 or at_once <= 1:
        yield from (run(request) for group in by_table.values() for request in group)
        return
    with ThreadPoolExecutor(at_once, thread_name_prefix="table") as pool:
        futures = [pool.submit(run_all, group) for group in by_table.values()]
        try:
            for future in as_completed(futures):
                yield from future.result()
        except BaseException:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            if services.spark is not None:
                services.spark.close()
            services.engine.close()
            raise
