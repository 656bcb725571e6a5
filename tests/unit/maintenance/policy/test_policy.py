"""Policy files: what they make of a table, and what is said about wrong ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from paimon_core.errors import InvalidArgument, NotFound
from paimon_maintenance.jobs.maintain.step_plans import chosen_steps
from paimon_maintenance.policy.load import load_policy, read_policy
from paimon_maintenance.policy.schedule import wrong_schedule
from paimon_maintenance.registry import JOBS, job_named

ROOT = Path(__file__).resolve().parents[4]

POLICY = """\
version: 1
rules:
  - name: everything
    tables: "*.*"
    excluding: ["*.tmp_*"]
    options: &keep
      snapshot.num-retained.min: 10
      tag.automatic-creation: process-time
    guards: { max_deleted_share: 0.3 }
    jobs:
      compact:
        schedule: "*/30 * * * *"
        arguments: { strategy: minor }
        guards: { max_rewrite: 500 gb }
      expire_snapshots:
        arguments: { retain-max: 100 }
      trigger_tag_automatic_creation:
        arguments: { when_idle: latest }
  - tables: [sales.*, crm.contacts]
    options:
      <<: *keep
      snapshot.time-retained: 2 d
    jobs:
      compact:
        schedule: "@hourly"
        arguments: { partition_idle_time: 1 h }
      remove_orphan_files: { schedule: "0 3 * * sun" }
  - name: archive
    tables: sales.archive
    jobs: { compact: off, remove_orphan_files: { schedule: null } }
