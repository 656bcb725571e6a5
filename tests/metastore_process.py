"""A real Hive metastore beside the oracle, for tests of the Hive catalog."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from oracle import end_jvm, folder


class HiveMetastore:
    """A Hive metastore 2.3 over a database in memory; a start costs some ten seconds.

    `options` open a catalog of it, for us and for the oracle.
    """

    def __init__(self, place: Path) -> None:
        self._errors = (place / "errors.txt").open("wb")
        self._process = subprocess.Popen(
            [str(folder() / "hive-metastore"), str(place / "lake")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | {"PAIMON_ORACLE_OPTS": "-Xmx512m -XX:TieredStopAtLevel=1"},
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, (place / "errors.txt").read_text(errors="replace")[-4000:]
        ready: dict[str, str] = json.loads(line)
        self.options = {
            "metastore": "hive",
            "uri": ready["uri"],
            "warehouse": ready["warehouse"],
            "lock.enabled": "true",
            "lock-check-max-sleep": "100 ms",
        }

    def end(self) -> None:
        end_jvm(self._process)
        self._errors.close()
