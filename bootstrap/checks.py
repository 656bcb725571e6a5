"""``./caretaker test``: every check, cheap ones first; stops at the first that fails.

mypy takes half a minute on one core, so it runs beside the others; its output follows at its end.
Arguments go to pytest, which runs on several cores unless they name files.  Caches live beside the
environment, so a checkout stays clean but for bytecode.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from bootstrap.environment import say

ROOT = Path(__file__).resolve().parent.parent
BESIDE = "mypy"
INTERRUPT_SECONDS = 60


def stages(python: str, caches: Path, pytest_arguments: list[str]) -> list[tuple[str, list[str]]]:
    """The checks as names and commands, in their order."""
    ruff_cache = f"--cache-dir={caches / 'ruff'}"
    # Workers as tests/conftest.py says, unless the arguments name files.
    pytest = ["-o", f"cache_dir={caches / 'pytest'}", "-n", "auto", "--durations=15"]
    return [
        (BESIDE, [python, "-m", "mypy", "--strict", f"--cache-dir={caches / 'mypy'}"]),
        ("ruff check", [python, "-m", "ruff", "check", ruff_cache, "."]),
        ("ruff format", [python, "-m", "ruff", "format", "--check", "--quiet", ruff_cache, "."]),
        ("import-linter", ["lint-imports", f"--cache-dir={caches / 'import-linter'}"]),
        ("pytest", [python, "-m", "pytest", *pytest, *pytest_arguments]),
    ]


def caches_folder() -> Path:
    """Where tools keep their caches: beside the environment, or the user's own if not writable."""
    home = Path(os.environ["CARETAKER_HOME"])
    if os.access(home, os.W_OK):
        return home / "cache"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "caretaker" / "cache"


class Beside:
    """A check that runs beside the others, its output kept until it ends."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed by `end`
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=self._output, stderr=subprocess.STDOUT
        )

    @property
    def failed(self) -> bool:
        """Whether it has ended with a failure."""
        return self._process.poll() not in (None, 0)

    def wait(self) -> int:
        """Print its output once it has ended; its exit code."""
        code = self._process.wait()
        self._output.seek(0)
        sys.stdout.write(self._output.read().decode(errors="replace"))
        sys.stdout.flush()
        return code

    def end(self) -> None:
        """Stop it if it still runs."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        self._output.close()


def run(command: list[str], beside: Beside | None) -> int:
    """The exit code of a check, which is interrupted once the one beside it fails."""
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        while True:
            try:
                return process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                if beside is not None and beside.failed:
                    return interrupted(process)
    except KeyboardInterrupt:
        process.wait()
        raise


def interrupted(process: subprocess.Popen[bytes]) -> int:
    """Stop a check as Ctrl-C does, or by SIGTERM where a background shell has it ignore that."""
    process.send_signal(signal.SIGINT)
    try:
        return process.wait(timeout=INTERRUPT_SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()
        return process.wait()


def main(argv: list[str]) -> int:
    caches = caches_folder()
    caches.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(caches / "hypothesis"))
    # Tests start hundreds of Python processes, and each would compile the same modules.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    seconds: list[str] = []
    beside: Beside | None = None
    try:
        for name, command in stages(sys.executable, caches, argv):
            say(f"{name} ...")
            if name == BESIDE:
                beside = Beside(name, command)
                continue
            started = time.monotonic()
            code = run(command, beside)
            if beside is not None and beside.failed:
                break
            seconds.append(f"{name} {time.monotonic() - started:.0f} s")
            if code != 0:
                return failed(name, code, seconds)
        if beside is not None and (code := beside.wait()) != 0:
            return failed(beside.name, code, seconds)
    finally:
        if beside is not None:
            beside.end()
    say(f"all checks passed: {', '.join(seconds)}")
    return 0


def failed(name: str, code: int, seconds: list[str]) -> int:
    """Tell which check failed; its exit code, 1 for a signal."""
    say(f"{name} failed (exit {code}); until then: {', '.join(seconds)}")
    return code if code > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
