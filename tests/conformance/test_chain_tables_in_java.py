"""Chain tables: rows of several branches are put together as Java 2.0.0 does."""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from command_line import Ran, caretaker, in_order
from lakes import age_all
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.errors import CommitConflict, InvalidArgument, UnsupportedFeature
from paimon_core.table.chain.read import read_chain
from paimon_core.table.open import open_table
from paimon_core.table.sink import compact_chain
from paimon_core.table.source.batch_scan import batch_scan_of
from paimon_core.table.source.batch_tasks import plan_batch, read_task
from paimon_maintenance.job.exit_codes import ExitCode

BRANCHES = ("", "snapshot", "delta")
DAILY = {
    "partition.timestamp-pattern": "$dt",
    "partition.timestamp-formatter": "yyyyMMdd",
}
HOURLY = {
    "partition.timestamp-pattern": "$dt $hour:00:00",
    "partition.timestamp-formatter": "yyyyMMdd HH:mm:ss",
}


class Chain:
    """A chain table with the key `k`, the sequence field `v`, and these partition columns."""

    def __init__(self, java: Oracle, lake: Path, keys: list[str], options: dict[str, str]) -> None:
        self.java = java.defaults(warehouse=lake, database="db", table="t")
        self.lake, self.keys = lake, keys
        names = ["k INT NOT NULL", "v INT", "w STRING", *(f"{k} STRING NOT NULL" for k in keys)]
        columns = [{"name": n.split()[0], "type": n.split(" ", 1)[1]} for n in names]
        java.one("create_database")
        java.one(
            "create_table",
            columns=columns,
            partition_keys=keys,
            primary_keys=[*keys, "k"],
            options={
                **options,
                "bucket": "2",
                "bucket-key": "k",
                "chain-table.enabled": "true",
                "sequence.field": "v",
            },
        )
        for name in BRANCHES[1:]:
            java.one("create_branch", name=name)
        fallback = [
            {"change": "set_option", "key": f"scan.fallback-{name}-branch", "value": name}
            for name in BRANCHES[1:]
        ]
        for name in BRANCHES:
            java.one("alter_table", changes=fallback, **({"branch": name} if name else {}))

    @staticmethod
    def of(chain: Chain, lake: Path) -> Chain:
        """The same table in another folder."""
        other = copy.copy(chain)
        other.lake = lake
        chain.java.defaults(warehouse=lake)
        return other

    def write(self, branch: str, partition: str, rows: list[list[Any]]) -> None:
        """Rows of [k, v, w], or with the kind first; the values of `partition` are divided by "/"."""
        values = partition.split("/")
        wanted = []
        for row in rows:
            kind = row[0] if isinstance(row[0], str) else "+I"
            cells = row[1:] if isinstance(row[0], str) else row
            wanted.append({"kind": kind, "values": [*cells, *values]})
        self.java.one("write", rows=wanted, **({"branch": branch} if branch else {}))

    def check(self) -> list[list[Any]]:
        """Our rows, which are Java's."""
        rows = self.java.rows()
        assert in_order(self.read().rows) == rows
        opened = open_table(str(self.lake), "db.t")
        found = [
            row
            for task in plan_batch(batch_scan_of(opened))
            for batch in read_task(task, columns=["k", "w"])
            for row in zip(*(batch.column(n).to_pylist() for n in ("k", "w")), strict=True)
        ]
        assert sorted(map(str, found)) == sorted(str((r[1], r[3])) for r in rows)
        return rows

    def read(self, *words: object) -> Ran:
        return caretaker("read", "db.t", "-w", self.lake, *words)


@pytest.fixture
def daily(oracle_2_0_0: Oracle, tmp_path: Path) -> Chain:
    return Chain(oracle_2_0_0, tmp_path, ["dt"], DAILY)


