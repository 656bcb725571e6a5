"""Emulators of Azure Blob Storage (azurite) and Google Cloud Storage (fake-gcs-server), and HDFS, if installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest
from ports import free_port

from paimon_core.io.file_io import FileIO
from paimon_core.io.open import open_file_io

_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account of every azurite, as its documentation prints it."""


@contextmanager
def _running(program: str, *arguments: str, url: str) -> Iterator[None]:
    server = subprocess.Popen(
        [program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(url, timeout=1)
                break
            except HTTPError:
                break  # it answers
            except (URLError, OSError):
                assert server.poll() is None
                time.sleep(0.1)
        yield
    finally:
        server.terminate()
        server.wait(20)


def azure_store() -> Iterator[tuple[FileIO, str]]:
    """A store on azurite and an empty root; skips where azurite or adlfs is missing."""
    pytest.importorskip("adlfs")
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite is not installed")
    port = free_port()
    url = f"http://127.0.0.1:{port}/{_ACCOUNT}"
    connection = f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={_KEY};BlobEndpoint={url};"
    arguments = ("--silent", "--inMemoryPersistence", "--skipApiVersionCheck")
    with _running(program, *arguments, "--blobPort", str(port), url=url):
        from azure.storage.blob import BlobServiceClient

        BlobServiceClient.from_connection_string(connection).create_container("lake")
        host = f"{_ACCOUNT}.dfs.core.windows.net"
        options = {f"fs.azure.account.key.{host}": _KEY, "fsspec.connection_string": connection}
        yield open_file_io(f"abfss://lake@{host}/{uuid.uuid4()}", options)


def gcs_store() -> Iterator[tuple[FileIO, str]]:
    """A store on fake-gcs-server and an empty root; skips where it or gcsfs is missing."""
    # Otherwise it asks for the kind of the bucket over gRPC, which the emulator lacks.
    os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
    pytest.importorskip("gcsfs")
    program = shutil.which("fake-gcs-server")
    if program is None:
        pytest.skip("fake-gcs-server is not installed")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    arguments = ("-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port))
    with _running(program, *arguments, "-external-url", url, url=f"{url}/storage/v1/b"):
        request = urllib.request.Request(
            f"{url}/storage/v1/b?project=p",
            data=b'{"name": "lake"}',
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request).close()
        options = {
            "fs.gs.auth.type": "UNAUTHENTICATED",
            "fs.gs.project.id": "p",
            "fs.gs.storage.root.url": url,
        }
        os.environ.setdefault("STORAGE_EMULATOR_HOST", url)
        yield open_file_io(f"gs://lake/{uuid.uuid4()}", options)


@contextmanager
def hdfs_cluster(folder: Path) -> Iterator[str]:
    """The URL of an HDFS with one DataNode; skips where hdfs-native or Hadoop's jars are missing.

    `CARETAKER_MINICLUSTER` names a folder with the jars of org.apache.hadoop:hadoop-client-minicluster,
    its dependencies, and log4j:log4j:1.2.17.
    """
    pytest.importorskip("hdfs_native")
    jars = os.environ.get("CARETAKER_MINICLUSTER")
    if not jars:
        pytest.skip("CARETAKER_MINICLUSTER names no folder with the jars of Hadoop's minicluster")
    details = folder / "details.json"
    opened = [
        f"--add-opens=java.base/{p}=ALL-UNNAMED" for p in ("java.lang", "java.util", "java.nio")
    ]
    main = ["-cp", f"{jars}/*", "org.apache.hadoop.test.MiniDFSClusterManager"]
    settings = [f"test.build.data={folder}/data", "dfs.namenode.fs-limits.min-block-size=1024"]
    defined = [word for setting in settings for word in ("-D", setting)]
    cluster = subprocess.Popen(
        ["java", "-Xmx512m", *opened, *main, "-format", "-writeDetails", str(details), *defined],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(1200):
            if details.exists() and details.read_text():
                break
            assert cluster.poll() is None
            time.sleep(0.1)
        yield f"hdfs://127.0.0.1:{json.loads(details.read_text())['namenode_port']}"
    finally:
        cluster.terminate()
        cluster.wait(20)
