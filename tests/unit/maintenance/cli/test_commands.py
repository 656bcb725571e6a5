"""The command line as people and schedulers use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
from command_line import caretaker, in_order, read_rows
from lakes import Lake

from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.registry import JOBS
from paimon_maintenance.verify.findings import Finding, Problem, Severity

CHECKOUT = Path(__file__).parents[4]


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key("db.t", buckets=2)
    lake.fill(3)
    lake.log("db.log", compaction_min_file__num="2")
    lake.fill(3, name="db.log")
    lake.primary_key("db.empty")
    return lake


def in_a_process(*words: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(str(CHECKOUT / p) for p in ("", "maintenance", "plugins", "dags"))
    return subprocess.run(
        [sys.executable, "-m", "paimon_maintenance.cli", *words],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )


# --- help ---------------------------------------------------------------------------------------


def test_help_names_every_command_and_exit_code():
    ran = in_a_process("--help")
    assert ran.returncode == 0
    for command in ("read", "files", "inspect", "plan", "run", "verify", "demo", "python", "test"):
        assert f"\n    {command} " in ran.stdout
    for code in ExitCode:
        assert f"{int(code)}  {code.meaning}" in ran.stdout


def test_help_starts_fast_and_imports_nothing_heavy():
    script = (
        "import sys; from paimon_maintenance.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pyarrow', 'numpy', 'pyspark', 'fastavro', 'rich', 'fsspec'} & set(sys.modules)\n"
        "print(heavy, file=sys.stderr); sys.exit(len(heavy))"
    )
    started = os.times().children_user
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'maintenance'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert os.times().children_user - started < 3  # of CPU: others may be at work


@pytest.mark.sampled
@pytest.mark.parametrize("job", JOBS.values(), ids=lambda j: j.name)
@pytest.mark.parametrize("command", ["plan", "run"])
def test_help_of_a_job_shows_its_arguments_and_examples(job, command):
    ran = in_a_process(command, job.name, "--help")
    assert ran.returncode == 0
    for argument in job.arguments:
        assert argument.option in ran.stdout
        # No line ends inside a word: examples are there to be copied.
        assert all(word in ran.stdout for word in (argument.example or "").split())
    for example in job.examples:
        assert example in ran.stdout


def test_the_version_is_told_in_a_checkout_too():
    project = (Path(__file__).resolve().parents[4] / "pyproject.toml").read_text()
    assert f'\nversion = "{in_a_process("--version").stdout.strip()}"\n' in project


def test_what_was_mistyped_is_named_with_the_help_of_its_job(lake):
    ran = caretaker("run", "expire_snapshots", "db.t", "-w", lake.warehouse, "--retian-max", 1)
    assert ran.code == 2
    assert "--retian-max 1 -> see caretaker run expire_snapshots --help" in ran.err


# --- usage --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("nothing",),
        ("read",),
        ("run", "nothing", "db.t"),
        ("run", "compact", "db.t", "--limit", "1"),
        ("read", "db.t", "-w", "/w", "--snapshot", "one"),
        ("read", "db.t", "-w", "/w", "--snapshot", "1", "--tag", "x"),
        ("read", "db.*", "-w", "/w"),
        ("read", "t", "-w", "/w"),
        ("files", "db.nothing", "-w", "/nowhere"),
        ("run", "compact", "db.t", "-w", "/w", "--strategy", "all"),
        ("run", "compact", "db.t", "-w", "/w", "--timezone", "Moon/Base", "--engine", "local"),
        ("plan", "compact", "db.t", "-w", "/w", "--timezone", "Moon/Base"),
        ("read", "db.t", "-w", "/w", "--timezone", "Moon/Base"),
        ("run", "compact", "db.t", "-w", "/w", "--max-rewrite", "lots", "--engine", "local"),
        ("plan", "compact", "db.t", "-w", "/w", "--storage", "x"),
        ("test",),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(words):
    ran = caretaker(*words)
    assert ran.code == 2, ran.err
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert " -> " in ran.err


def test_errors_are_objects_with_json():
    ran = caretaker("read", "db.t", "-w", "/nowhere", "--json")
    assert ran.code == 2
    assert set(ran.json["error"]) == {
        "type",
        "message",
        "next_step",
        "table",
        "snapshot",
        "file",
    }
    assert ran.json["error"]["type"] == "NotFound"
    assert ran.json["exit_code"] == 2
    assert ran.err.startswith("error: ")


def test_the_warehouse_comes_from_the_environment(lake, monkeypatch):
    assert caretaker("read", "db.t").code == 2
    monkeypatch.setenv("CARETAKER_WAREHOUSE", str(lake.warehouse))
    assert len(caretaker("read", "db.t").rows) == 10


# --- read ---------------------------------------------------------------------------------------


def test_read_projects_filters_and_limits(lake):
    ran = caretaker(
        *("read", "db.t", "-w", lake.warehouse, "--columns", "v,k", "--where", "k >= 8")
    )
    assert in_order(ran.rows) == [["+I", "v28", 8], ["+I", "v29", 9]]
    assert len(caretaker("read", "db.t", "-w", lake.warehouse, "--limit", "3").rows) == 3
    assert caretaker("read", "db.t", "-w", lake.warehouse, "--limit", "0").out == ""
    assert read_rows(lake.warehouse, "--where", "k = 1") == [["+I", 1, "v21"]]


def test_read_of_the_past(lake):
    table = lake.table()
    first = table.snapshots.get(1)
    from paimon_core.refs.tags import Tag

    table.tags.create(Tag("start", first))
    told = [["+I", 1, "v1"]]
    where = ("--where", "k = 1")
    assert read_rows(lake.warehouse, "--snapshot", 1, *where) == told
    assert read_rows(lake.warehouse, "--tag", "start", *where) == told
    assert read_rows(lake.warehouse, "--timestamp", first.time_millis, *where) == told
    clock = datetime.fromtimestamp(first.time_millis / 1000, UTC).isoformat()
    assert read_rows(lake.warehouse, "--timestamp", clock, *where) == told
    tokyo = datetime.fromtimestamp(first.time_millis / 1000, ZoneInfo("Asia/Tokyo"))
    words = ("--timestamp", tokyo.replace(tzinfo=None).isoformat(), "--timezone", "Asia/Tokyo")
    assert read_rows(lake.warehouse, *words, *where) == told
    files = ("files", "db.t", "-w", lake.warehouse, "--json")
    assert caretaker(*files, *words).json == caretaker(*files, "--snapshot", 1).json
    for wrong in (("--snapshot", 99), ("--tag", "no"), ("--timestamp", 1), ("--branch", "no")):
        assert caretaker("read", "db.t", "-w", lake.warehouse, *wrong).code == 2


def test_read_names_wrong_columns(lake):
    for words in (("--columns", "k,nope"), ("--columns", ","), ("--where", "nope = 1")):
        assert caretaker("read", "db.t", "-w", lake.warehouse, *words).code == 2


def test_read_of_an_empty_table_prints_nothing(lake):
    ran = caretaker("read", "db.empty", "-w", lake.warehouse)
    assert (ran.code, ran.out) == (0, "")


def test_a_reader_may_stop_early(lake):
    lake.append({"k": list(range(50_000)), "v": ["x" * 20] * 50_000}, "db.log")
    paths = os.pathsep.join(str(CHECKOUT / p) for p in ("", "maintenance", "plugins", "dags"))
    command = f"'{sys.executable}' -m paimon_maintenance.cli read db.log -w '{lake.warehouse}'"
    ran = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -1"],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert json.loads(ran.stdout)[0] == "+I"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("create_tag", "db.t"), "create_tag is a job -> use caretaker plan create_tag, or"),
        (
            ("plan", "rollback_to_timestamp", "db.t"),
            "use caretaker run rollback DATABASE.TABLE --t",
        ),
        (
            ("inspct", "db.t"),
            "unknown command 'inspct'; did you mean inspect? -> see caretaker --help",
        ),
        (("compct", "db.t"), "did you mean run compact?"),
        (("zzz", "db.t"), "unknown command 'zzz' ->"),
        (("run", "expire_snapshot", "db.t"), "did you mean expire_snapshots?"),
        (("plan", "compact", "db.x*"), "`caretaker tables 'db.*'` lists the tables"),
        (("plan", "compact", "db.t", "--option", "write-onyl=true"), "did you mean write-only?"),
        (("read", "db.t", "--option", "scan.modee=latest"), "did you mean scan.mode?"),
        (("read", "db.t", "--option", "scan.mode=last"), "-> correct the scan options"),
        (("read", "db.t", "--timestamp", "x"), "argument --timestamp: invalid time 'x'"),
        (("sql", "SELECT 1"), "-> give statements with -e; see caretaker sql --help"),
        (("plan", "zzz", "db.t"), "unknown job 'zzz' (known jobs: analyze, "),
        (("plan", "compact", "db.t", "--order-by", "v"), "(an argument of sort_compact)"),
        (("plan", "compact", "db.t", "--parallelism", "0"), "--parallelism: 0 is less than 1"),
        (("run", "compact", "db.t", "--max-attempts", "0"), "'0' is less than 1"),
        (("plan", "compact", "db.t", "--option", "bucket=-1"), "leave the option bucket as the"),
        (("plan", "delete_tag", "db.t", "--tag", "x"), "caretaker inspect"),
        (("plan", "delete_branch", "db.t", "--name", "x"), "caretaker inspect"),
        (("plan", "create_branch", "db.t", "--name", "b", "--tag", "x"), "caretaker inspect"),
        (("read", "db.t", "--tag", "x"), "caretaker inspect"),
        (
            ("plan", "reset_consumer", "db.t", "--consumer-id", "x"),
            "caretaker inspect",
        ),
        (("plan", "compact", "db.t", "--option", "target-file-size=x"), "where it was given"),
        (("plan", "expire_snapshots", "db.t", "--option", "snapshot.num-retained.min=x"), "whole"),
        (
            ("plan", "expire_snapshots", "db.t", "--older-than", "x"),
            "argument --older-than: invalid",
        ),
        (("plan", "expire_snapshots", "db.t", "--retain-max", "1"), "10 (retain_min, num-retained"),
        (
            ("plan", "rollback", "db.t", "--timestamp", "x"),
            "argument --timestamp: invalid time 'x'",
        ),
    ],
)
def test_what_was_mistyped_is_told_with_what_to_type(lake, words, told):
    ran = caretaker(*words, "-w", lake.warehouse)
    assert ran.code == 2
    assert told in ran.err
    assert ran.err.count("->") == 1


def test_words_of_the_procedures_are_taken(lake):
    where = ("db.t", "-w", lake.warehouse)
    assert caretaker("plan", "expire-snapshots", *where, "--retain_max", 1).code == 2  # the least
    ran = caretaker("run", "reset_consumer", *where, "--consumerId", "c", "--nextSnapshotId=2")
    assert ran.code == 0, ran.err
    assert lake.table().consumers.get("c").next_snapshot == 2


@pytest.mark.parametrize("words", [("read",), ("inspect",), ("plan", "compact"), ("verify",)])
def test_damage_is_told_with_the_table(lake, words):
    paths = lake.table().paths
    for file in Path(paths.manifest_dir).glob("manifest-*-0"):
        file.write_bytes(b"broken")
    ran = caretaker(*words, "db.t", "-w", lake.warehouse, "--json")
    assert ran.code == 7
    if words != ("verify",):
        error = ran.json["error"] if words != ("read",) else json.loads(ran.out)["error"]
        assert (error["table"], error["type"]) == ("db.t", "CorruptTable")
        assert "ValueError" not in error["message"]
        assert error["file"] in error["message"]


# --- files, inspect -----------------------------------------------------------------------------


def test_files_are_those_of_the_oracle(golden):
    table = golden("partitions_pk_overwrite")
    ran = caretaker("files", "db.t", "-w", table.warehouse, "--json")
    last = max(table.expected["files"], key=lambda s: int(s.removeprefix("snapshot-")))
    java = table.expected["files"][last]
    assert ran.json["snapshot"] == java["snapshot"]
    ours = {f["file"]: f for f in ran.json["files"]}
    for file in java["files"]:
        told = ours.pop(file["file"])
        assert {k: told[k] for k in file} == file
    assert ours == {}


def test_files_of_an_older_snapshot(lake):
    old = caretaker("files", "db.t", "-w", lake.warehouse, "--snapshot", 1, "--json").json
    assert len(old["files"]) == 2
    assert "3: 6 files" in caretaker("files", "db.t", "-w", lake.warehouse).out


def test_inspect_tells_what_to_do(lake):
    lake.fill(6)
    health = caretaker("inspect", "db.t", "-w", lake.warehouse, "--json").json
    assert health["files"] == 18
    assert health["buckets"]["most_sorted_runs"] == 9
    assert health["snapshots"]["count"] == 9
    urgent = health["advice"][0]
    assert urgent["urgency"] == "urgent"
    assert urgent["command"] == "caretaker run compact db.t --strategy full"
    text = caretaker("inspect", "db.t", "-w", lake.warehouse).out
    assert "urgent" in text
    # What is advised can be typed as it stands.
    assert f"-> {urgent['command']} -w {lake.warehouse}" in text
    many = caretaker("inspect", "db.*", "-w", lake.warehouse, "--json").json
    assert [t["table"] for t in many["tables"]] == ["db.empty", "db.log", "db.t"]


def test_inspect_tells_refs_and_what_old_snapshots_hold(lake):
    caretaker("run", "compact", "db.t", "-w", lake.warehouse, "--engine", "local")
    lake.table().consumers.set("c1", 2)
    health = caretaker("inspect", "db.t", "-w", lake.warehouse, "--json").json
    assert health["held_by_old_snapshots"]["files"] == 6
    (consumer,) = health["consumers"]
    assert (consumer["id"], consumer["lag_snapshots"]) == ("c1", 3)
    # It has yet to read snapshot 2; all six files went with the compaction after it.
    assert consumer["held"]["files"] == 6
    assert consumer["held"]["bytes"] == health["held_by_old_snapshots"]["bytes"]
    since = lake.table().snapshots.get(2).time_millis
    assert (
        consumer["held_millis"] == consumer["last_seen_millis"] + consumer["silent_millis"] - since
    )
    text = caretaker("inspect", "db.t", "-w", lake.warehouse).out
    assert "c1 (next 2, 3 behind, retains " in text


def test_a_consumer_that_has_read_everything_holds_nothing_back(lake):
    caretaker("run", "compact", "db.t", "-w", lake.warehouse, "--engine", "local")
    lake.table().consumers.set("c1", 5)
    lake.table().consumers.set("c2", 4)
    one, other = caretaker("inspect", "db.t", "-w", lake.warehouse, "--json").json["consumers"]
    assert one["held"] == other["held"] == {"files": 0, "bytes": 0}
    assert one["held_millis"] == 0 < other["held_millis"]


def test_inspect_of_a_table_without_snapshots(lake):
    assert "snapshots   none" in caretaker("inspect", "db.empty", "-w", lake.warehouse).out


@pytest.mark.parametrize("name", ["tags_branches", "deletion_vectors", "postpone", "pk_types"])
def test_inspect_works_on_any_table(golden, name):
    table = golden(name)
    ran = caretaker("inspect", "db.t", "-w", table.warehouse, "--json")
    assert ran.code == 0, ran.err
    assert len(ran.json["tags"]) == len(table.expected["tags"])


# --- plan, run ----------------------------------------------------------------------------------


def test_plan_is_what_a_run_then_does(lake):
    plan = caretaker("plan", "compact", "db.t", "-w", lake.warehouse, "--json")
    assert plan.code == 0
    assert plan.json["snapshot"]["id"] == 3
    assert plan.json["effect"]["rewritten_files"] == 6
    assert not plan.json["empty"]
    assert lake.table().snapshots.latest_id() == 3
    ran = caretaker("run", "compact", "db.t", "-w", lake.warehouse, "--engine", "local", "--json")
    assert ran.code == 0
    assert ran.json["before"]["files"] == 6
    assert ran.json["snapshots"] == [4]
    again = caretaker("plan", "compact", "db.t", "-w", lake.warehouse, "--json")
    assert again.code == 3
    assert again.json["empty"]
    assert again.json["kept"][0]["count"] == 2
    text = caretaker("plan", "compact", "db.t", "-w", lake.warehouse)
    assert "nothing to do" in text.out


@pytest.mark.parametrize(
    "option", ["merge-engine=aggregation", "deletion-vectors.enabled=true", "bucket=-1"]
)
@pytest.mark.parametrize(
    "words",
    [
        ("plan", "compact", "db.t"),
        ("run", "compact", "db.t", "--engine", "local"),
        ("read", "db.t"),
    ],
    ids=" ".join,
)
def test_a_run_cannot_make_another_table_of_it(lake, words, option):
    """With another merge engine, rows would be merged that replace each other."""
    ran = caretaker(*words, "-w", lake.warehouse, "--option", option)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert lake.table().snapshots.latest_id() == 3


def test_a_dry_run_prints_the_plan(lake):
    told = ("run", "compact", "db.t", "-w", lake.warehouse, "--dry-run")
    assert caretaker(*told, "--json").json["plan"]["effect"]["rewritten_files"] == 6
    assert "rewrite 3 files" in caretaker(*told).out
    assert lake.table().snapshots.latest_id() == 3


def test_a_whole_database(lake):
    words = ("compact", "db.*", "-w", lake.warehouse, "--excluding", ".*log")
    plans = caretaker("plan", *words, "--json")
    assert [p["table"] for p in plans.json["plans"]] == ["db.empty", "db.t"]
    ran = caretaker("run", *words, "--engine", "local", "--json")
    assert ran.code == 0
    assert [r["status"] for r in ran.json["reports"]] == ["nothing_to_do", "success"]
    again = caretaker("run", *words, "--engine", "local", "--json")
    assert again.code == again.json["exit_code"] == 3
    text = caretaker("run", "compact", "db.*", "-w", lake.warehouse, "--engine", "local")
    assert "compact db.log: success" in text.out


def test_one_table_s_failure_does_not_stop_the_others(lake):
    lake.from_the_future("db.agg")
    ran = caretaker("run", "compact", "db.*", "-w", lake.warehouse, "--engine", "local", "--json")
    assert ran.code == 4
    told = {r["table"]: r["exit_code"] for r in ran.json["reports"]}
    assert told == {"db.agg": 4, "db.empty": 3, "db.log": 0, "db.t": 0}
    assert ran.json["reports"][0]["error"]["feature"] == "merge-engine=telepathy"
    plans = caretaker("plan", "compact", "db.*", "-w", lake.warehouse, "--json")
    assert plans.code == 4
    assert plans.json["plans"][0]["error"]["type"] == "UnsupportedFeature"


def test_guards_and_metrics(lake, tmp_path):
    metrics = tmp_path / "caretaker.prom"
    words = ("run", "compact", "db.t", "-w", lake.warehouse, "--engine", "local")
    ran = caretaker(*words, "--max-rewrite", "1 kb", "--metrics-file", metrics, "--json")
    assert ran.code == 6
    assert ran.json["error"]["type"] == "GuardTripped"
    assert 'outcome="failed"' in metrics.read_text()
    ran = caretaker(
        *words,
        "--max-rewrite",
        "1 kb",
        "--force",
        "--metrics-file",
        tmp_path / "no" / "x",
        "--json",
    )
    assert ran.code == 0
    assert ran.json["status"] == "success"
    assert "cannot write metrics" in ran.err


def test_spark_is_not_started_for_nothing(lake, monkeypatch):
    import paimon_maintenance.engines.spark.session

    def never(*_, **__):
        raise AssertionError("Spark was started")

    monkeypatch.setattr(paimon_maintenance.engines.spark.session, "_start", never)
    words = ("compact", "db.t", "-w", lake.warehouse)
    assert caretaker("plan", *words).code == 0
    assert caretaker("run", *words, "--dry-run").code == 0
    assert caretaker("run", *words, "--max-rewrite", "1 b").code == 6
    assert caretaker("run", *words, "--engine", "local").code == 0
    assert caretaker("run", *words).code == 3
    assert caretaker("run", "compact", "db.empty", "-w", lake.warehouse).code == 3


def test_a_corrupt_table_is_named(lake):
    (Path(lake.table().root) / "snapshot" / "snapshot-3").write_text("{")
    for words in (("read", "db.t"), ("plan", "compact", "db.t"), ("files", "db.t")):
        ran = caretaker(*words, "-w", lake.warehouse, "--json")
        assert ran.code == 7, words
        assert ran.json["error"]["file"].endswith("snapshot-3")
        assert "verify" in ran.json["error"]["next_step"]


@pytest.mark.parametrize("words", [("read",), ("plan", "compact"), ("run", "compact")])
def test_storage_that_refuses_is_one_line(lake, words):
    snapshot = Path(lake.table().root) / "snapshot" / "snapshot-3"
    snapshot.unlink()
    snapshot.symlink_to("/proc/self/mem")  # opens, but fails to read: EIO
    ran = caretaker(*words, "db.t", "-w", lake.warehouse)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert "snapshot-3" in ran.err
    assert "check that the storage is reachable" in ran.err


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (("primaryKeys", ["zz"]), 7, "zz"),
        (("partitionKeys", ["zz"]), 7, "zz"),
        (("options", {"bucket": "2", "sequence.field": "zz"}), 4, "sequence.field=zz"),
    ],
    ids=["primary_key", "partition_key", "sequence_field"],
)
def test_a_schema_that_speaks_of_no_column(lake, change, code, said):
    newest = Path(lake.table().root) / "schema" / "schema-0"
    newest.write_text(json.dumps({**json.loads(newest.read_text()), **dict([change])}))
    for words in (("read", "db.t"), ("plan", "compact", "db.t"), ("plan", "rescale", "db.t")):
        ran = caretaker(*words, "-w", lake.warehouse)
        assert ran.code == code, (words, ran.err)
        assert said in ran.err


def test_options_that_cannot_be_set_stop_a_plan(lake):
    """Rescale would set an option, which such a schema does not take: so nothing is tagged first."""
    newest = Path(lake.table().root) / "schema" / "schema-0"
    told = json.loads(newest.read_text())
    told["options"]["snapshot.num-retained.min"] = "0"
    newest.write_text(json.dumps(told))
    ran = caretaker("run", "rescale", "db.t", "-w", lake.warehouse, "--bucket-num", "3")
    assert ran.code == 2
    assert "num-retained" in ran.err
    assert lake.table().tags.all() == []
    assert caretaker("inspect", "db.t", "-w", lake.warehouse).code == 0


def test_damage_found_after_the_commit_says_that_it_is_committed(lake, monkeypatch):
    finding = Finding(
        problem=Problem.MISSING_INDEX_FILE, severity=Severity.ERROR, message="f is missing"
    )
    found = SimpleNamespace(findings=[finding])
    monkeypatch.setattr("paimon_maintenance.run.runner.check_table", lambda *_: found)
    ran = caretaker("run", "compact", "db.t", "-w", lake.warehouse, "--engine", "local")
    assert ran.code == 7
    assert "the commit is visible" in ran.err
    assert "the run did not change the table" not in ran.err
    assert lake.table().snapshots.latest_id() == 4


def test_a_plan_goes_by_the_clock_of_the_zone_that_is_named(lake):
    """What is 12:00 in one zone is still to come in another."""
    newest = lake.table().snapshots.latest()
    assert newest is not None
    at = datetime.fromtimestamp(newest.time_millis / 1000, UTC)
    older_than = f"{at + timedelta(hours=3):%Y-%m-%d %H:%M:%S}"

    def going(zone: str) -> list[int]:
        words = ("--older-than", older_than, "--retain-min", "1", "--timezone", zone, "--json")
        plan = caretaker("plan", "expire_snapshots", "db.t", "-w", lake.warehouse, *words)
        return [n for action in plan.json["actions"] for n in action["snapshots"]]

    assert going("UTC") == [1, 2]
    # There, that time of day was twelve hours ago.
    assert going("Pacific/Auckland") == []


def test_rows_are_read_by_the_clock_of_the_zone_that_is_named(lake):
    def committed(zone: str) -> str:
        words = ("--columns", "commit_time", "--limit", "1", "--timezone", zone)
        return caretaker("read", "db.t$snapshots", "-w", lake.warehouse, *words).rows[0][1]

    assert committed("Asia/Tokyo") != committed("UTC")


def test_looking_at_a_table_imports_no_formats_engines_or_database(lake):
    script = (
        "import sys; from paimon_maintenance.cli.main import main\n"
        f"code = main(['inspect', 'db.t', '-w', {str(lake.warehouse)!r}])\n"
        "core = ('format.data_format', 'format.orc', 'format.parquet', 'lsm.aggregates', 'lsm.tree')\n"
        "heavy = ['pyarrow.parquet', 'pyarrow.fs', 'sqlalchemy', 'pyspark', 'rich', 'fsspec']\n"
        "heavy += [f'paimon_core.{name}' for name in core]\n"
        "found = [name for name in heavy if name in sys.modules]\n"
        "print(found, file=sys.stderr); sys.exit(code or len(found))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'maintenance'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
