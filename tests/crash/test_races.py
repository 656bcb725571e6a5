"""Races of two operations at every change of the first (races.py says what has to hold).

In CI: every job that moves or shortens history, stopped at its changes, on a primary-key table.  At
every fifth change one of two of Java's operations runs, which between them commit, expire, roll back
and write, and at every seventh one of five others; both take turns.  Jobs of few changes meet one of
both at each.  And a sample of all other pairs and tables.
`CARETAKER_RACES=N` tries N rounds of the sample; `all` tries the whole matrix, and all of Java's
operations at each change.  `CARETAKER_RACES_SEED=S` takes another sample and other turns.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from evolving_tables import delete_rows_of, groups_of, rows_by_id, update_columns
from failing_io import Trigger
from race_tables import TABLES
from races import (
    HISTORY,
    JAVA,
    OF_EVOLVING,
    OURS,
    Pristine,
    count_changes,
    pristine,
    rounds_of,
    run_ours,
    run_round,
    run_rounds,
    sampled,
    uncovered_jobs,
)

from oracle import Oracle
from paimon_core.errors import CommitConflict
from paimon_core.table.open import open_table
from paimon_maintenance.verify.check import check_table
from paimon_maintenance.verify.findings import Severity

pytestmark = [pytest.mark.crash, pytest.mark.slow]
WANTED = os.environ.get("CARETAKER_RACES", "60")
SEED = int(os.environ.get("CARETAKER_RACES_SEED", "1"))
MOST = ("java write and expire", "java rollback and write")
"""What removes most, each after or before a commit."""
OTHERS = (
    "java write",
    "java write to the branch",
    "java expire of the branch",
    "java compact",
    "java delete_tag",
)
EACH_MOST, EACH_OTHER = 5, 7
"""At every so many changes, one of them runs."""
FEW = 7
"""Changes of a job that meets one of both at each."""
NOT_IN_RACES = {
    "mark_partition_done",
    "trigger_tag_automatic_creation",
    "expire_consumers",
    "reset_consumer",
    "clear_consumers",
    "restore_orphan_files",
    "purge_orphan_files",
}
"""Jobs that make a file of their own, or move one that nothing refers to."""


def test_every_job_takes_part() -> None:
    assert uncovered_jobs() == NOT_IN_RACES


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pristine]:
    """Tables by name, each made once."""
    made: dict[str, Pristine] = {}

    def get(name: str) -> Pristine:
        if name not in made:
            made[name] = pristine(name, tmp_path_factory.mktemp("races") / "pristine")
        return made[name]

    return get


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("a", HISTORY)
def test_history_holds_beside_java(
    a: str, tables: Callable[[str], Pristine], oracle_1_4_2: Oracle, tmp_path: Path
) -> None:
    of = tables("changelog" if a == "expire_changelogs" else "primary key")
    for those, each in ((MOST, EACH_MOST), (OTHERS, EACH_OTHER)):
        rounds = list(rounds_of(of, [(a, b) for b in those], tmp_path / "count"))
        if WANTED != "all":
            step = each if of.changes[a] > FEW else 1
            turns = [r for r in rounds if (r.k + SEED) % step == 0]
            rounds = [r for r in turns if those.index(r.b) == (r.k + SEED) // step % len(those)]
        assert rounds
        for what in rounds:
            run_round(of, what, oracle_1_4_2, tmp_path / "round")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("changelog", "expire_snapshots", "java expire"),
        ("changelog", "fast_forward", "java write and expire"),
        pytest.param(
            "changelog", "rollback to a tag", "java write and expire", marks=pytest.mark.long
        ),
        pytest.param(
            "branch of its own", "fast_forward", "java write and expire", marks=pytest.mark.long
        ),
    ],
)
def test_versions_hold_beside_the_expiry_of_java(
    name: str,
    a: str,
    b: str,
    tables: Callable[[str], Pristine],
    oracle_1_4_2: Oracle,
    tmp_path: Path,
) -> None:
    """Java's procedure deletes the changelogs of the snapshots it expires, whatever options say.

    It starts at EARLIEST, also where a fast-forward has put a snapshot below it.
    """
    run_rounds(tables(name), [(a, b)], oracle_1_4_2, tmp_path)


@pytest.mark.parametrize(
    "b",
    [
        "expire_snapshots",
        "compact",
        *(pytest.param(b, marks=pytest.mark.long) for b in MOST),
    ],
)
def test_compactions_under_data_evolution_hold(
    b: str, tables: Callable[[str], Pristine], oracle_2_0_0: Oracle, tmp_path: Path
) -> None:
    run_rounds(tables("data evolution"), [("compact", b)], oracle_2_0_0, tmp_path)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("create_global_index", "compact"),
        ("compact", "create_global_index"),
        ("create_global_index", "create_global_index"),
        ("create_global_index", "drop_partition"),
        pytest.param("expire_snapshots", "create_global_index", marks=pytest.mark.long),
        pytest.param("create_global_index", "rollback", marks=pytest.mark.long),
        pytest.param("create_global_index", "java write and expire", marks=pytest.mark.long),
        pytest.param("remove_orphan_files", "create_global_index", marks=pytest.mark.long),
    ],
)
def test_builds_of_global_indexes_hold(
    a: str, b: str, tables: Callable[[str], Pristine], oracle_2_0_0: Oracle, tmp_path: Path
) -> None:
    run_rounds(tables("data evolution"), [(a, b)], oracle_2_0_0, tmp_path)


@pytest.mark.sampled(one_of=5)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        pair
        for a, others in (
            ("reassign_row_id", ("compact", "expire_snapshots", "drop_partition", "rollback")),
            ("compact with new row ids", ("reassign_row_id", "create_global_index", "rollback")),
        )
        for b in (*others, "java write and expire")
        for pair in ([(a, b)] if b.startswith("java") else [(a, b), (b, a)])
    ],
)
def test_new_row_ids_hold(
    a: str, b: str, tables: Callable[[str], Pristine], oracle_2_0_0: Oracle, tmp_path: Path
) -> None:
    run_rounds(tables("data evolution"), [(a, b)], oracle_2_0_0, tmp_path)


def test_an_index_never_holds_values_from_before_an_update(
    tables: Callable[[str], Pristine], oracle_2_0_0: Oracle, tmp_path: Path
) -> None:
    """An update comes before each change of the build; the last one finds the index there."""
    of = tables("data evolution")
    changes = count_changes(of, "create_global_index", tmp_path / "count")
    assert changes
    updated = 0
    for k in range(changes):
        lake = of.copy(tmp_path / f"{k}")

        def update(lake: Path = lake) -> None:
            table = open_table(str(lake), "db.t")
            group = groups_of(table)[-2]
            with suppress(CommitConflict):
                update_columns(table, group, v=["kept"] * group[0].file.row_count)

        trigger = Trigger(at=k, action=update)
        report = run_ours(lake, "create_global_index", trigger)
        assert trigger.fired
        assert report.error is None, (k, report.error)
        oracle_2_0_0.defaults(warehouse=lake, database="db", table="t")
        asked = {"field": "v", "op": "=", "value": "kept"}
        with_index = oracle_2_0_0.rows(filter=asked)
        updated += bool(with_index)
        assert with_index == oracle_2_0_0.rows(
            filter=asked, options={"global-index.enabled": "false"}
        )
    assert updated == changes - 1


def test_an_update_does_not_outdate_an_index(
    tables: Callable[[str], Pristine], tmp_path: Path
) -> None:
    """A build comes before the update's commit."""
    lake = tables("data evolution").copy(tmp_path / "lake")
    table = open_table(str(lake), "db.t")
    group = groups_of(table)[-2]
    assert run_ours(lake, "create_global_index").error is None
    with pytest.raises(CommitConflict, match="global index"):
        update_columns(table, group, v=["new"] * group[0].file.row_count)
    update_columns(table, group, k=[7] * group[0].file.row_count)


