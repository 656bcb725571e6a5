"""An S3 server of one's own (moto) for tests: `with s3_server() as server: server.new_root()`."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class S3Server:
    """`options` are what `open_file_io` takes."""

    options: dict[str, str]

    def new_root(self) -> str:
        """A folder in a new bucket."""
        import boto3

        bucket = f"b{uuid.uuid4().hex[:12]}"
        boto3.client(
            "s3",
            endpoint_url=self.options["s3.endpoint"],
            aws_access_key_id=self.options["s3.access-key"],
            aws_secret_access_key=self.options["s3.secret-key"],
            region_name=self.options["s3.region"],
        ).create_bucket(Bucket=bucket)
        return f"s3://{bucket}/warehouse"


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server on a free port of the loopback; skips where moto or s3fs is missing."""
    moto_server = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3Server(
            {
                "s3.endpoint": f"http://{host}:{port}",
                "s3.access-key": "testing",
                "s3.secret-key": "testing",
                "s3.region": "us-east-1",
                "s3.path.style.access": "true",
            }
        )
    finally:
        server.stop()
