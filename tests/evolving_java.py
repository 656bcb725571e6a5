"""Java's own updates, deletes and compactions of tables with data evolution, which the oracle has no steps for.

The source is in `java/`; the classes of Paimon are the oracle's.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oracle import end_jvm, folder

_SOURCE = Path(__file__).parent / "java" / "EvolvingTables.java"


class EvolvingJava:
    """One open process of a version of Java Paimon; its steps work on the table in a folder."""

    def __init__(self, version: str) -> None:
        environment = os.environ | {"PAIMON_ORACLE_VERSION": version}
        asked = [str(folder() / "oracle"), "--classpath"]
        classes = subprocess.run(asked, env=environment, check=True, capture_output=True, text=True)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._process = subprocess.Popen(
            ["java", "-Xmx512m", "-cp", classes.stdout.strip(), str(_SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._ids = itertools.count()

    def planned(self, path: Path) -> list[list[str]]:
        """The files of each task that Java's compaction would do, sorted."""
        tasks = self._ask({"op": "compact", "path": str(path), "plan_only": True, "id": "plan"})
        return sorted(sorted(files) for files in tasks["tasks"])

    def compacted(self, path: Path, partition: Mapping[str, str] | None = None) -> str:
        """The id of a compaction that is done, and not committed."""
        return self._done({"op": "compact", "path": str(path), "partition": partition})

    def updated(
        self, path: Path, first_row_id: int, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> str:
        """The id of an update of the rows of a group of files that is written, and not committed."""
        step = {"op": "update", "path": str(path), "first_row_id": first_row_id}
        return self._done({**step, "columns": columns, "rows": rows})

    def deleted(self, path: Path, positions: Mapping[str, Sequence[int]]) -> str:
        """The id of deletion vectors of data files that are written, and not committed."""
        return self._done({"op": "delete", "path": str(path), "positions": positions})

    def reassign(self, path: Path) -> None:
        """Give the rows of each partition new ids without gaps."""
        self._ask({"op": "reassign", "path": str(path)})

    def commit(self, written: str) -> None:
        """AssertionError with Java's words if it refuses to."""
        self._ask({"op": "commit", "id": written})

    def close(self) -> None:
        end_jvm(self._process)
        self._errors.close()

    def _done(self, step: dict[str, Any]) -> str:
        name = str(next(self._ids))
        self._ask({**step, "id": name})
        return name

    def _ask(self, step: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(step).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise AssertionError(self._errors.read()[-4000:].decode(errors="replace"))
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer
