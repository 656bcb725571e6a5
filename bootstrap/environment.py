"""Makes the environment that `./caretaker` runs in: ``python -m bootstrap.environment ROOT HOME``.

::

    HOME/
      lock                    held during an installation
      current                 one line: the path of the environment in use
      env-KEY/                a virtual environment; KEY names lock, Python, machine and place
        requirements.lock     written last: the environment is complete
      install.log, tmp/       what pip said; its scratch space while it works (it needs some GB)

Needs neither pip nor ensurepip nor the venv module: pip comes with the checkout as its unmodified
wheel, checked against the lock.  Everything else is installed by it, from whatever package index
pip is set up for, each file checked against its hash in the lock.

A changed lock makes a new environment beside the old one, which stays until the next change: a
process that runs in it continues.  An interrupted installation continues where it stopped.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from bootstrap import lock_file

LOCK_NAME = "requirements.lock"
# They build what comes as source (pyspark), so they must be there first.
BUILD_TOOLS = frozenset({"setuptools", "wheel"})
# Folders in packages whose modules are never imported here.
TESTS = r"/tests?/"
# Settings of the caller's pip that would send packages elsewhere than into the environment.
FOREIGN_SETTINGS = ("USER", "TARGET", "PREFIX", "ROOT", "CONSTRAINT", "REQUIREMENT", "DRY_RUN")
TALK_EVERY_SECONDS = 10.0


class BootstrapError(Exception):
    """The environment cannot be made; the text is one line for the operator."""


def say(text: str) -> None:
    print(f"caretaker: {text}", file=sys.stderr, flush=True)


def main(argv: list[str]) -> int:
    root, home = Path(argv[0]), Path(argv[1])
    # Whoever may read the checkout may use the environment; it holds nothing but packages.
    os.umask(0o022)
    # Without this a TERM would leave pip running on its own.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        ensure(root, home)
    except BootstrapError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("interrupted; the next call continues from here")
        return 130
    return 0


def _interrupt(signum: int, frame: FrameType | None) -> None:
    del signum, frame
    raise KeyboardInterrupt


def ensure(root: Path, home: Path) -> Path:
    """The environment of `root`'s lock under `home`, complete and made current.

    One that is ready needs no right to write anywhere: any user can use another one's.
    """
    lock = (root / LOCK_NAME).read_text(encoding="utf-8")
    python = "{}.{}".format(*sys.version_info)
    env = usable(home, lock)
    if env is not None:
        return env
    try:
        home.mkdir(parents=True, exist_ok=True)
        with exclusive(home / "lock") as lock_fd:
            env = usable(home, lock)
            if env is None:
                key = lock_file.key(lock, python, platform.machine(), sys.platform, str(home))
                env = home / f"env-{key}"
                _install(root, home, env, lock, lock_fd)
                _make_current(home, env)
            return env
    except PermissionError as error:
        message = why_not_usable(home, lock) or f"cannot write {error.filename}"
        raise BootstrapError(f"{message}: set CARETAKER_HOME to a folder of your own") from error


def why_not_usable(home: Path, lock: str) -> str:
    """Why this user cannot use the environment that another one made; "" if there is none."""
    try:
        env = Path((home / "current").read_text(encoding="utf-8").strip())
        python = env / "bin" / "python"
        if (env / LOCK_NAME).read_text(encoding="utf-8") != lock:
            return f"the environment {env} is of another {LOCK_NAME}, and not yours to change"
        if env.parent != home or not python.is_symlink():
            return ""
        if os.access(python, os.X_OK):
            return f"the Python of the environment {env} does not start"
        where = os.readlink(python)
    except OSError as error:
        return (
            f"this user cannot read {error.filename}" if isinstance(error, PermissionError) else ""
        )
    return (
        f"this user cannot run {where}, with which the environment {env} was made (its owner can "
        "make it with a Python for everybody: CARETAKER_PYTHON)"
    )


def usable(home: Path, lock: str) -> Path | None:
    """The current environment if it is complete, made from this lock, and made here."""
    try:
        env = Path((home / "current").read_text(encoding="utf-8").strip())
        complete = (env / LOCK_NAME).read_text(encoding="utf-8") == lock
    except OSError:
        return None
    return env if complete and env.parent == home and _runs(env) else None


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[int]:
    """Holds the lock file; waits, and says so, while another process holds it."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another call is installing, waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _install(root: Path, home: Path, env: Path, lock: str, lock_fd: int) -> None:
    if (env / LOCK_NAME).exists() and not _runs(env):
        shutil.rmtree(env)  # the Python it was made with has gone
    if not (env / LOCK_NAME).exists():
        started = time.monotonic()
        version = platform.python_version()
        say(f"making its environment with Python {version} in {env} (once, some minutes)")
        if not _runs(env):
            shutil.rmtree(env, ignore_errors=True)
            make_environment(env)
        site = site_packages(env)
        forget_incomplete(site)
        unpack_pip(root / "bootstrap", lock, site)
        log, scratch = home / "install.log", home / "tmp"
        log.write_bytes(b"")
        shutil.rmtree(scratch, ignore_errors=True)  # of one that was killed
        scratch.mkdir()
        for wanted in (lock_file.only(lock, BUILD_TOOLS), lock):
            _pip_install(env, wanted, log, scratch, lock_fd)
        _compile(env)
        shutil.rmtree(scratch, ignore_errors=True)
        (env / LOCK_NAME).write_text(lock, encoding="utf-8")
        say(f"ready after {time.monotonic() - started:.0f} s")


