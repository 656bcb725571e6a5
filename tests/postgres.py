"""A PostgreSQL server of the tests' own; the fixture is `postgres_url`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ports import free_port


def _postgres_programs() -> Path | None:
    """The folder of initdb and postgres; None if there is none."""
    found = shutil.which("initdb")
    candidates = [Path(found).resolve().parent] if found else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((c for c in candidates if (c / "initdb").exists()), None)


def _as_nobody() -> list[str]:
    """What runs a program as somebody else than root, whom PostgreSQL refuses."""
    if os.getuid() != 0:
        return []
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def postgres_server() -> Iterator[str]:
    """The URL of a server that lives until the iterator goes on."""
    programs = _postgres_programs()
    try:
        import psycopg  # noqa: F401
    except ImportError:
        pytest.skip("no driver for PostgreSQL is installed")
    if programs is None or (os.getuid() == 0 and shutil.which("setpriv") is None):
        pytest.skip("no PostgreSQL server is installed")
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    folder.chmod(0o777)
    data = folder / "data"
    port = free_port()
    who = _as_nobody()
    environment = {**os.environ, "LC_ALL": "C"}
    subprocess.run(
        [*who, programs / "initdb", "-D", data, "-U", "care", "-A", "trust", "-E", "UTF8", "-N"],
        check=True,
        capture_output=True,
        env=environment,
    )
    options = ["-p", str(port), "-k", str(folder), "-c", "fsync=off", "-h", "127.0.0.1"]
    options += ["-c", "max_connections=500"]  # Java closes few of its connections
    server = subprocess.Popen(
        [*who, programs / "postgres", "-D", data, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    try:
        _wait_for(programs, port)
        yield f"postgresql+psycopg://care@127.0.0.1:{port}/postgres"
    finally:
        # The fast way to end: the other waits for clients, and pools keep connections.
        server.send_signal(signal.SIGINT)
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def emptied(url: str) -> str:
    """The same database, without the tables of earlier tests."""
    import sqlalchemy as sa

    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        connection.execute(sa.text("CREATE SCHEMA public"))
    engine.dispose()
    return url


def _wait_for(programs: Path, port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        ready = subprocess.run(
            [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)], check=False
        )
        if ready.returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError("PostgreSQL did not start")
