"""A run request survives its way to a Spark application as JSON, whatever it asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_core.errors import InvalidArgument
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.exit_codes import OnRefused
from paimon_maintenance.job.guards import Guards
from paimon_maintenance.job.job import Job
from paimon_maintenance.registry import JOBS, job_named
from paimon_maintenance.run.request import RunRequest

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
PAIRS = st.dictionaries(TEXT, TEXT, max_size=3)
COUNTS = st.none() | st.integers(0, 2**40)
# What a person types; reading it gives the typed values that a request holds.
RAW: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.TEXT: TEXT,
    Kind.INTEGER: st.integers(1, 2**40),
    Kind.BOOLEAN: st.booleans(),
    Kind.DURATION: st.integers(0, 2**40) | st.sampled_from(["90 min", "3 d", "0 s"]),
    Kind.SIZE: st.integers(0, 2**50) | st.sampled_from(["4 gb", "0 b"]),
    Kind.PARTITIONS: st.lists(st.dictionaries(TEXT, TEXT, min_size=1, max_size=2), max_size=3),
    Kind.OPTIONS: PAIRS,
    Kind.TEXTS: st.lists(TEXT, max_size=3),
}


def raw(argument: Argument) -> st.SearchStrategy[Any]:
    if argument.kind is Kind.CHOICE:
        return st.sampled_from(argument.choices)
    if argument.kind is Kind.TEXTS and argument.choices:
        return st.lists(st.sampled_from(argument.choices), max_size=3)
    return RAW[argument.kind]


@st.composite
def requests(draw: st.DrawFn) -> RunRequest:
    job: Job = draw(st.sampled_from(list(JOBS.values())))
    typed = st.fixed_dictionaries({}, optional={a.name: raw(a) for a in job.arguments})
    return RunRequest(
        job=job,
        warehouse=draw(TEXT),
        table=draw(TEXT),
        arguments=job.read_arguments(draw(typed)),
        branch=draw(st.none() | TEXT),
        file_io_options=draw(st.none() | PAIRS),
        default_options=draw(PAIRS),
        dry_run=draw(st.booleans()),
        force=draw(st.booleans()),
        verify=draw(st.booleans()),
        guards=Guards(
            max_deleted_share=draw(st.floats(0, 1)),
            max_deleted_snapshots=draw(COUNTS),
            max_deleted_files=draw(COUNTS),
            max_deleted_bytes=draw(COUNTS),
            max_rewrite_bytes=draw(COUNTS),
        ),
        max_attempts=draw(st.integers(1, 100)),
        lease_wait_millis=draw(st.integers(0, 10**9)),
        on_refused=draw(st.none() | st.sampled_from(OnRefused)),
        run_id=draw(st.none() | TEXT),
    )


@given(requests())
def test_a_request_is_the_same_after_its_way_as_json(request):
    written = json.dumps(request.to_json())
    assert RunRequest.from_json(json.loads(written), job_named) == request


LEAST = {"job": "compact", "warehouse": "/lake", "table": "db.t"}


def test_the_least_request_has_all_defaults():
    job = job_named("compact")
    least = RunRequest(job=job, warehouse="/lake", table="db.t", arguments=job.read_arguments({}))
    assert least.to_json() == LEAST
    assert RunRequest.from_json(LEAST, job_named) == least


def test_sizes_of_guards_are_written_as_a_person_writes_them():
    limits = {"max_rewrite": "10 gb", "max_deleted_bytes": "1 kb", "max_deleted_share": 0.2}
    read = RunRequest.from_json({**LEAST, "guards": limits}, job_named).guards
    assert read == Guards(
        max_rewrite_bytes=10 * 1024**3, max_deleted_bytes=1024, max_deleted_share=0.2
    )


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"table": None}, "has no 'table'"),
        ({"job": "compct"}, "did you mean compact"),
        ({"dryrun": True}, "has no 'dryrun'"),
        ({"dry_run": "false"}, "'dry_run' of a run request must be true or false"),
        ({"max_attempts": "many"}, "'max_attempts' of a run request must be a whole number"),
        ({"storage": ["s3.secret-key=KEY-7391"]}, "'storage' of a run request must be an object"),
        ({"arguments": {"wrong": 1}}, "unknown argument 'wrong'"),
        ({"guards": {"max_rewrites": "1 gb"}}, "no guard 'max_rewrites'"),
        ({"guards": {"max_deleted_share": "half"}}, "argument max_deleted_share: .*half"),
        ({"on_refused": "wait"}, "known: skip, fail"),
    ],
)
def test_a_wrong_request_names_what_is_wrong(parts, message):
    with pytest.raises(InvalidArgument, match=message) as caught:
        RunRequest.from_json({**LEAST, **parts}, job_named)
    assert "7391" not in str(caught.value)
