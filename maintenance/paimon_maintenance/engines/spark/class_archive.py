"""An archive of the classes that Spark loads, with which its JVMs start sooner.

It takes 5 seconds instead of 10 until Spark's first job has run, and spares an executor 3 of 8 CPU
seconds (benchmarks/README.md).

`caretaker spark-archive` makes it.  It is a file of this user for one installation of pyspark.  A
JVM of another version or with other classes ignores it, and so does one that does not find it.
https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from paimon_core.errors import MaintenanceError
from paimon_maintenance.engines.shipping import package_folder

SUBMIT_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""The variable with options of the JVMs of drivers; executors and other JVMs do not read it."""
_QUIET: Final = "-Xlog:cds*=off -Xlog:class+path=off"
"""A JVM that ignores an archive says so, each time."""
_SECONDS: Final = 300
# What jobs and most queries use: SQL, shuffles, files, Python workers.
_WORK: Final = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
rows = spark.range(100).selectExpr("id", "id % 3 AS k", "cast(id AS string) AS s")
rows.mapInArrow(lambda batches: batches, rows.schema).write.parquet(sys.argv[1])
spark.read.parquet(sys.argv[1]).createOrReplaceTempView("v")
spark.sql("SELECT k, count(*), max(v.s) FROM v JOIN v w USING (k) GROUP BY k ORDER BY k").collect()
jvm = spark.sparkContext._gateway.proc
spark.stop()
jvm.stdin.close()
sys.exit(jvm.wait())
"""


class ArchiveFailed(MaintenanceError):
    """The archive of Spark's classes cannot be made."""

    default_next_step = "check that Spark starts: caretaker sql -w FOLDER -e 'SELECT 1'"


def archive_folder() -> Path:
    """Return the folder of this user's archives, which may not exist.

    RuntimeError if the user has no home.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "caretaker" / "spark"


def archive_in(folder: Path) -> Path:
    """Return where the archive of pyspark's classes is in this folder, which may not exist.

    ArchiveFailed without pyspark.
    """
    try:
        jars = package_folder("pyspark") / "jars"
        version = f"{jars}\n{jars.stat().st_mtime_ns}"
    except (ModuleNotFoundError, FileNotFoundError) as e:
        raise ArchiveFailed("PySpark is not installed with the classes of Spark") from e
    return folder / f"classes-{hashlib.sha256(version.encode()).hexdigest()[:16]}.jsa"


def make_archive(folder: Path) -> Path:
    """Start Spark, do a bit of everything, and keep its classes in a file of the folder.

    Return the file; ArchiveFailed if Spark does not start, or its JVM makes no archive.
    """
    archive = archive_in(folder)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / archive.name
        try:
            done = subprocess.run(
                [sys.executable, "-c", _WORK, f"{scratch}/rows.parquet"],
                env=os.environ | {SUBMIT_OPTIONS: _options("ArchiveClassesAtExit", made)},
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as e:
            raise ArchiveFailed(f"Spark's JVM did not end within {_SECONDS} s") from e
        if done.returncode or not made.exists():
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise ArchiveFailed(f"Spark's JVM made no archive: {(lines or ['no message'])[-1]}")
        # A JVM crashes on a file that lost its end when the power went.
        with made.open("rb") as content:
            os.fsync(content.fileno())
        made.replace(archive)
    return archive


def archive_options() -> str:
    """Return the options of a JVM that uses this user's archive; empty without a safe one."""
    archive = _safe_archive()
    return _options("SharedArchiveFile", archive) if archive else ""


def archive_options_elsewhere(java_home: Path) -> str:
    """Return the options of a JVM that may run on another machine, where nobody looks at the file.

    Empty without an archive that only this user and root could make on a machine with the same
    folders.  A JVM that does not find it takes the archive of its own classes in `java_home`, as
    without options.
    """
    archive, base = _safe_archive(), java_home / "lib" / "server" / "classes.jsa"
    if archive is None or not all(map(_is_ours, archive.parents)) or not base.exists():
        return ""
    return _options("SharedArchiveFile", f"{base}:{archive}")


def _safe_archive() -> Path | None:
    """Return this user's archive; None if there is none, or others can write it."""
    try:
        archive = archive_in(archive_folder())
        return archive if _is_ours(archive.parent) and _is_ours(archive) else None
    except (ArchiveFailed, OSError, RuntimeError):
        return None


def _options(name: str, value: Path | str) -> str:
    """Return the JVM's options with an archive as the value of this one, as Spark parses them."""
    return f"{shlex.quote(f'-XX:{name}={value}')} {_QUIET}"


def _is_ours(path: Path) -> bool:
    """Return whether nobody else can have written it: the JVM runs what is in an archive."""
    found = path.stat()
    others = stat.S_IWGRP | stat.S_IWOTH
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & others
