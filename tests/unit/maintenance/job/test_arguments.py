from __future__ import annotations

import pytest

from paimon_core.errors import InvalidArgument
from paimon_maintenance.job.arguments import Argument, Kind, read_arguments, shown_arguments
from paimon_maintenance.registry import JOBS


def argument(kind: Kind, **rest) -> Argument:
    return Argument(name="some_name", kind=kind, help="h", **rest)


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (Kind.TEXT, "dt > 1", "dt > 1"),
        (Kind.INTEGER, "12", 12),
        (Kind.INTEGER, 12, 12),
        (Kind.BOOLEAN, "TRUE", True),
        (Kind.BOOLEAN, False, False),
        (Kind.DURATION, "1 d", 86_400_000),
        (Kind.DURATION, "90 min", 5_400_000),
        (Kind.SIZE, "2 mb", 2 * 1024 * 1024),
        (Kind.TEXTS, "a, b", ("a", "b")),
        (Kind.TEXTS, ["a", "b,c"], ("a", "b", "c")),
        (Kind.PARTITIONS, ["dt=1,hh=2", "dt=3"], ({"dt": "1", "hh": "2"}, {"dt": "3"})),
        (Kind.PARTITIONS, "dt=1,hh=2;dt=3", ({"dt": "1", "hh": "2"}, {"dt": "3"})),
        (Kind.PARTITIONS, [{"dt": 1}], ({"dt": "1"},)),
        (Kind.PARTITIONS, "name=a\\,b=c", ({"name": "a,b=c"},)),
        (Kind.PARTITIONS, "name=a\\;b;name=c", ({"name": "a;b"}, {"name": "c"})),
        (Kind.OPTIONS, "a=1,b=2", {"a": "1", "b": "2"}),
        (Kind.OPTIONS, ["a=1,2", "b=x=y"], {"a": "1,2", "b": "x=y"}),
        (Kind.OPTIONS, {"a": 1}, {"a": "1"}),
        (Kind.TEXT, "  ", None),
        (Kind.INTEGER, None, None),
    ],
)
def test_values_are_read(kind, raw, value):
    assert argument(kind).read(raw) == value


def test_a_number_below_the_least_is_wrong():
    parallelism = argument(Kind.INTEGER, least=1)
    assert parallelism.read("1") == 1
    assert parallelism.json_schema()["minimum"] == 1
    with pytest.raises(InvalidArgument, match="--some-name: 0 is less than 1"):
        parallelism.read(0)


@pytest.mark.parametrize(
    ("job", "given", "name"),
    [
        ("reset_consumer", {"consumerId": "c", "nextSnapshotId": 3}, "next_snapshot_id"),
        ("clear_consumers", {"includingConsumers": "c.*"}, "including_consumers"),
        ("create_branch", {"branch": "b", "ignoreIfExists": True}, "ignore_if_exists"),
        ("rename_tag", {"tagName": "a", "targetTagName": "b"}, "target_tag"),
        ("create_tag", {"tag": "a", "snapshot_id": 3}, "snapshot"),
        ("rollback", {"snapshot-id": 3}, "snapshot"),
    ],
)
def test_names_of_the_procedures_of_both_engines_are_known(job, given, name):
    values = JOBS[job].read_arguments(given)
    assert values[name] is not None


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (Kind.INTEGER, "twelve"),
        (Kind.INTEGER, True),
        (Kind.BOOLEAN, "yes"),
        (Kind.DURATION, "soon"),
        (Kind.SIZE, "big"),
        (Kind.PARTITIONS, "dt"),
        (Kind.PARTITIONS, 7),
        (Kind.OPTIONS, ["novalue"]),
        (Kind.INTEGER, 2**63),
        (Kind.INTEGER, "9" * 5000),
        (Kind.TEXT, ["a"]),
        (Kind.TEXT, {"a": 1}),
        (Kind.TEXT, "\ud800"),
        (Kind.TEXTS, [["a", None]]),
        (Kind.TEXTS, [{"a": 1}]),
        (Kind.PARTITIONS, [{"dt": None}]),
        (Kind.PARTITIONS, [None]),
        (Kind.OPTIONS, {"a": None}),
        (Kind.OPTIONS, {"a": ["b"]}),
    ],
)
def test_a_wrong_value_names_its_argument(kind, raw):
    with pytest.raises(InvalidArgument, match="--some-name"):
        argument(kind).read(raw)


def test_a_choice_is_one_of_its_choices():
    choice = argument(Kind.CHOICE, choices=("full", "minor"), default="full")
    assert choice.read("MINOR") == "minor"
    assert choice.read(None) == "full"
    with pytest.raises(InvalidArgument, match="full, minor"):
        choice.read("all")


def test_unknown_arguments_are_refused_and_aliases_taken():
    known = (argument(Kind.TEXT, aliases=("other",)),)
    assert read_arguments(known, {"other": "x"}) == {"some_name": "x"}
    assert read_arguments(known, {"some-name": "x"}) == {"some_name": "x"}
    with pytest.raises(InvalidArgument, match="some_name"):
        read_arguments(known, {"nothing": "x"})


def test_a_partition_may_have_numbers_and_truth_values():
    read = argument(Kind.PARTITIONS).read([{"day": 7, "done": True}])
    assert read == ({"day": "7", "done": "true"},)


def test_an_argument_has_one_value():
    known = (argument(Kind.INTEGER, aliases=("other",)),)
    with pytest.raises(InvalidArgument, match="other and some-name are the same argument"):
        read_arguments(known, {"other": 1, "some-name": 2})
    assert read_arguments(known, {"other": None, "some-name": 2}) == {"some_name": 2}


def test_only_what_says_something_is_shown():
    assert shown_arguments({"a": None, "b": (), "c": {}, "d": False, "e": ("x",), "f": 0}) == {
        "e": ["x"],
        "f": 0,
    }


@pytest.mark.parametrize("job", JOBS.values(), ids=lambda j: j.name)
def test_every_jobs_arguments_make_a_form_and_options(job):
    names = [a.name for a in job.arguments]
    assert len(set(names)) == len(names)
    assert job.read_arguments({}) == {a.name: a.default for a in job.arguments}
    for a in job.arguments:
        schema = a.json_schema()
        assert schema["description"]
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        # A form opened and sent unchanged must be valid and mean the default.
        shown = a.json_default()
        kinds = {str: "string", int: "integer", bool: "boolean", type(None): "null", list: "array"}
        assert kinds.get(type(shown), "object") in types
        assert a.read(a.json_default()) == a.default
        assert a.option.startswith("--")
        assert "_" not in a.option


@pytest.mark.parametrize(
    ("kind", "default", "shown"),
    [
        (Kind.SIZE, 4 * 1024**3, "4 gb"),
        (Kind.SIZE, 1025, "1025 b"),
        (Kind.DURATION, 5_400_000, "90 min"),
        (Kind.DURATION, None, None),
        (Kind.INTEGER, 7, 7),
    ],
)
def test_sizes_and_durations_are_written_with_their_unit(kind, default, shown):
    assert Argument(name="x", kind=kind, help="", default=default).json_default() == shown


@pytest.mark.parametrize("job", JOBS.values(), ids=lambda j: j.name)
def test_contradictions_are_about_arguments_of_the_job(job):
    names = {a.name for a in job.arguments}
    assert {name for group in (*job.at_most_one, *job.in_order) for name in group} <= names
    assert job.contradiction(job.read_arguments({})) is None
