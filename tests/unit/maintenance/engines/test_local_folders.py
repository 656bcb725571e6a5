"""Spark without a folder for its temporary files: the error says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_maintenance.engines.spark.session import SparkUnavailable, check_local_folders


def test_folders_that_spark_cannot_use_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    good = tmp_path / "new" / "good"
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    check_local_folders({})
    with pytest.raises(SparkUnavailable, match=r"where spark\.local\.dir says") as e:
        check_local_folders({"spark.local.dir": str(file)})
    assert "JDK" not in str(e.value)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{file}, {file}/below,/proc/nothing")
    with pytest.raises(SparkUnavailable) as e:
        check_local_folders({"spark.local.dir": str(good)})
    for text in (
        f"{file}: File exists",
        f"{file}/below: Not a directory",
        "/proc/nothing: No such",
    ):
        assert text in e.value.message
    assert e.value.next_step.startswith("let SPARK_LOCAL_DIRS name a folder")
    assert "JDK" not in str(e.value)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{file},{good}")
    check_local_folders({})
    assert list(good.iterdir()) == []
