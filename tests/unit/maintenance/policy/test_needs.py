"""The keys of a policy for the scheduler: what they mean, and what is wrong with wrong ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from command_line import caretaker

from paimon_core.errors import InvalidArgument
from paimon_maintenance.policy import load
from paimon_maintenance.policy.json_schema import schema
from paimon_maintenance.policy.load import read_policy
from paimon_maintenance.policy.needs import Budget, RescaleRule, TableFacts

DOCS = Path(__file__).parents[4] / "docs"
POLICY = """
version: 1
budget: { seconds: 600, bytes: 1 tb, tables: 20, applications: 4, windows: "20:00-06:00" }
alert_targets: { ops: { notifier: email, arguments: { to: ops@example.com } } }
rules:
  - tables: "*.*"
    owner: platform
    alerts: [ops]
    max_red: 2 d
    rescale: off
    health: { manifests: { good: 100, bad: 5000 }, orphans: { weight: 0 } }
  - tables: "sales.*"
    freshness: 10 min
    priority: 2
    windows: ["22:00-06:00", "sat-sun 00:00-24:00"]
    consumer_lag: { age: 6 h, snapshots: 500, bytes: 50 gb }
    health: { manifests: { weight: 0.5 } }
    scheduled: true
  - tables: "*.*"
    match: { owner: "team-*", comment: "*PII*", options: { bucket: "-1" } }
    priority: 5
"""


def test_all_keys():
    policy = read_policy(POLICY, "p.yaml")
    assert (policy.budget.seconds, policy.budget.bytes) == (600, 1024**4)
    assert (policy.budget.tables, policy.budget.applications) == (20, 4)
    facts = TableFacts({})
    needs = policy.for_table("sales.orders", lambda: facts).needs
    assert (needs.owner, needs.alerts, needs.freshness_millis) == ("platform", ("ops",), 600_000)
    assert (needs.rescale, needs.priority, needs.scheduled) == (RescaleRule.OFF, 2, True)
    assert (needs.consumer_snapshots, needs.consumer_bytes) == (500, 50 * 1024**3)
    assert len(needs.windows) == 2
    limits = needs.thresholds()
    manifests = limits.of("manifests")
    assert (manifests.good, manifests.bad, manifests.weight, manifests.log) == (
        100,
        5000,
        0.5,
        True,
    )
    assert limits.of("orphans").weight == 0
    assert limits.freshness_millis == 600_000
    json.dumps(needs.to_json())


def test_rules_match_by_options_comment_and_owner():
    policy = read_policy(POLICY, "p.yaml")
    options = {"bucket": "-1", "caretaker.owner": "team-a"}
    matching = TableFacts(options, "has PII inside")
    assert policy.for_table("x.y", lambda: matching).needs.priority == 5
    for facts in (
        TableFacts(options),
        TableFacts({**options, "bucket": "4"}, "has PII inside"),
        TableFacts({"bucket": "-1"}, "has PII inside"),
    ):
        assert policy.for_table("x.y", lambda facts=facts: facts).needs.priority == 1


def test_a_caller_that_reads_no_table_is_stopped():
    with pytest.raises(InvalidArgument, match="matches by options, comment or owner"):
        read_policy(POLICY, "p.yaml").for_table("x.y")
    plain = POLICY[: POLICY.rindex("  - tables")]
    assert read_policy(plain, "p.yaml").for_table("x.y").needs.owner == "platform"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("freshness: soon", "rules[0].freshness"),
        ("freshness: 0 s", "greater than 0"),
        ("windows: 9-17", "is not a window"),
        ("rescale: always", "not one of off, propose, idle"),
        ("priority: -1", "negative"),
        ("scheduled: maybe", "expected true or false"),
        ("consumer_lag: { days: 1 }", "unknown key 'days'"),
        ("consumer_lag: { snapshots: 0 }", "greater than 0"),
        ("health: { nothing: { weight: 1 } }", "unknown key 'nothing'"),
        ("health: { manifests: { weight: 2 } }", "between 0 and 1"),
        ("health: { manifests: { good: 5000 } }", "bad is not greater than good"),
        ("match: {}", "no condition given"),
        ("consumer_lag: { bytes: 0 }", "greater than 0"),
        ("alerts: ops", "there is no alert target 'ops' (in `alert_targets`: none)"),
        ("guards: { max_deleted_files: " + "9" * 5000 + " }", "5000 digits is too large"),
        ("consumer_lag: { snapshots: " + "9" * 5000 + " }", "5000 digits is too large"),
    ],
)
def test_mistakes_are_named_with_file_line_and_key(text, message):
    with pytest.raises(InvalidArgument, match=re.escape(message)) as e:
        read_policy(f"version: 1\nrules:\n  - tables: '*.*'\n    {text}\n", "p.yaml")
    assert e.value.message.startswith("p.yaml:4: rules[0]")


@pytest.mark.parametrize(
    "key", ["freshness", "engine", "spark_threshold", "consumer_lag.bytes", "guards.max_rewrite"]
)
def test_a_missing_value_is_named_once(key):
    outer, _, inner = key.partition(".")
    text = f"{outer}: {{ {inner}: }}" if inner else f"{outer}:"
    with pytest.raises(InvalidArgument) as e:
        read_policy(f"version: 1\nrules:\n  - tables: '*.*'\n    {text}\n", "p.yaml")
    assert e.value.message == f"p.yaml:4: rules[0].{key}: expected a single value"


RULES = "version: 1\nrules: [{ tables: '*.*' }]\n"


def test_a_round_has_at_least_its_budget():
    budget = read_policy(f"{RULES}budget: {{ seconds: 60, most_seconds: 90 }}\n", "p.yaml").budget
    assert (budget.round_seconds, Budget(seconds=60).round_seconds) == (90, 600)
    for text in ("{ seconds: 60, most_seconds: 30 }", "{ most_seconds: 30 }"):
        with pytest.raises(InvalidArgument, match="must not be less than `seconds`"):
            read_policy(f"{RULES}budget: {text}\n", "p.yaml")


def test_a_budget_of_nothing_is_refused():
    for name in ("seconds", "bytes", "tables", "applications"):
        with pytest.raises(InvalidArgument, match=rf"budget\.{name}: expected .* greater than 0"):
            read_policy(f"{RULES}budget: {{ {name}: 0 }}\n", "p.yaml")


def test_the_schema_accepts_what_the_reader_accepts():
    check = jsonschema.Draft202012Validator(schema())
    check.check_schema(schema())
    texts = [POLICY]
    for name in ("policy.md", "health.md", "scheduling.md"):
        texts += re.findall(
            r"^```yaml\n(version.*?)^```$", (DOCS / name).read_text(), re.MULTILINE | re.DOTALL
        )
    assert len(texts) > 3
    for text in texts:
        read_policy(text, "doc")
        assert [e.message for e in check.iter_errors(yaml.safe_load(text))] == []
    wrong = yaml.safe_load(POLICY)
    wrong["rules"][0]["frehsness"] = "1 d"
    assert list(check.iter_errors(wrong))


def test_the_schema_has_the_keys_of_the_reader():
    parts = schema()["properties"]
    rule = parts["rules"]["items"]["properties"]
    assert parts.keys() == load._TOP
    assert rule.keys() == load._RULE
    assert rule["jobs"]["properties"]["compact"]["anyOf"][1]["properties"].keys() == load._JOB


def test_the_command_prints_the_schema():
    assert json.loads(caretaker("policy", "schema").out) == schema()
    described = schema()["properties"]["rules"]["items"]["properties"]
    assert [key for key, kind in described.items() if "description" not in kind] == ["jobs"]
