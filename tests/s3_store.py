"""An S3 server of one's own (moto) for tests: `with s3_server() as server: server.new_root()`.

`upload` and `download` move whole folders past the protocol: they take no requests.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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


def environment_of(options: Mapping[str, str]) -> dict[str, str]:
    """The same options as environment variables, for processes: arguments are public."""
    return {
        "AWS_ENDPOINT_URL": options["s3.endpoint"],
        "AWS_ACCESS_KEY_ID": options["s3.access-key"],
        "AWS_SECRET_ACCESS_KEY": options["s3.secret-key"],
        "AWS_REGION": options["s3.region"],
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def upload(folder: Path, root: str) -> None:
    """Put the files of the folder below `root`, each with its time of modification."""
    bucket, prefix = _split(root)
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        key = f"{prefix}/{path.relative_to(folder)}"
        made = _backend().put_object(bucket, key, path.read_bytes())
        made.last_modified = datetime.fromtimestamp(path.stat().st_mtime, UTC).replace(tzinfo=None)


def download(root: str, folder: Path) -> None:
    """Write the objects below `root` into the folder, each with its time of modification."""
    bucket, prefix = _split(root)
    for key, found in list(_backend().get_bucket(bucket).keys.items()):
        if not key.startswith(f"{prefix}/") or key.endswith("/"):  # the latter stands for a folder
            continue
        path = folder / key.removeprefix(f"{prefix}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(found.value)
        modified = found.last_modified.replace(tzinfo=UTC).timestamp()
        os.utime(path, (modified, modified))


def drop(root: str) -> None:
    """Forget the bucket of `root` with all that it holds."""
    backend, (bucket, _) = _backend(), _split(root)
    for key in list(backend.get_bucket(bucket).keys):
        backend.delete_object(bucket, key)
    backend.delete_bucket(bucket)


def _split(root: str) -> tuple[str, str]:
    bucket, _, prefix = root.removeprefix("s3://").partition("/")
    return bucket, prefix


def _backend() -> Any:
    """The content of all servers of this process."""
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server on a free port of the loopback; skips where moto or s3fs is missing."""
    moto_server = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line a request
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