def test_deltas_are_merged_with_the_snapshot_before_them(daily: Chain) -> None:
    daily.write("snapshot", "20240101", [[1, 1, "a"], [2, 1, "b"], [3, 1, "c"]])
    daily.write("delta", "20240102", [[1, 2, "a2"], ["-D", 3, 5, "c"], [4, 1, "d"]])
    daily.write("delta", "20240104", [[2, 0, "older"], [4, 9, "d2"]])
    rows = daily.check()
    assert [r[1:4] for r in rows if r[4] == "20240104"] == [[1, 2, "a2"], [2, 1, "b"], [4, 9, "d2"]]
    daily.write("snapshot", "20240103", [[7, 1, "whole"]])
    daily.write("", "20240102", [[9, 1, "own"]])
    daily.write("delta", "20231230", [[5, 1, "before"]])
    daily.write("delta", "20231231", [[5, 2, "later"]])
    rows = daily.check()
    assert [r[1:4] for r in rows if r[4] == "20240102"] == [[9, 1, "own"]]
    for condition, kept in (
        ("dt = '20240104'", [r for r in rows if r[4] == "20240104"]),
        ("w = 'later'", [r for r in rows if r[3] == "later"]),
        ("k = 7 and dt > '20240103'", [r for r in rows if r[1] == 7 and r[4] > "20240103"]),
    ):
        assert in_order(daily.read("--where", condition).rows) == kept
    assert in_order(daily.read("--columns", "w").rows) == daily.java.rows(projection=["w"])
    for branch in BRANCHES[1:]:
        own = caretaker("read", "db.t", "-w", daily.lake, "--branch", branch)
        assert in_order(own.rows) == daily.java.rows(branch=branch)


def test_partitions_that_no_day_means_are_left_out_as_in_java(daily: Chain) -> None:
    daily.write("snapshot", "20240101", [[1, 1, "a"]])
    daily.write("delta", "20240102", [[2, 1, "b"]])
    daily.write("delta", "20240103", [[3, 1, "c"]])
    daily.write("delta", "202401025", [[4, 1, "no day"]])
    ours = daily.read()
    assert ours.code == ExitCode.REFUSED
    assert "partition 202401025 that is not a time" in ours.err


def test_equal_sequences_in_two_partitions_are_refused(daily: Chain) -> None:
    daily.write("snapshot", "20240101", [[1, 1, "a"]])
    daily.write("delta", "20240102", [[1, 1, "a"]])
    daily.check()
    daily.write("delta", "20240103", [[1, 1, "other"]])
    ran = daily.read()
    assert ran.code == ExitCode.REFUSED
    assert "equal sequences" in ran.err


def test_deletion_vectors_of_both_branches_are_those_of_java(
    oracle_2_0_0: Oracle, tmp_path: Path
) -> None:
    options = {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "20"}
    chain = Chain(oracle_2_0_0, tmp_path, ["dt"], {**DAILY, **options})
    numbers = range(40)
    chain.write("snapshot", "20240101", [[k, 1, f"whole {k}"] for k in numbers])
    chain.write("snapshot", "20240101", [["-D", 3, 2, ""], [5, 2, "again"], ["-D", 8, 2, ""]])
    chain.write("delta", "20240102", [[k, 3, f"delta {k}"] for k in numbers if k % 3 == 0])
    chain.write("delta", "20240102", [["-D", 6, 4, ""], [9, 4, "late"], [50, 4, "new"]])
    chain.write("delta", "20240103", [[50, 5, "newer"], ["-D", 12, 5, ""]])
    for branch in BRANCHES[1:]:
        assert chain.java.one("files", branch=branch)["index_files"], branch
    rows = chain.check()
    assert ["+I", 5, 2, "again", "20240102"] in rows
    assert not [r for r in rows if r[1] in (6, 8, 12) and r[4] == "20240103"]
    # What waits for a compaction in level 0 is not seen.
    late = {"write-only": "true"}
    chain.java.one(
        "write", rows=[[7, 9, "unseen", "20240103"]], branch="delta", options=late, compact=False
    )
    assert chain.check() == rows