def test_updates_of_columns_and_deletes_survive_compactions(
    tables: Callable[[str], Pristine], tmp_path: Path
) -> None:
    """An update and a delete come before each change of the compaction."""
    of = tables("data evolution")
    changes = count_changes(of, "compact", tmp_path / "count")
    assert changes > FEW
    for number, gone_of in ((0, 1), (-1, -2)):
        for k in range(changes):
            lake = of.copy(tmp_path / f"{number}.{k}")

            def update(lake: Path = lake, number: int = number, gone_of: int = gone_of) -> None:
                table = open_table(str(lake), "db.t")
                group = groups_of(table)[number]
                update_columns(table, group, v=["kept"] * group[0].file.row_count)
                table = open_table(str(lake), "db.t")
                delete_rows_of(table, groups_of(table)[gone_of], [0])

            before = rows_by_id(open_table(str(lake), "db.t"))
            trigger = Trigger(at=k, action=update)
            report = run_ours(lake, "compact", trigger)
            assert trigger.fired
            assert report.error is None, (k, report.error)
            after = rows_by_id(open_table(str(lake), "db.t"))
            changed = [i for i, row in after.items() if row[1] == "kept"]
            assert changed, (k, after)
            (gone,) = before.keys() - after.keys()
            assert {i: r for i, r in after.items() if i not in changed} == {
                i: r for i, r in before.items() if i not in {gone, *changed}
            }
            found = check_table(open_table(str(lake), "db.t")).findings
            assert [f for f in found if f.severity is Severity.ERROR] == []


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("name", TABLES)
def test_any_two_operations_hold(
    name: str, tables: Callable[[str], Pristine], oracle_2_0_0: Oracle, tmp_path: Path
) -> None:
    of = tables(name)
    ours = [name for name in OURS if name not in OF_EVOLVING]
    pairs = list(itertools.product(ours, [*JAVA, *ours]))
    rounds = list(rounds_of(of, pairs, tmp_path / "count"))
    assert rounds
    if WANTED != "all":
        rounds = sampled(rounds, int(WANTED) // len(TABLES), SEED)
    for what in rounds:
        run_round(of, what, oracle_2_0_0, tmp_path / "round")
        shutil.rmtree(tmp_path / "round", ignore_errors=True)