def make_environment(env: Path) -> None:
    """Makes an empty virtual environment; by hand where Python came without the venv module."""
    # The versioned name: `python3` may mean another Python after the system's next upgrade.
    base = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
    try:
        import venv  # noqa: PLC0415  some distributions package it apart
    except ImportError:
        make_environment_by_hand(env, base)
    else:
        builder = venv.EnvBuilder(symlinks=True, with_pip=False)
        builder.create(env)
        link = env / "bin" / "python"
        link.unlink()
        link.symlink_to(base)


def make_environment_by_hand(env: Path, base: str) -> None:
    """What the venv module does on POSIX, but for the shell's activate scripts (PEP 405)."""
    site_packages(env).mkdir(parents=True)
    (env / "bin").mkdir()
    (env / "bin" / "python").symlink_to(base)
    for name in ("python3", "python{}.{}".format(*sys.version_info)):
        (env / "bin" / name).symlink_to("python")
    (env / "pyvenv.cfg").write_text(
        f"home = {os.path.dirname(base)}\n"
        "include-system-site-packages = false\n"
        f"version = {platform.python_version()}\n",
        encoding="utf-8",
    )


def site_packages(env: Path) -> Path:
    return env / "lib" / "python{}.{}".format(*sys.version_info) / "site-packages"


def _runs(env: Path) -> bool:
    command = [str(env / "bin" / "python"), "-I", "-c", "import encodings"]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def forget_incomplete(site: Path) -> None:
    """Make pip install a package again that an interruption left incomplete (RECORD comes last)."""
    for info in site.glob("*.dist-info"):
        if not (info / "RECORD").is_file():
            shutil.rmtree(info)


def unpack_pip(folder: Path, lock: str, site: Path) -> None:
    """Installs the wheel of pip in `folder`, if it is in the lock."""
    (pip,) = (entry for entry in lock_file.entries(lock) if entry.name == "pip")
    wheel = folder / f"pip-{pip.version}-py3-none-any.whl"
    try:
        content = wheel.read_bytes()
    except FileNotFoundError:
        message = f"{LOCK_NAME} wants pip {pip.version}, but {wheel} is missing"
        raise BootstrapError(message) from None
    if hashlib.sha256(content).hexdigest() not in pip.sha256:
        message = f"{wheel} is not the file that {LOCK_NAME} knows"
        raise BootstrapError(message)
    if not (site / f"pip-{pip.version}.dist-info" / "RECORD").exists():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)


def pip_settings(environ: dict[str, str], scratch: Path) -> dict[str, str]:
    """The caller's environment for pip: index, certificates and proxies stay, places do not."""
    foreign = {f"PIP_{name}" for name in FOREIGN_SETTINGS} | {"PYTHONPATH"}
    kept = {name: value for name, value in environ.items() if name not in foreign}
    own = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_USER": "0"}
    return kept | own | {"TMPDIR": str(scratch)}


