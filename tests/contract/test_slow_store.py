"""The proxy that other tests trust: delays, faults and counts are what they are said to be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from s3_store import S3Server, s3_server
from slow_store import CONDITIONAL_PUT, DELETE, GET, LIST, PUT, Fault, SlowStore, slow_store

botocore_config = pytest.importorskip("botocore.config")


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def store(s3: S3Server) -> Iterator[SlowStore]:
    with slow_store(s3) as proxy:
        yield proxy


def client(endpoint: str, *, read_timeout: int = 60) -> Any:
    """A client that asks once, so that each call is one request."""
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        region_name="us-east-1",
        config=botocore_config.Config(
            retries={"total_max_attempts": 1},
            read_timeout=read_timeout,
            s3={"addressing_style": "path"},
        ),
    )


def bucket_of(store: SlowStore) -> str:
    return store.new_root().split("/")[2]


def test_requests_pass_through_and_are_counted(store: SlowStore) -> None:
    s3, bucket = client(store.endpoint), bucket_of(store)
    s3.put_object(Bucket=bucket, Key="a/b c", Body=b"content")
    s3.put_object(Bucket=bucket, Key="a/once", Body=b"1", IfNoneMatch="*")
    assert s3.get_object(Bucket=bucket, Key="a/b c")["Body"].read() == b"content"
    assert s3.head_object(Bucket=bucket, Key="a/b c")["ContentLength"] == 7
    listed = s3.list_objects_v2(Bucket=bucket, Prefix="a/")["Contents"]
    assert [found["Key"] for found in listed] == ["a/b c", "a/once"]
    s3.delete_object(Bucket=bucket, Key="a/once")
    assert store.counts == {PUT: 1, CONDITIONAL_PUT: 1, GET: 1, "head": 1, LIST: 1, DELETE: 1}
    assert store.requests[0].key == f"{bucket}/a/b c"


def test_every_request_takes_the_delay(s3: S3Server) -> None:
    with slow_store(s3, delay_millis=200) as store:
        bucket = bucket_of(store)
        slow = client(store.endpoint)
        started = time.perf_counter()
        slow.put_object(Bucket=bucket, Key="k", Body=b"1")
        slow.get_object(Bucket=bucket, Key="k")["Body"].read()
        assert time.perf_counter() - started >= 0.4


def test_a_condition_holds_unless_it_is_ignored(store: SlowStore) -> None:
    from botocore.exceptions import ClientError

    s3, bucket = client(store.endpoint), bucket_of(store)
    s3.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*")
    store.add(Fault("ignore condition"))
    s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"2"


def test_faults_apply_to_what_they_name_and_as_often(store: SlowStore) -> None:
    from botocore.exceptions import ClientError

    s3, bucket = client(store.endpoint), bucket_of(store)
    fault = store.add(Fault("answer", kinds={PUT}, key=r"snapshot-\d$", skip=1, times=2))
    s3.put_object(Bucket=bucket, Key="w/other", Body=b"1")
    s3.put_object(Bucket=bucket, Key="w/snapshot-1", Body=b"1")
    for _ in range(2):
        with pytest.raises(ClientError, match="SlowDown"):
            s3.put_object(Bucket=bucket, Key="w/snapshot-1", Body=b"2")
    s3.put_object(Bucket=bucket, Key="w/snapshot-1", Body=b"3")
    assert fault.hits == 2
    store.add(Fault("answer", status=501, code="NotImplemented"))
    with pytest.raises(ClientError, match="NotImplemented"):
        s3.get_object(Bucket=bucket, Key="w/other")


def test_lost_replies_took_effect_and_resets_did_not(store: SlowStore) -> None:
    from botocore.exceptions import BotoCoreError

    s3, direct = client(store.endpoint), client(store.server.options["s3.endpoint"])
    bucket = bucket_of(store)
    store.add(Fault("lose reply", key="lost"))
    store.add(Fault("reset", key="reset"))
    for key in ("lost", "reset"):
        with pytest.raises(BotoCoreError):
            s3.put_object(Bucket=bucket, Key=key, Body=b"1")
    listed = direct.list_objects_v2(Bucket=bucket)["Contents"]
    assert [found["Key"] for found in listed] == ["lost"]


def test_a_hanging_request_gets_no_reply(store: SlowStore) -> None:
    from botocore.exceptions import ReadTimeoutError

    hasty, bucket = client(store.endpoint, read_timeout=1), bucket_of(store)
    store.add(Fault("hang", times=1))
    with pytest.raises(ReadTimeoutError):
        hasty.put_object(Bucket=bucket, Key="k", Body=b"1")
    client(store.endpoint).put_object(Bucket=bucket, Key="k", Body=b"1")


def test_something_can_happen_right_before_a_request(store: SlowStore) -> None:
    from botocore.exceptions import ClientError

    s3, direct = client(store.endpoint), client(store.server.options["s3.endpoint"])
    bucket = bucket_of(store)

    def win(kind: str, key: str) -> None:
        if kind == CONDITIONAL_PUT:
            direct.put_object(Bucket=bucket, Key="k", Body=b"theirs")

    store.before = win
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"ours", IfNoneMatch="*")


def test_tables_live_behind_it(s3: S3Server) -> None:
    """Eight creators race for a name through the proxy; one wins."""
    from concurrent.futures import ThreadPoolExecutor

    from paimon_core.io.open import open_file_io

    with slow_store(s3, delay_millis=30) as store:
        io, root = open_file_io(store.new_root(), store.options)
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda i: io.create_if_absent(f"{root}/race", b"%d" % i), range(8)))
        assert won.count(True) == 1
        assert io.read_bytes(f"{root}/race") == b"%d" % won.index(True)
        assert store.counts[CONDITIONAL_PUT] >= 8
