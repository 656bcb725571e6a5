"""Prints the home of a Java that Spark runs on: ``python -m bootstrap.java HOME``.

Looks at JAVA_HOME, PATH and the usual folders; if there is none, gets a JDK through the package
manager at hand, as root or with a sudo that asks nothing.  If that is not possible, prints the
command that fixes it, and fails.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bootstrap.environment import exclusive, say

OLDEST = 17
# Of several found outside JAVA_HOME and PATH: releases that Spark is tested with come first.
PREFERRED = (17, 21)
USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/lib64/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/*jdk*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
_RELEASE = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_PRINTED = re.compile(r'version "([^"]+)"')


class PackageManager(NamedTuple):
    """How to get a JDK; `packages` are tried in order, as not every release has each."""

    command: str
    refresh: tuple[str, ...]
    install: tuple[str, ...]
    packages: tuple[str, ...]
    by_hand: str
    as_root: bool = True


MANAGERS = (
    PackageManager(
        "apt-get",
        ("apt-get", "-q", "update"),
        # Another apt may be at work, as on a machine that has just booted.
        (
            *("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "install", "-y"),
            *("--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"),
        ),
        ("openjdk-17-jdk-headless", "openjdk-21-jdk-headless", "default-jdk-headless"),
        "sudo apt-get install openjdk-17-jdk-headless",
    ),
    PackageManager(
        "dnf",
        (),
        ("dnf", "install", "-y"),
        ("java-17-openjdk-devel", "java-21-openjdk-devel", "java-latest-openjdk-devel"),
        "sudo dnf install java-21-openjdk-devel",
    ),
    PackageManager(
        "yum",
        (),
        ("yum", "install", "-y"),
        ("java-17-openjdk-devel", "java-21-openjdk-devel"),
        "sudo yum install java-17-openjdk-devel",
    ),
    PackageManager(
        "apk",
        ("apk", "update"),
        ("apk", "add"),
        ("openjdk17-jdk", "openjdk21-jdk"),
        "sudo apk add openjdk17-jdk",
    ),
    PackageManager(
        "pacman",
        ("pacman", "-Sy"),
        ("pacman", "-S", "--noconfirm", "--needed"),
        ("jdk17-openjdk", "jdk21-openjdk"),
        "sudo pacman -S jdk17-openjdk",
    ),
    PackageManager(
        "zypper",
        (),
        ("zypper", "--non-interactive", "install"),
        ("java-17-openjdk-devel", "java-21-openjdk-devel"),
        "sudo zypper install java-17-openjdk-devel",
    ),
    PackageManager(
        "brew",
        (),
        ("brew", "install"),
        ("openjdk@17", "openjdk@21"),
        "brew install openjdk@17",
        as_root=False,
    ),
)


def main(argv: list[str]) -> int:
    found = find(os.environ)
    if found is None:
        found = _get_alone(Path(argv[0]))
    if found is None:
        say(advice(MANAGERS))
        return 1
    print(found)
    return 0


def _get_alone(home: Path) -> str | None:
    """Gets a JDK, as the only one who does: two callers on a fresh machine must not both install.

    None for a user who may not write in `home`, and so did not make the environment there.
    """
    try:
        with exclusive(home / "lock"):
            return find(os.environ) or get(MANAGERS)
    except PermissionError:
        return None


def find(environ: Mapping[str, str]) -> str | None:
    """The home of a Java of version 17 or newer: JAVA_HOME's, else PATH's, else the best known."""
    for home in _chosen_by_caller(environ):
        if _suits(home):
            return home
    others = [
        (version_of(home), home)
        for place in environ.get("CARETAKER_JAVA_PLACES", ":".join(USUAL_PLACES)).split(":")
        for home in sorted(glob.glob(os.path.expanduser(place)))
    ]
    suiting = [(version, home) for version, home in others if version >= OLDEST]
    return min(suiting, key=lambda one: _rank(one[0]))[1] if suiting else None


def _chosen_by_caller(environ: Mapping[str, str]) -> Iterator[str]:
    if environ.get("JAVA_HOME"):
        yield environ["JAVA_HOME"]
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield os.path.dirname(os.path.dirname(os.path.realpath(on_path)))


def _rank(version: int) -> tuple[int, int]:
    return (PREFERRED.index(version) if version in PREFERRED else len(PREFERRED), -version)


def _suits(home: str) -> bool:
    return version_of(home) >= OLDEST


def version_of(home: str) -> int:
    """The feature release of the Java in `home`, from its `release` file or from itself; else 0."""
    java = os.path.join(home, "bin", "java")
    if not os.access(java, os.X_OK):
        return 0
    try:
        with open(os.path.join(home, "release"), encoding="utf-8") as file:
            match = _RELEASE.search(file.read())
    except OSError:
        match = None
    if match is None:
        try:
            printed = subprocess.run(
                [java, "-version"], check=False, capture_output=True, text=True, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired):
            return 0
        match = _PRINTED.search(printed.stderr)
    return feature_release(match[1]) if match else 0


def feature_release(version: str) -> int:
    """17 of "17.0.15", 8 of "1.8.0_402", 0 of what is no version."""
    numbers = re.match(r"(?:1\.)?(\d+)", version)
    return int(numbers[1]) if numbers else 0


def at_hand(managers: tuple[PackageManager, ...]) -> PackageManager | None:
    return next((one for one in managers if shutil.which(one.command)), None)


def get(managers: tuple[PackageManager, ...]) -> str | None:
    """Installs a JDK and gives its home; None if this user cannot, or no package did."""
    manager = at_hand(managers)
    if manager is None:
        return None
    prefix = _root_prefix() if manager.as_root else ()
    if prefix is None:
        return None
    say(f"no Java {OLDEST} or newer here, Spark needs one: asking {manager.command}")
    if manager.refresh:
        _run((*prefix, *manager.refresh))
    for package in manager.packages:
        if _run((*prefix, *manager.install, package)) == 0:
            found = find(os.environ)
            if found is not None:
                say(f"Java is in {found}")
                return found
    return None


def _root_prefix() -> tuple[str, ...] | None:
    if os.geteuid() == 0:
        return ()
    if (
        shutil.which("sudo")
        and subprocess.run(["sudo", "-n", "true"], check=False, capture_output=True).returncode == 0
    ):
        return ("sudo", "-n")
    return None


def _run(command: tuple[str, ...]) -> int:
    """Runs it with its output on standard error, as standard output is for the answer."""
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=2).returncode


def advice(managers: tuple[PackageManager, ...]) -> str:
    """The command that fixes it."""
    manager = at_hand(managers)
    if manager is None:
        return f"Spark needs Java {OLDEST} or newer: install a JDK and set JAVA_HOME to it"
    return f"Spark needs Java {OLDEST} or newer; run: {manager.by_hand}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