def _pip_install(env: Path, wanted: str, log: Path, scratch: Path, lock_fd: int) -> None:
    packages = lock_file.entries(wanted)
    request = scratch / "requirements.txt"
    request.write_text(wanted, encoding="utf-8")
    # No dependencies to look for, the lock has them all; no isolation, its tools are locked too.
    command = [
        *(str(env / "bin" / "python"), "-I", "-m", "pip", "install", "--require-hashes"),
        *("--no-deps", "--no-build-isolation", "--no-warn-script-location", "--no-color"),
        "--no-compile",
        *("--progress-bar", "off", "-r", str(request)),
    ]
    with log.open("ab") as output:
        # pip inherits the lock: if this process is killed, no other process starts a second one.
        pip = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=pip_settings(dict(os.environ), scratch),
            pass_fds=(lock_fd,),
        )
        try:
            _watch(pip, Progress(log, site_packages(env), len(packages)))
        finally:
            if pip.poll() is None:
                pip.send_signal(signal.SIGINT)
                pip.wait()
    if pip.returncode != 0:
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        sys.stderr.write("".join(f"  {line}\n" for line in tail))
        message = f"pip failed (exit {pip.returncode}, all of it in {log}); run again to go on"
        raise BootstrapError(message)


def _compile(env: Path) -> None:
    """Compiles the packages on all processors; pip would use one, for half of its time.

    Otherwise, each process of a user who cannot write to the environment compiles them again.
    """
    say("compiling the packages")
    command = [str(env / "bin" / "python"), "-I", "-m", "compileall", "-qq", "-j", "0"]
    # Some packages contain templates that are not valid Python: not a failure.
    subprocess.run([*command, "-x", TESTS, str(site_packages(env))], check=False)


def _watch(pip: subprocess.Popen[bytes], progress: Progress) -> None:
    """Waits for pip; says where it is, on a terminal in place."""
    terminal = sys.stderr.isatty()
    last, next_time = "", time.monotonic() + (0.5 if terminal else TALK_EVERY_SECONDS)
    while pip.poll() is None:
        time.sleep(0.2)
        if time.monotonic() < next_time:
            continue
        next_time = time.monotonic() + (0.5 if terminal else TALK_EVERY_SECONDS)
        text = progress.read()
        if text == last:
            continue
        last = text
        if terminal:
            sys.stderr.write(f"\r\x1b[Kcaretaker: {text}")
            sys.stderr.flush()
        else:
            say(text)
    if terminal:
        sys.stderr.write("\r\x1b[K")


class Progress:
    """Where pip is, from its log; while it only unpacks it says nothing, so count what is there."""

    def __init__(self, log: Path, site: Path, total: int) -> None:
        self._log = log
        self._site = site
        self._total = total
        self._start = log.stat().st_size

    def read(self) -> str:
        with self._log.open("rb") as file:
            file.seek(self._start)
            lines = file.read().decode(errors="replace").splitlines()
        done = sum(line.startswith(("Collecting ", "Requirement already")) for line in lines)
        text = f"downloading, package {done} of {self._total}"
        for line in lines:
            words = line.split()
            if line.startswith("Collecting "):
                text = f"downloading {words[1]}, package {done} of {self._total}"
            elif line.lstrip().startswith("Building wheel for "):
                text = f"building {words[3]}"
            elif line.startswith("Installing collected packages"):
                there = sum(1 for _ in self._site.glob("*.dist-info/RECORD"))
                text = f"installing, package {there} of {self._total}"
        return text


def _make_current(home: Path, env: Path) -> None:
    """Switches to `env`; of the other environments only the one used last stays."""
    current = home / "current"
    previous = current.read_text(encoding="utf-8").strip() if current.exists() else ""
    fresh = home / "current.new"
    fresh.write_text(f"{env}\n", encoding="utf-8")
    fresh.replace(current)
    for other in home.glob("env-*"):
        if other != env and str(other) != previous:
            shutil.rmtree(other, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
