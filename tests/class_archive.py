"""An archive of the classes that Spark loads, with which the JVMs of tests start in half of the time.

A JVM of another version or with other classes ignores it.
https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pyspark

OPTIONS = "SPARK_SUBMIT_OPTS"
"""Options of the JVMs of drivers; executors of clusters and other JVMs do not read it."""
_COLLECTOR = "-XX:+UseSerialGC"
"""Takes the least of a processor where little memory is used."""
_SECONDS = 180
# What most tests use: SQL, shuffles, files, Python workers.
_WORK = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.range(100).selectExpr("id", "id % 3 AS k", "cast(id AS string) AS s")
rows.mapInArrow(lambda batches: batches, rows.schema).write.parquet(sys.argv[1])
spark.read.parquet(sys.argv[1]).createOrReplaceTempView("v")
spark.sql("SELECT k, count(*), max(v.s) FROM v JOIN v w USING (k) GROUP BY k ORDER BY k").collect()
spark.stop()
"""


def use_archive(folder: Path) -> None:
    """Have the JVMs of Spark use the archive in this folder, which is made if it is not there."""
    archive = folder / f"spark-{_versions()}.jsa"
    if archive.exists() or _make(archive):
        os.environ[OPTIONS] = f"{_COLLECTOR} -XX:SharedArchiveFile={archive} -Xlog:disable"


def _versions() -> str:
    """What the archive depends on: the classes, and the JVM."""
    jars = Path(pyspark.__file__).parent / "jars"
    java = Path(os.environ.get("JAVA_HOME", "/usr")) / "release"
    parts = [str(jars), str(jars.stat().st_mtime_ns), java.read_text() if java.exists() else ""]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _make(archive: Path) -> bool:
    """Run a bit of everything and keep its classes; False if that does not work here."""
    made = archive.with_suffix(f".{os.getpid()}")
    options = f"{_COLLECTOR} -XX:ArchiveClassesAtExit={made} -Xlog:disable"
    with tempfile.TemporaryDirectory() as folder, suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            [sys.executable, "-c", _WORK, f"{folder}/rows.parquet"],
            env=os.environ | {OPTIONS: options},
            check=True,
            capture_output=True,
            timeout=_SECONDS,
        )
        made.rename(archive)
    made.unlink(missing_ok=True)
    return archive.exists()