def test_groups_and_hours_are_those_of_java(oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    options = {**HOURLY, "chain-table.chain-partition-keys": "dt,hour"}
    chain = Chain(oracle_2_0_0, tmp_path, ["region", "dt", "hour"], options)
    rng = random.Random(11)
    sequence = 0
    for number in range(24):
        branch = rng.choice(["snapshot", "delta", "delta", "delta", ""])
        hour = f"{rng.choice(['CN', 'US'])}/2024010{rng.randrange(1, 4)}/{rng.randrange(24):02}"
        rows: list[list[Any]] = []
        for k in rng.sample(range(8), 3):
            sequence += 1
            rows.append([k, sequence, f"w{number}"])
        if branch == "delta" and rng.random() < 0.4:
            rows[0].insert(0, "-D")
        chain.write(branch, hour, rows)
        if number % 8 == 7:
            assert chain.check()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("scan.snapshot-id", "1"),
        ("scan.mode", "from-timestamp"),
        ("incremental-between", "1,2"),
    ],
)
def test_other_times_are_refused(daily: Chain, option: str, value: str) -> None:
    daily.write("", "20240101", [[1, 1, "a"]])
    times = {"scan.timestamp-millis": "1"} if option == "scan.mode" else {}
    options = [f"--option={k}={v}" for k, v in {option: value, **times}.items()]
    ran = daily.read(*options)
    assert ran.code == ExitCode.REFUSED, ran.out
    assert "only read as it is now" in ran.err


# --- writes -------------------------------------------------------------------------------------


class Twins:
    """A chain table in SQL, and its copy that Java changes; both take the same overwrites."""

    def __init__(self, java: Oracle, lake: Path) -> None:
        self.java = java.defaults(database="default", table="t")
        self.ours, self.theirs = str(lake / "ours"), str(lake / "theirs")
        self.sql = Sql(lake / "ours")
        self.sql(
            "CREATE TABLE t (k INT, v INT, w STRING) PARTITIONED BY (region STRING, dt STRING) "
            "TBLPROPERTIES ('chain-table.enabled' = 'true', 'primary-key' = 'region,dt,k', "
            "'sequence.field' = 'v', 'bucket-key' = 'k', 'bucket' = '2', "
            "'partition.timestamp-pattern' = '$dt', 'partition.timestamp-formatter' = 'yyyyMMdd', "
            "'chain-table.chain-partition-keys' = 'dt')"
        )
        for branch in BRANCHES[1:]:
            self.sql(f"CALL sys.create_branch('default.t', '{branch}')")
        for suffix in ("", "$branch_snapshot", "$branch_delta"):
            self.sql(
                f"ALTER TABLE `t{suffix}` SET TBLPROPERTIES ("
                "'scan.fallback-snapshot-branch' = 'snapshot', "
                "'scan.fallback-delta-branch' = 'delta')"
            )
        shutil.copytree(self.ours, self.theirs)

    def overwrite(self, branch: str, partition: str, rows: list[list[Any]]) -> None:
        """Replace `region/dt` in both; without rows, drop it.  Both refuse it, or none."""
        region, dt = partition.split("/")
        spec = f"PARTITION (region = '{region}', dt = '{dt}')"
        values = ", ".join(f"({k}, {v}, '{w}')" for k, v, w in rows)
        statement = f"INSERT OVERWRITE `t$branch_{branch}` {spec} VALUES {values}"
        self.both(
            statement if rows else f"ALTER TABLE `t$branch_{branch}` DROP PARTITION {spec[9:]}",
            "overwrite" if rows else "drop_partition",
            branch=branch,
            **(
                {
                    "partition": {"region": region, "dt": dt},
                    "rows": [[*row, region, dt] for row in rows],
                }
                if rows
                else {"partitions": [{"region": region, "dt": dt}]}
            ),
        )

    def both(self, statement: str, step: str, **fields: Any) -> None:
        try:
            self.sql(statement)
            refused = None
        except InvalidArgument as e:
            refused = e.message
        (answer,) = self.java([{"op": step, "warehouse": self.theirs, **fields}], check=False)
        if refused is None:
            assert "error" not in answer, answer
        else:
            assert "Snapshot partition cannot be dropped" in f"{answer}", refused

    def check(self) -> None:
        """Rows and snapshots are the same in both, whoever reads them."""
        for branch in BRANCHES:
            named = {"branch": branch} if branch else {}
            kinds = []
            for lake in (self.ours, self.theirs):
                made = self.java.one("snapshots", warehouse=lake, **named)["snapshots"]
                kinds.append([(s["commitKind"], s["totalRecordCount"]) for s in made])
            assert kinds[0] == kinds[1], branch
            rows = self.java.rows(warehouse=self.theirs, **named)
            assert self.java.rows(warehouse=self.ours, **named) == rows
            words = ("--branch", branch) if branch else ()
            ran = caretaker("read", "default.t", "-w", self.ours, *words)
            assert in_order(ran.rows) == rows, ran.err


