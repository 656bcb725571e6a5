from __future__ import annotations

import io
import socket

import pytest

from paimon_core.errors import InvalidArgument
from paimon_maintenance.demo import lake
from paimon_maintenance.demo.airflow import free_port
from paimon_maintenance.demo.measure import measure
from paimon_maintenance.demo.screen import Screen


def test_writers_make_small_files_that_compaction_may_merge(tmp_path, capsys):
    warehouse = str(tmp_path)
    lake.create_tables(warehouse)
    lake.write(warehouse, 0, 1)
    once = measure(warehouse, lake.ORDERS)
    lake.write(warehouse, 1, 1)
    orders, views = measure(warehouse, lake.ORDERS), measure(warehouse, lake.VIEWS)
    assert (once.files, once.sorted_runs) == (15, 1.0)
    assert (orders.files, orders.sorted_runs) == (30, 2.0)
    assert once.rows < orders.rows < 2 * once.rows
    assert (views.files, views.sorted_runs, views.rows) == (6, None, 6_000)
    assert capsys.readouterr().out.count("\n") == 8
    assert orders.same_rows(measure(warehouse, lake.ORDERS))
    assert not orders.same_rows(once)


def test_what_is_no_terminal_gets_plain_lines():
    out = io.StringIO()
    screen = Screen(out)
    with screen.step("Making something") as step:
        step.update("half of it [done]")
        step.done("Made something")
    screen.table("db.t", ["", "before"], [["files", "12"], ["rows", "1,234"]])
    first, second, *table = out.getvalue().splitlines()
    assert first == "[0:00] Making something ..."
    assert second == "[0:00] Made something, 0 s"
    assert table == ["db.t", "         before", "  files      12", "  rows    1,234"]


def test_a_port_in_use_is_refused_and_a_free_one_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InvalidArgument, match=f"port {port} is in use"):
            free_port(port)
    assert free_port(0) > 0
