"""Makes the warehouse's bucket, and proves that the store creates an object only once.

    python store.py s3://BUCKET/PATH

A commit to a Paimon table is the creation of one object that must not exist yet (`If-None-Match`).
A store that takes the condition and ignores it, or races, loses commits; so many writers create the
same object at once here, a few times over, and exactly one of them must win.  The endpoint and the
credentials come from the environment: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY.
"""

from __future__ import annotations

import os
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.session import get_session

WRITERS = 16
ROUNDS = 5
_LOST = {"PreconditionFailed", "ConditionalRequestConflict"}
_EXISTS = {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}


def connect() -> Any:
    """A client for the store of the environment."""
    config = Config(
        max_pool_connections=WRITERS,
        # The client's own retries would hide who won.
        retries={"max_attempts": 0},
        s3={"addressing_style": "path"},
    )
    region = os.environ.get("AWS_REGION") or "us-east-1"
    return get_session().create_client("s3", region_name=region, config=config)


def make_bucket(client: Any, bucket: str) -> None:
    """The bucket is there afterwards."""
    try:
        client.create_bucket(Bucket=bucket)
    except ClientError as e:
        if e.response["Error"]["Code"] not in _EXISTS:
            raise


def winners(client: Any, bucket: str, key: str) -> int:
    """The number of writers whose create succeeded; must be 1."""

    def create(number: int) -> bool:
        try:
            client.put_object(Bucket=bucket, Key=key, Body=str(number).encode(), IfNoneMatch="*")
        except ClientError as e:
            if e.response["Error"]["Code"] not in _LOST:
                raise
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(create, range(WRITERS)))
    stored = int(client.get_object(Bucket=bucket, Key=key)["Body"].read())
    return sum(won) if won[stored] else 0


def main(url: str) -> int:
    """0 if the store can be committed to."""
    bucket, _, path = url.removeprefix("s3://").partition("/")
    client = connect()
    make_bucket(client, bucket)
    probe = f"{path.strip('/')}/.caretaker-probe-{uuid.uuid4().hex}"
    try:
        for number in range(ROUNDS):
            won = winners(client, bucket, f"{probe}/{number}")
            if won != 1:
                print(
                    f"{url}: of {WRITERS} writers that created the same object at once, {won} "
                    "succeeded. This store loses commits: do not use it."
                )
                return 1
    finally:
        for number in range(ROUNDS):
            client.delete_object(Bucket=bucket, Key=f"{probe}/{number}")
    print(f"{url}: ready; objects are created only once.")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].startswith("s3://"):
        sys.exit("usage: store.py s3://BUCKET/PATH")
    sys.exit(main(sys.argv[1]))