def test_sql_writes_chain_tables_as_java_does(oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    twins = Twins(oracle_2_0_0, tmp_path)
    twins.overwrite("snapshot", "CN/20250810", [[1, 1, "a"], [2, 1, "b"]])
    twins.overwrite("delta", "CN/20250811", [[2, 2, "c"], [3, 1, "d"]])
    twins.overwrite("snapshot", "US/20250810", [[1, 1, "u"]])
    twins.overwrite("snapshot", "CN/20250812", [[9, 1, "whole"]])
    twins.overwrite("delta", "CN/20250813", [[9, 2, "later"]])
    twins.check()
    # A partition of the delta branch that is replaced is dropped from the snapshot branch.
    twins.overwrite("delta", "CN/20250812", [[9, 5, "again"]])
    twins.overwrite("delta", "US/20250811", [[1, 2, "next"]])
    twins.overwrite("snapshot", "US/20250811", [[1, 3, "merged"]])
    twins.overwrite("snapshot", "US/20250810", [])  # refused nowhere: no delta needs it
    twins.check()
    twins.overwrite("snapshot", "CN/20250810", [])  # refused: deltas need it
    twins.check()
    # Java commits this overwrite, and then cannot drop the complete partition that it outdates.
    twins.overwrite("delta", "US/20250812", [[1, 4, "needs it"]])
    before = sorted(Path(twins.ours).rglob("*"))
    with pytest.raises(InvalidArgument, match="20250812 of branch delta needs 20250811"):
        twins.sql(
            "INSERT OVERWRITE `t$branch_delta` PARTITION (region = 'US', dt = '20250811') "
            "VALUES (1, 9, 'late')"
        )
    assert sorted(Path(twins.ours).rglob("*")) == before
    twins.check()
    twins.sql("ALTER TABLE `t$branch_delta` UNSET TBLPROPERTIES ('scan.fallback-snapshot-branch')")
    with pytest.raises(InvalidArgument, match="lacks the option scan"):
        twins.sql("TRUNCATE TABLE `t$branch_delta`")


def test_new_deltas_need_no_partition_that_only_old_ones_needed(
    oracle_2_0_0: Oracle, tmp_path: Path
) -> None:
    twins = Twins(oracle_2_0_0, tmp_path)
    twins.overwrite("snapshot", "CN/20250810", [[1, 1, "a"]])
    twins.overwrite("delta", "CN/20250810", [[1, 2, "b"]])
    twins.overwrite("snapshot", "CN/20250810", [[1, 3, "c"]])
    twins.overwrite("delta", "CN/20250811", [[2, 1, "d"]])
    # The deltas of the 11th go with the complete partition of the 10th.
    twins.both(
        "INSERT OVERWRITE `t$branch_delta` VALUES (3, 1, 'new', 'CN', '20250809')",
        "overwrite",
        branch="delta",
        partition={},
        rows=[[3, 1, "new", "CN", "20250809"]],
        options={"dynamic-partition-overwrite": "false"},
    )
    twins.check()
    assert twins.sql("SHOW PARTITIONS `t$branch_snapshot`") == []
    assert twins.sql("SHOW PARTITIONS `t$branch_delta`") == [["region=CN/dt=20250809"]]


def _read_and_overwrite(
    twins: Twins, branch: str = "delta", rows: str = "(2, 2, 'c'), (3, 1, 'd')"
) -> Callable[..., Iterator[Any]]:
    """`read_chain` during which another writer replaces what it reads, by the same rows, or others."""

    def read(*given: Any, **named: Any) -> Iterator[Any]:
        yield from read_chain(*given, **named)
        twins.sql(
            f"INSERT OVERWRITE `t$branch_{branch}` PARTITION (region = 'CN', dt = '20250811') "
            f"VALUES {rows}"
        )

    return read


def test_chains_are_compacted_into_the_snapshot_branch(
    oracle_2_0_0: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins = Twins(oracle_2_0_0, tmp_path)
    twins.overwrite("snapshot", "CN/20250810", [[1, 1, "a"], [2, 1, "b"]])
    twins.overwrite("delta", "CN/20250811", [[2, 2, "c"], [3, 1, "d"]])
    twins.overwrite("delta", "US/20250811", [[5, 2, "e"]])
    before = twins.java.rows(warehouse=twins.ours)
    call = "CALL sys.compact_chain_table(table => 'default.t', partition => '{}'{})"
    cn = 'region="CN",dt="20250811"'
    with monkeypatch.context() as patched:
        patched.setattr(compact_chain, "read_chain", _read_and_overwrite(twins))
        with pytest.raises(CommitConflict, match="changed while the partition was merged"):
            twins.sql(call.format(cn, ""))
    assert "20250811" not in str(twins.java.rows(warehouse=twins.ours, branch="snapshot"))
    assert twins.sql(call.format(cn, "")) == [[True]]
    assert twins.sql(call.format(cn, "")) == [[False]]
    rows = twins.java.rows(warehouse=twins.ours, branch="snapshot")
    assert [r[1:] for r in rows if r[5] == "20250811"] == [
        [1, 1, "a", "CN", "20250811"],
        [2, 2, "c", "CN", "20250811"],
        [3, 1, "d", "CN", "20250811"],
    ]
    assert twins.java.rows(warehouse=twins.ours) == before
    # What follows no longer reads the earlier partition, and an overwrite merges it once more.
    twins.sql("INSERT INTO `t$branch_delta` VALUES (3, 9, 'new', 'CN', '20250811')")
    assert twins.sql(call.format(cn, ", overwrite => true")) == [[True]]
    assert twins.sql(call.format('dt="20250811"', ", overwrite => true")) == [[True]]
    rows = twins.java.rows(warehouse=twins.ours, branch="snapshot")
    assert [r[1:4] for r in rows if r[5] == "20250811"] == [
        [1, 1, "a"],
        [2, 2, "c"],
        [3, 9, "new"],
        [5, 2, "e"],
    ]
    assert twins.sql(call.format('dt="20250901"', "")) == [[False]]
    with pytest.raises(UnsupportedFeature, match=r"t\$branch_delta"):
        twins.sql("DELETE FROM t WHERE k = 1")


def test_compacted_chains_keep_nulls_from_before_a_default_value(
    oracle_2_0_0: Oracle, tmp_path: Path
) -> None:
    twins = Twins(oracle_2_0_0, tmp_path)
    for branch, day, rows in (
        ("snapshot", "20250810", "(1, 1, NULL), (2, 1, 'b')"),
        ("delta", "20250811", "(2, 2, NULL), (3, 1, 'd')"),
    ):
        place = f"`t$branch_{branch}` PARTITION (region = 'CN', dt = '{day}')"
        twins.sql(f"INSERT OVERWRITE {place} VALUES {rows}")
        twins.sql(f"ALTER TABLE `t$branch_{branch}` ALTER COLUMN w SET DEFAULT 'none'")
    partition = 'region="CN",dt="20250811"'
    assert twins.sql(
        f"CALL sys.compact_chain_table(table => 'default.t', partition => '{partition}')"
    ) == [[True]]
    found = twins.java.rows(warehouse=twins.ours, branch="snapshot")
    assert [r[1:4] for r in found if r[5] == "20250811"] == [
        [1, 1, None],
        [2, 2, None],
        [3, 1, "d"],
    ]


@pytest.mark.parametrize("more", ["", ", overwrite => true"])
def test_a_partition_that_others_complete_meanwhile_stays(
    oracle_2_0_0: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    twins = Twins(oracle_2_0_0, tmp_path)
    twins.overwrite("snapshot", "CN/20250810", [[1, 1, "a"], [2, 1, "b"]])
    twins.overwrite("delta", "CN/20250811", [[2, 2, "c"]])
    if more:
        twins.overwrite("snapshot", "CN/20250811", [[1, 1, "a"], [2, 2, "c"]])
    others = _read_and_overwrite(twins, "snapshot", "(9, 9, 'theirs')")
    monkeypatch.setattr(compact_chain, "read_chain", others)
    call = (
        "CALL sys.compact_chain_table(table => 'default.t', "
        'partition => \'region="CN",dt="20250811"\'{})'
    )
    with pytest.raises(CommitConflict, match=r"branch snapshot .* changed while the partition"):
        twins.sql(call.format(more))
    rows = twins.java.rows(warehouse=twins.ours, branch="snapshot")
    assert [r[1:4] for r in rows if r[5] == "20250811"] == [[9, 9, "theirs"]]


# --- jobs ---------------------------------------------------------------------------------------


def _partitions(chain: Chain) -> dict[str, list[str]]:
    """The partitions of each branch that has any, as Java lists them."""
    found = {}
    for branch in BRANCHES:
        rows = chain.java.rows(branch=branch) if branch else chain.java.rows()
        found[branch] = sorted({"/".join(row[4:]) for row in rows})
    return found


def test_partitions_expire_by_segments_as_in_java(oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    options = {**DAILY, "chain-table.chain-partition-keys": "dt"}
    chain = Chain(oracle_2_0_0, tmp_path / "a", ["region", "dt"], options)
    for branch, partitions in {
        "snapshot": ("CN/20240101", "CN/20240201", "CN/20240301", "US/20240115"),
        "delta": (
            *("CN/20231220", "CN/20240110", "CN/20240210", "CN/20240315", "US/20240101"),
            *("US/20240120", "EU/20240101"),
        ),
        "": ("CN/20230101",),
    }.items():
        for number, partition in enumerate(partitions):
            chain.write(branch, partition, [[number, number, partition]])
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    age = (datetime.now(UTC).date() - date(2024, 3, 10)).days
    chain.java.one("expire_partitions", expiration_time=f"{age} d", strategy="values-time")
    theirs = _partitions(chain)
    rows = chain.check()
    ours = Chain.of(chain, tmp_path / "b")
    words = ("expire_partitions", "db.t", "-w", ours.lake, "--expiration-time", f"{age} d")
    ran = caretaker("run", *words, "--force", "--json")
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert _partitions(ours) == theirs
    assert ours.check() == rows
    assert "CN/20230101" in theirs[""]
    assert theirs["snapshot"] == ["CN/20240301", "US/20240115"]
    assert caretaker("run", *words, "--force").code == ExitCode.NOTHING_TO_DO


def test_jobs_keep_the_rows_of_a_chain(daily: Chain) -> None:
    daily.write("", "20231201", [[1, 1, "own"]])
    daily.write("", "20231201", [[2, 1, "own"]])
    daily.write("snapshot", "20240101", [[1, 1, "a"]])
    daily.write("snapshot", "20240101", [[1, 2, "b"]])
    daily.write("delta", "20240102", [[2, 3, "c"]])
    daily.write("delta", "20240102", [[2, 4, "d"]])
    rows = daily.check()
    expire = ("--retain-max", 1, "--retain-min", 1, "--older-than", "2100-01-01")
    for branch in ((), ("--branch", "snapshot"), ("--branch", "delta")):
        for words in (
            ("create_tag", "--tag", "kept"),
            ("compact_manifest",),
            ("expire_snapshots", *expire),
        ):
            ran = caretaker(
                "run", words[0], "db.t", "-w", daily.lake, "--force", *words[1:], *branch
            )
            assert ran.code in {ExitCode.SUCCESS, ExitCode.NOTHING_TO_DO}, ran.err
            assert daily.check() == rows
    age_all(daily.lake)
    orphans = caretaker("run", "remove_orphan_files", "db.t", "-w", daily.lake, "--force")
    assert orphans.code in {ExitCode.SUCCESS, ExitCode.NOTHING_TO_DO}, orphans.err
    assert daily.check() == rows
    for branch in ("snapshot", "delta"):
        for job in (
            ("drop_partition", "--partition", "dt=20240101"),
            ("expire_partitions", "--expiration-time", "1 d"),
            ("compact", "--engine", "local"),
        ):
            named = ("db.t", "-w", daily.lake, "--branch", branch, "--force")
            ran = caretaker("run", job[0], *named, *job[1:])
            assert ran.code == ExitCode.REFUSED, (job, ran.out)
            assert "chain-table.enabled" in ran.err
    ran = caretaker("run", "drop_partition", "db.t", "-w", daily.lake, "--partition=dt=20231201")
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert daily.check() == [r for r in rows if r[4] != "20231201"]
