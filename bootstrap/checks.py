"""``./caretaker test``: every check, cheap ones first; stops at the first that fails.

Arguments go to pytest, which runs on several cores unless they name files.  Caches live beside the
environment, so a checkout stays clean.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from bootstrap.environment import say

ROOT = Path(__file__).resolve().parent.parent


def stages(python: str, caches: Path, pytest_arguments: list[str]) -> list[tuple[str, list[str]]]:
    """The checks as names and commands, in their order."""
    ruff_cache = f"--cache-dir={caches / 'ruff'}"
    # Workers as tests/conftest.py says, unless the arguments name files.
    pytest = ["-o", f"cache_dir={caches / 'pytest'}", "-n", "auto", "--durations=15"]
    return [
        ("ruff check", [python, "-m", "ruff", "check", ruff_cache, "."]),
        ("ruff format", [python, "-m", "ruff", "format", "--check", "--quiet", ruff_cache, "."]),
        ("mypy", [python, "-m", "mypy", "--strict", f"--cache-dir={caches / 'mypy'}"]),
        ("import-linter", ["lint-imports", f"--cache-dir={caches / 'import-linter'}"]),
        ("pytest", [python, "-m", "pytest", *pytest, *pytest_arguments]),
    ]


def caches_folder() -> Path:
    """Where tools keep their caches: beside the environment, or the user's own if that is another's."""
    home = Path(os.environ["CARETAKER_HOME"])
    if os.access(home, os.W_OK):
        return home / "cache"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "caretaker" / "cache"


def main(argv: list[str]) -> int:
    caches = caches_folder()
    caches.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(caches / "hypothesis"))
    seconds: list[str] = []
    for name, command in stages(sys.executable, caches, argv):
        say(f"{name} ...")
        started = time.monotonic()
        code = subprocess.run(command, check=False, cwd=ROOT).returncode
        seconds.append(f"{name} {time.monotonic() - started:.0f} s")
        if code != 0:
            say(f"{name} failed (exit {code}); until then: {', '.join(seconds)}")
            return code if code > 0 else 1
    say(f"all checks passed: {', '.join(seconds)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
