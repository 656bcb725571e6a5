from __future__ import annotations

import pytest

from paimon_core.errors import InvalidArgument
from paimon_maintenance.job.engine_choice import EngineName, EngineRule
from paimon_maintenance.job.plan import Effect

MB = 1024**2
SMALL = Effect(rewritten_files=5, rewritten_bytes=12 * MB)
LARGE = Effect(rewritten_files=5, rewritten_bytes=256 * MB)
METADATA = Effect(deleted_files=10**6, deleted_bytes=10**12, table_bytes=10**15)


@pytest.mark.parametrize(
    ("rule", "effect", "text"),
    [
        ({}, SMALL, "local: 12 MB to rewrite, below spark_threshold 256 MB"),
        ({}, LARGE, "spark: 256 MB to rewrite, not below spark_threshold 256 MB"),
        ({}, METADATA, "local: no data to rewrite"),
        (
            {"spark_threshold": "1 gb"},
            LARGE,
            "local: 256 MB to rewrite, below spark_threshold 1 GB",
        ),
        ({"spark_threshold": 0}, SMALL, "spark: 12 MB to rewrite, not below spark_threshold 0 B"),
        (
            {"spark_threshold": 0},
            Effect(rewritten_files=1),
            "spark: 0 B to rewrite, not below spark_threshold 0 B",
        ),
        ({"engine": "spark"}, SMALL, "spark: engine is spark"),
        ({"engine": "Local"}, LARGE, "local: engine is local"),
    ],
)
def test_the_bytes_of_the_plan_decide(rule, effect, text):
    assert EngineRule.from_json(rule).choose(effect).text == text


def test_a_process_with_one_engine_says_that_it_had_no_choice():
    choice = EngineRule().choose(LARGE)
    assert choice.made_on("spark") == choice
    elsewhere = choice.made_on("local").text
    assert elsewhere.startswith("local: 256 MB to rewrite, not below")
    assert elsewhere.endswith("but in a process without Spark")


def test_a_rule_travels_as_json():
    rule = EngineRule(engine=EngineName.SPARK, spark_threshold=5)
    assert EngineRule.from_json(rule.to_json()) == rule
    assert EngineRule().to_json() == {}
    assert EngineRule.from_json({"engine": None}) == EngineRule()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"engine": "flink"}, r"no engine 'flink' \(known: auto, local, spark\)"),
        ({"spark_threshold": "much"}, "spark_threshold: not a memory size: 'much'"),
        ({"speed": 1}, "'speed'"),
    ],
)
def test_a_wrong_part_is_named(parts, message):
    with pytest.raises(InvalidArgument, match=message):
        EngineRule.from_json(parts)
