"""Damaged files of every kind: an error that names the file, in bounded time and memory.

Each decoder runs in a process of its own (tests/hostile.py).  Together they take a minute;
CARETAKER_FUZZ_SECONDS=7200 takes two hours, CARETAKER_FUZZ_FIRST=100000 begins at other cases.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hostile import DECODERS, LEAST_CASES, MOST_BYTES, MOST_SECONDS

ROOT = Path(__file__).resolve().parents[2]
SECONDS = float(os.environ.get("CARETAKER_FUZZ_SECONDS", "20"))
FIRST = int(os.environ.get("CARETAKER_FUZZ_FIRST", "0"))
START_SECONDS = 60.0
"""To import everything and to read the samples, on a busy machine."""


def watched(name: str, seconds: float, first: int) -> tuple[int, int, list[str]]:
    """Cases that ran, bytes of memory at most, and what failed."""
    failed: list[str] = []
    last: int | None = None
    done, used = 0, 0
    command = [sys.executable, str(ROOT / "tests" / "hostile.py"), name, str(seconds), str(first)]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "maintenance", ROOT / "tests"))),
    }
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True, bufsize=1
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            limit = START_SECONDS
            while True:
                began = time.monotonic()
                if not selector.select(limit):
                    process.kill()
                    failed.append(f"case {last} took more than {MOST_SECONDS:.0f} s")
                    break
                line = process.stdout.readline()
                if not line:
                    break
                said = json.loads(line)
                if "case" in said:
                    last = said["case"]
                elif "failed" in said:
                    failed.append(f"case {said['failed']}: {said['why']}")
                elif "done" in said:
                    done, used = said["done"], said["bytes"]
                assert time.monotonic() - began <= max(limit, MOST_SECONDS) + 1
                limit = MOST_SECONDS
        errors = process.stderr.read()
    if process.returncode != 0 and not failed:
        failed.append(
            f"the process ended with {process.returncode} at case {last}: {errors[-2000:]}"
        )
    return done, used, failed


@pytest.mark.sampled(one_of=6)
@pytest.mark.slow
@pytest.mark.parametrize("name", DECODERS)
def test_damaged_files_end_in_an_error_that_names_them(name: str) -> None:
    done, used, failed = watched(name, SECONDS / len(DECODERS), FIRST)
    told = f"\nagain: PYTHONPATH=tests ./caretaker python tests/hostile.py {name} 60 CASE 1\n"
    assert not failed, told + "\n".join(failed[:5])
    assert done >= LEAST_CASES, f"only {done} cases ran"
    assert 0 < used <= MOST_BYTES


def test_the_watch_sees_what_takes_long_or_much(tmp_path: Path, monkeypatch) -> None:
    """Without this, a fuzzer that looks at nothing would pass."""
    import hostile

    script = (ROOT / "tests" / "hostile.py").read_text()
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "golden").symlink_to(ROOT / "tests" / "golden")
    bad = """

def sleeper() -> Decoder:
    return Decoder([b"x"], lambda *_: time.sleep(60))


def eater() -> Decoder:
    return Decoder([b"x"], lambda *_: len(bytes([1]) * (600 * 1024 * 1024)))


def thrower() -> Decoder:
    def read(path, data):
        raise KeyError("raw")
    return Decoder([b"x"], read, sound=False)


def nameless() -> Decoder:
    from paimon_core.errors import CorruptTable
    def read(path, data):
        raise CorruptTable("somewhere")
    return Decoder([b"x"], read, sound=False)


DECODERS |= {f.__name__: f for f in (sleeper, eater, thrower, nameless)}
"""
    (folder / "hostile.py").write_text(
        script.replace('\nif __name__ == "__main__":', bad + '\n\nif __name__ == "__main__":')
    )
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert hostile.MOST_BYTES == 512 * 1024 * 1024
    code = Path(hostile.__file__).resolve().parents[1]
    (tmp_path / "paimon_core").symlink_to(code / "paimon_core")
    (tmp_path / "maintenance").symlink_to(code / "maintenance")
    with monkeypatch.context() as impatient:
        impatient.setattr(sys.modules[__name__], "MOST_SECONDS", 1.0)
        assert "took more than" in watched("sleeper", 5, 0)[2][0]
    assert "MiB of memory" in watched("eater", 0.1, 0)[2][0]
    assert "KeyError" in watched("thrower", 0.1, 0)[2][0]
    assert "does not name the file" in watched("nameless", 0.1, 0)[2][0]
