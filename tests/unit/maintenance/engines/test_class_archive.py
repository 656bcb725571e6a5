"""Which archive of classes a JVM of Spark gets, and what else it starts with."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import caretaker

from paimon_maintenance.engines.spark import class_archive
from paimon_maintenance.engines.spark.class_archive import (
    SUBMIT_OPTIONS,
    archive_folder,
    archive_in,
    archive_options,
)
from paimon_maintenance.engines.spark.jvm import (
    JAVA_OPTIONS,
    QUICK,
    driver_environment,
    executor_options,
)
from paimon_maintenance.job.exit_codes import ExitCode


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = archive_in(archive_folder())
    archive.parent.mkdir(parents=True)
    archive.parent.chmod(0o755)
    archive.write_bytes(b"")
    archive.chmod(0o644)
    return archive


def test_a_driver_gets_the_archive_and_what_the_environment_says(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(JAVA_OPTIONS, "-Dmine=1")
    monkeypatch.setenv(SUBMIT_OPTIONS, "-Dmine=2")
    found = driver_environment()
    assert found[JAVA_OPTIONS] == "-XX:TieredStopAtLevel=1 -Dmine=1"
    assert found[SUBMIT_OPTIONS].startswith(f"-XX:SharedArchiveFile={archive} ")
    assert found[SUBMIT_OPTIONS].endswith(" -Dmine=2")
    assert list(driver_environment(queries=True)) == [SUBMIT_OPTIONS]
    archive.unlink()
    assert list(driver_environment()) == [JAVA_OPTIONS]


def test_an_executor_gets_an_archive_that_others_cannot_have_made_on_its_machine(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java, folder = archive.parent / "java", archive.parents[1]
    base = java / "lib" / "server" / "classes.jsa"
    monkeypatch.setattr(class_archive, "_is_ours", lambda _: True)
    assert executor_options(java) == QUICK
    base.parent.mkdir(parents=True)
    base.write_bytes(b"")
    assert executor_options(java).startswith(f"{QUICK} -XX:SharedArchiveFile={base}:{archive} ")
    assert executor_options(java, queries=True).startswith("-XX:SharedArchiveFile=")
    monkeypatch.setattr(class_archive, "_is_ours", lambda path: path != folder)
    assert archive_options()
    assert executor_options(java) == QUICK
    assert executor_options(java, queries=True) == ""


@pytest.mark.parametrize("of_others", ["file", "folder", "home"])
def test_an_archive_that_others_can_write_is_not_used(
    archive: Path, of_others: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert archive_options()
    if of_others == "home":
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", _no_home)
    else:
        (archive if of_others == "file" else archive.parent).chmod(0o775)
    assert archive_options() == ""


def _no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_a_java_that_does_not_start_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    ran = caretaker("spark-archive", "--json")
    assert ran.code == ExitCode.FAILURE
    assert "Spark's JVM made no archive" in ran.out
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