"""


@pytest.fixture
def policy():
    return read_policy(POLICY, "policy.yaml")


def test_later_rules_add_to_earlier_ones_key_by_key(policy):
    orders = policy.for_table("sales.orders")
    assert orders.rules == ("everything", "rule 2")
    assert orders.options == {
        "snapshot.num-retained.min": "10",
        "tag.automatic-creation": "process-time",
        "snapshot.time-retained": "2 d",
    }
    compact = orders.job("compact")
    assert compact.schedule == "@hourly"
    assert compact.arguments == {"strategy": "minor", "partition_idle_time": "1 h"}
    assert compact.guards.to_json() == {"max_deleted_share": 0.3, "max_rewrite": "500 gb"}
    assert orders.job("expire_snapshots").arguments == {"retain_max": "100"}


def test_a_job_can_be_switched_off_or_left_to_hands(policy):
    archive = policy.for_table("sales.archive")
    assert not archive.job("compact").enabled
    assert archive.job("remove_orphan_files").enabled
    assert archive.job("remove_orphan_files").schedule is None
    assert archive.to_json()["disabled"] == ["compact"]


def test_tables_of_no_rule_have_no_job(policy):
    assert policy.for_table("db.tmp_1").jobs == {}
    assert policy.for_table("db.tmp_1").rules == ()


def test_every_table_runs_on_exactly_the_schedules_of_its_jobs(policy):
    schedules = {(s.job, s.schedule): s.tables for s in policy.schedules()}
    assert schedules == {
        ("compact", "*/30 * * * *"): ("*.*", "sales.*", "crm.contacts", "sales.archive"),
        ("compact", "@hourly"): ("*.*", "sales.*", "crm.contacts", "sales.archive"),
        ("remove_orphan_files", "0 3 * * sun"): ("sales.*", "crm.contacts", "sales.archive"),
    }
    for table in ("sales.orders", "sales.archive", "db.t", "db.tmp_1", "crm.contacts"):
        due = {key for key in schedules if policy.runs_on(table, *key)}
        assert due == {
            (job.job, job.schedule)
            for job in policy.for_table(table).jobs.values()
            if job.enabled and job.schedule is not None
        }


def wrong(text):
    with pytest.raises(InvalidArgument) as caught:
        read_policy(text, "p.yaml")
    return caught.value.message


HEAD = "version: 1\nrules:\n"


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("", "p.yaml:", "empty"),
        ("version: 2\nrules: []", "p.yaml:1: version:", "version 1"),
        ("rules: []", "p.yaml:1:", "`version: 1` is missing"),
        ("version: 1", "p.yaml:1:", "`rules` is missing"),
        ("version: 1\nrules: {a: b}", "p.yaml:2: rules:", "expected a list"),
        ("version: 1\nrules: [\n", "p.yaml:3:", "not valid YAML"),
        (HEAD + "  - tables: db.*\n    job: {}", "p.yaml:4: rules[0].job:", "unknown key 'job'"),
        (HEAD + "  - jobs: {}", "p.yaml:3: rules[0]:", "`tables` is missing"),
        (
            HEAD + "  - tables: orders",
            "p.yaml:3: rules[0].tables:",
            "'orders' is not a database.table pattern",
        ),
        (HEAD + "  - tables: []", "p.yaml:3: rules[0].tables:", "the list of tables is empty"),
        (
            HEAD + "  - tables: db.*\n    tables: db.x",
            "p.yaml:4: rules[0].tables:",
            "duplicate key",
        ),
        (
            HEAD + "  - {name: a, tables: d.*}\n  - {name: a, tables: d.*}",
            "p.yaml:4: rules[1]:",
            "duplicate rule name 'a'",
        ),
        (
            HEAD + "  - tables: db.*\n    jobs:\n      compat: {}",
            "p.yaml:5: rules[0].jobs.compat:",
            "unknown job 'compat'; did you mean compact?",
        ),
        (
            HEAD + "  - tables: db.*\n    jobs:\n      compact:\n        schedule: '* * *'",
            "p.yaml:6: rules[0].jobs.compact.schedule:",
            "not a cron expression",
        ),
        (
            HEAD + "  - tables: db.*\n    jobs:\n      compact:\n        schedule: 61 * * * *",
            "p.yaml:6: rules[0].jobs.compact.schedule:",
            "'61' in '61 * * * *' is not a minute (0 to 59)",
        ),
        (
            HEAD
            + "  - tables: db.*\n    jobs:\n      compact:\n        arguments: {strategy: all}",
            "p.yaml:6: rules[0].jobs.compact.arguments.strategy:",
            "'all' is not one of full, minor",
        ),
        (
            HEAD
            + "  - tables: db.*\n    jobs:\n      compact:\n        arguments: {stratgy: full}",
            "p.yaml:6: rules[0].jobs.compact.arguments.stratgy:",
            "compact has no argument 'stratgy' (known arguments: ",
        ),
        (
            HEAD
            + "  - tables: db.*\n    jobs:\n      maintain:\n        arguments: {also: [rollback]}",
            "p.yaml:6: rules[0].jobs.maintain.arguments.also:",
            "'rollback' is not one of expire_changelogs",
        ),
        (
            HEAD + "  - tables: db.*\n    guards: {max_deleted_share: 30}",
            "p.yaml:4: rules[0].guards.max_deleted_share:",
            "not between 0 and 1",
        ),
        (
            HEAD + "  - tables: db.*\n    guards: {max_deleted_snapshots: some}",
            "p.yaml:4: rules[0].guards.max_deleted_snapshots:",
            "'some' is not a whole number",
        ),
        (
            HEAD + "  - tables: db.*\n    guards: {max_deleted_bytes: much}",
            "p.yaml:4: rules[0].guards.max_deleted_bytes:",
            "much",
        ),
        (
            HEAD + "  - tables: db.*\n    guards: {max_rewrite: much}",
            "p.yaml:4: rules[0].guards.max_rewrite:",
            "not a memory size",
        ),
        (
            HEAD + "  - tables: db.*\n    options: {tag.creation-delay: [1]}",
            "p.yaml:4: rules[0].options.tag.creation-delay:",
            "expected a single value",
        ),
        (
            HEAD + "  - tables: db.*\n    options: {bucket: 4}",
            "p.yaml:4: rules[0].options.bucket:",
            "is not a maintenance option",
        ),
        (
            HEAD + "  - tables: db.*\n    options: {snapshot.time-retained: soon}",
            "p.yaml:4: rules[0].options.snapshot.time-retained:",
            "not a duration: 'soon'",
        ),
        (
            HEAD + "  - tables: db.*\n    options: {snapshot.time-retaind: 1 d}",
            "p.yaml:4: rules[0].options.snapshot.time-retaind:",
            "did you mean snapshot.time-retained?",
        ),
        (
            HEAD + "  - tables: db.*\n    jobs:\n      maintain: {arguments: {without: [x]}}",
            "p.yaml:5: rules[0].jobs.maintain.arguments.without:",
            "'x' is not one of compact, ",
        ),
        (
            HEAD + "  - tables: db.*\n    jobs:\n      compact: {arguments: {parallelism: 0}}",
            "p.yaml:5: rules[0].jobs.compact.arguments.parallelism:",
            "0 is less than 1",
        ),
    ],
)
def test_an_error_names_file_line_and_key(text, place, reason):
    message = wrong(text)
    assert message.startswith(place)
    assert reason in message


def test_values_are_taken_as_they_are_written():
    text = HEAD + "  - tables: d.*\n    options: {tag.a: 010, tag.b: 12:30, tag.c: 2024-01-31}"
    found = read_policy(text, "p.yaml").for_table("d.t").options
    assert found == {"tag.a": "010", "tag.b": "12:30", "tag.c": "2024-01-31"}


def test_options_that_caretaker_does_not_know_and_spellings_of_procedures_are_taken():
    text = HEAD + (
        "  - tables: d.*\n"
        "    options: {partition.mark-done-action.url: u, tag.new-in-paimon-9: x}\n"
        "    jobs: {reset_consumer: {arguments: {consumerId: c, nextSnapshotId: 4}}}"
    )
    found = read_policy(text, "p.yaml").for_table("d.t")
    assert len(found.options) == 2
    assert found.arguments_of("reset_consumer") == {"consumer_id": "c", "next_snapshot_id": "4"}


def test_a_missing_file_is_not_found(tmp_path):
    with pytest.raises(NotFound, match=r"policy file .* does not exist"):
        load_policy(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("job", "arguments", "reason"),
    [
        ("expire_snapshots", "retain_min: 5, retain_max: 4", r"retain_min \(5\) is greater than"),
        ("expire_changelogs", "retainMin: 5, retain_max: '4'", r"retain_min \(5\) is greater than"),
        ("expire_snapshots", "retain_max: 4, retainMax: 5", "argument retain_max twice"),
        ("rescale", "bucket_num: 2, target_bytes: 1 gb", "only one of bucket_num, target_bytes"),
        ("analyze", "columns: [a], all_columns: true", "only one of columns, all_columns"),
        ("create_tag", "snapshot: 1, watermark: 2", "only one of snapshot, timestamp, watermark"),
    ],
)
def test_arguments_that_contradict_each_other_are_named(job, arguments, reason):
    told = wrong(f"{HEAD}  - tables: db.*\n    jobs:\n      {job}: {{arguments: {{{arguments}}}}}")
    assert re.search(rf"p.yaml:5: .*{job}.*{reason}", told), told


def test_arguments_that_fit_together_are_taken():
    read_policy(
        f"{HEAD}  - tables: db.*\n    jobs:\n"
        "      expire_snapshots: {arguments: {retain_min: 5, retain_max: 5}}\n"
        "      analyze: {arguments: {columns: [a], all_columns: false}}",
        "p.yaml",
    )


@pytest.mark.parametrize(
    "text",
    [
        "0 0 * * *",
        "*/5 1-3 1,15 jan-mar mon",
        "0 0 * * 7",
        "@daily",
        "5-55/10 * * * *",
        "0 0 29 feb *",
        "0 0 31 2 mon",
        "0 0 31 2,3 *",
        "0 0 28-31 2 *",
        "0 0 31 */2 *",
        "0 0 */30 4 *",
    ],
)
def test_cron_expressions(text):
    assert wrong_schedule(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * *",
        "60 * * * *",
        "*/0 * * * *",
        "@often",
        "a * * * *",
        "0 0 31 2 *",
        "0 0 30-31 FEB *",
        "0 0 31 4,jun *",
        "\u0660 * * * *",
        "\u00b2 * * * *",
    ],
)
def test_no_cron_expressions(text):
    assert wrong_schedule(text) is not None


def test_loading_a_policy_imports_nothing_heavy(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    code = (
        "import sys\nfrom paimon_maintenance.policy.load import load_policy\n"
        f"load_policy({str(file)!r}).for_table('sales.orders')\n"
        "heavy = {'pyarrow', 'numpy', 'pandas', 'pyspark', 'fsspec', 'sqlalchemy', 'airflow'}\n"
        "assert not heavy & {m.split('.')[0] for m in sys.modules}, heavy & set(sys.modules)\n"
        "core = {m for m in sys.modules if m.startswith('paimon_core.')}\n"
        "assert core <= {'paimon_core.errors', 'paimon_core.options'}, core\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_maintain_takes_the_arguments_of_its_steps_along():
    text = HEAD + (
        "  - tables: d.*\n    jobs:\n"
        "      maintain: {arguments: {step_arguments: {compact.slice_bytes: 1 gb}}}\n"
        "      expire_snapshots: {arguments: {retain_max: 5, options: {tag.a: 1}}}\n"
        "      compact: {arguments: {partitions: ['a=1,b=2', 'a=2']}}\n"
        "      expire_consumers: off\n"
    )
    found = read_policy(text, "p.yaml").for_table("d.t").arguments_of("maintain")
    assert found["without"] == ["expire_consumers"]
    maintain = job_named("maintain").read_arguments(found)
    steps = chosen_steps(JOBS, {**maintain, "compact": "minor"})
    by_name = {job.name: arguments for job, arguments in steps}
    assert "expire_consumers" not in by_name
    assert by_name["expire_snapshots"]["retain_max"] == 5
    assert by_name["expire_snapshots"]["options"] == {"tag.a": "1"}
    assert by_name["compact"]["partitions"] == ({"a": "1", "b": "2"}, {"a": "2"})
    assert by_name["compact"]["slice_bytes"] == 1024**3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version: 1\nrules:\n  - &a { <<: *a, tables: '*.*' }\n", "p.yaml:3: an anchor contains"),
        ("version: 1\nrules: &r [*r]\n", "p.yaml:2: an anchor contains itself"),
        ("version: 1\nrules: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
    ],
)
def test_circles_and_depths_are_refused(text, reason):
    with pytest.raises(InvalidArgument, match=reason):
        read_policy(text, "p.yaml")


def test_a_policy_holds_no_options_of_the_store_and_no_secrets():
    text = "version: 1\nstorage: { s3.secret-key: abc }\nrules: []\n"
    with pytest.raises(InvalidArgument, match=r"cannot configure the store.*CARETAKER_STORAGE"):
        read_policy(text, "p.yaml")
    url = "partition.mark-done-action.http.url"
    text = f"version: 1\nrules: [{{tables: '*.*', options: {{{url}: 'https://me:abc@host/'}}}}]\n"
    with pytest.raises(InvalidArgument, match="is secret") as caught:
        read_policy(text, "p.yaml")
    assert "abc" not in str(caught.value)
