"""What ./caretaker does before anything is installed."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from bootstrap import checks, environment, java, lock_file

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
SMALL_LOCK = """\
pip==1.0 \\
    --hash=sha256:{pip}
    # via somebody
two==2.0 ; python_full_version < '3.12' \\
    --hash=sha256:{two}
two==2.1 ; python_full_version >= '3.12' \\
    --hash=sha256:{two}
wheel==0.48.0 \\
    --hash=sha256:{pip} \\
    --hash=sha256:{two}
""".format(pip="a" * 64, two="b" * 64)


class TestLock:
    def test_every_package_has_a_version_and_hashes(self):
        entries = lock_file.entries(LOCK)
        heads = [line for line in LOCK.splitlines() if line and not line[0].isspace()]
        assert len(entries) == len([line for line in heads if not line.startswith("#")])
        assert [entry.name for entry in entries if not entry.sha256] == []

    def test_names_no_package_index(self):
        assert re.findall(r"\S*(?:://|--(?:extra-)?index|--find-links)\S*", LOCK) == []

    def test_holds_what_the_project_asks_for(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        wanted = [*project["dependencies"]]
        extras = project["optional-dependencies"]
        own = next(r for r in map(Requirement, extras["dev"]) if r.name == project["name"])
        for name in ("dev", *own.extras):
            wanted += extras[name]
        locked = {entry.name: entry.version for entry in lock_file.entries(LOCK)}
        for requirement in map(Requirement, wanted):
            if requirement.name != project["name"]:
                name = requirement.name.lower().replace("_", "-")
                assert requirement.specifier.contains(locked[name]), requirement

    def test_knows_the_pip_that_comes_with_the_checkout(self, tmp_path):
        environment.unpack_pip(ROOT / "bootstrap", LOCK, tmp_path)
        assert (tmp_path / "pip" / "__main__.py").exists()

    def test_entries_of_one_package_differ_by_marker(self):
        entries = lock_file.entries(SMALL_LOCK)
        assert [(entry.name, entry.version) for entry in entries] == [
            ("pip", "1.0"),
            ("two", "2.0"),
            ("two", "2.1"),
            ("wheel", "0.48.0"),
        ]
        assert entries[3].sha256 == {"a" * 64, "b" * 64}
        assert "".join(entry.text for entry in entries) == SMALL_LOCK

    def test_part_of_a_lock_is_a_lock(self):
        part = lock_file.only(SMALL_LOCK, frozenset({"two"}))
        assert [entry.version for entry in lock_file.entries(part)] == ["2.0", "2.1"]
        with pytest.raises(KeyError, match="three"):
            lock_file.only(SMALL_LOCK, frozenset({"two", "three"}))

    def test_key_depends_on_each_part(self):
        keys = {
            lock_file.key(SMALL_LOCK, "3.11", "/a"),
            lock_file.key(SMALL_LOCK, "3.12", "/a"),
            lock_file.key(SMALL_LOCK, "3.11", "/b"),
            lock_file.key(LOCK, "3.11", "/a"),
            lock_file.key(SMALL_LOCK, "3.11/a"),
        }
        assert len(keys) == 5


class TestEnvironment:
    @pytest.mark.parametrize("by_hand", [False, True])
    def test_an_environment_stands_by_itself(self, tmp_path, by_hand):
        env = tmp_path / "env-x"
        if by_hand:
            base = os.path.realpath(sys._base_executable)
            environment.make_environment_by_hand(env, base)
        else:
            environment.make_environment(env)
        site = environment.site_packages(env)
        (site / "only_here.py").write_text("")
        program = "import sys, only_here; print(sys.prefix); import pyarrow"
        run = subprocess.run(
            [env / "bin" / "python", "-I", "-c", program],
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.stdout.strip() == str(env)
        assert "No module named 'pyarrow'" in run.stderr
        # Not `python3`, which a system upgrade may turn into another Python.
        assert (env / "bin" / "python").resolve() == (env / "bin" / "python").readlink()

    def test_half_installed_packages_are_forgotten(self, tmp_path):
        for name, files in {"whole-1": ["METADATA", "RECORD"], "half-1": ["METADATA"]}.items():
            info = tmp_path / f"{name}.dist-info"
            info.mkdir()
            for file in files:
                (info / file).write_text("")
        environment.forget_incomplete(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["whole-1.dist-info"]

    def test_a_wheel_that_the_lock_does_not_know_is_refused(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "pip-1.0-py3-none-any.whl", "w") as archive:
            archive.writestr("pip/__main__.py", "")
        with pytest.raises(environment.BootstrapError, match="not the file"):
            environment.unpack_pip(tmp_path, SMALL_LOCK, tmp_path / "site")
        assert not (tmp_path / "site").exists()
        (tmp_path / "pip-1.0-py3-none-any.whl").unlink()
        with pytest.raises(environment.BootstrapError, match="missing"):
            environment.unpack_pip(tmp_path, SMALL_LOCK, tmp_path / "site")

    def test_pip_keeps_the_callers_index_but_not_his_places(self, tmp_path):
        settings = environment.pip_settings(
            {
                "PIP_INDEX_URL": "index",
                "PIP_CERT": "cert",
                "HTTPS_PROXY": "proxy",
                "PIP_TARGET": "/elsewhere",
                "PIP_USER": "1",
                "PYTHONPATH": "/checkout",
            },
            tmp_path,
        )
        assert settings["PIP_INDEX_URL"] == "index"
        assert settings["PIP_CERT"] == "cert"
        assert settings["HTTPS_PROXY"] == "proxy"
        assert settings["PIP_USER"] == "0"
        assert settings["TMPDIR"] == str(tmp_path)
        assert {"PIP_TARGET", "PYTHONPATH"} & settings.keys() == set()

    def test_only_a_complete_environment_of_this_lock_and_place_is_usable(self, tmp_path):
        env = tmp_path / "env-1"
        environment.make_environment(env)
        environment._make_current(tmp_path, env)
        assert environment.usable(tmp_path, SMALL_LOCK) is None  # interrupted
        (env / "requirements.lock").write_text(SMALL_LOCK)
        assert environment.usable(tmp_path, SMALL_LOCK) == env
        assert environment.usable(tmp_path, LOCK) is None
        moved = tmp_path.with_name("moved")
        shutil.copytree(tmp_path, moved, symlinks=True)
        assert environment.usable(moved, SMALL_LOCK) is None
        (env / "bin" / "python").unlink()
        (env / "bin" / "python").symlink_to("/gone")
        assert environment.usable(tmp_path, SMALL_LOCK) is None

    def test_the_environment_used_before_stays_older_ones_go(self, tmp_path):
        for name in ("env-1", "env-2", "env-3"):
            (tmp_path / name).mkdir()
            environment._make_current(tmp_path, tmp_path / name)
        assert sorted(path.name for path in tmp_path.glob("env-*")) == ["env-2", "env-3"]
        assert (tmp_path / "current").read_text() == f"{tmp_path / 'env-3'}\n"

    def test_a_second_caller_waits_and_says_so(self, tmp_path, capsys):
        entered = threading.Event()

        def second():
            with environment.exclusive(tmp_path / "lock"):
                entered.set()

        with environment.exclusive(tmp_path / "lock"):
            thread = threading.Thread(target=second)
            thread.start()
            assert not entered.wait(0.3)
        assert entered.wait(10)
        thread.join()
        assert "waiting" in capsys.readouterr().err

    def test_progress_is_read_from_pips_log(self, tmp_path):
        log, site = tmp_path / "install.log", tmp_path / "site"
        (site / "one-1.dist-info").mkdir(parents=True)
        (site / "one-1.dist-info" / "RECORD").write_text("")
        log.write_text("Collecting from-before==1\n")
        progress = environment.Progress(log, site, 4)
        expected = []
        with log.open("a") as file:
            for line in (
                "Collecting one==1 (from -r requirements.txt (line 1))",
                "Collecting two==2 (from -r requirements.txt (line 2))",
                "  Building wheel for two (pyproject.toml): started",
                "Installing collected packages: one, two",
            ):
                print(line, file=file, flush=True)
                expected.append(progress.read())
        assert expected == [
            "downloading one==1, package 1 of 4",
            "downloading two==2, package 2 of 4",
            "building two",
            "installing, package 1 of 4",
        ]


def a_java(home: Path, *, release: str | None = None, prints: str = "") -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{prints}' >&2\n")
    program.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return home


class TestJava:
    @pytest.mark.parametrize(
        ("text", "release"),
        [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("11.0.2+9", 11), ("25-ea", 25), ("?", 0)],
    )
    def test_feature_release(self, text, release):
        assert java.feature_release(text) == release

    def test_version_is_in_the_release_file_or_printed(self, tmp_path):
        assert java.version_of(str(a_java(tmp_path / "a", release="17.0.1"))) == 17
        printed = 'openjdk version "21.0.2" 2024-01-16'
        assert java.version_of(str(a_java(tmp_path / "b", prints=printed))) == 21
        assert java.version_of(str(a_java(tmp_path / "c", prints="no java here"))) == 0
        assert java.version_of(str(tmp_path / "nowhere")) == 0

    def test_the_callers_choice_comes_first_if_it_will_do(self, tmp_path):
        for name in ("8.0.1", "18.0.1", "25.0.1", "21.0.1"):
            a_java(tmp_path / "places" / name, release=name)
        old, on_path = tmp_path / "places" / "8.0.1", tmp_path / "places" / "18.0.1"
        places = {"CARETAKER_JAVA_PLACES": str(tmp_path / "places" / "*")}
        best = str(tmp_path / "places" / "21.0.1")
        newest = str(tmp_path / "places" / "25.0.1")
        assert java.find(places | {"PATH": ""}) == best
        assert java.find(places | {"PATH": str(on_path / "bin")}) == str(on_path)
        chosen = {"PATH": str(on_path / "bin"), "JAVA_HOME": newest}
        assert java.find(places | chosen) == newest
        too_old = {"PATH": str(old / "bin"), "JAVA_HOME": str(old)}
        assert java.find(places | too_old) == best
        assert java.find({"CARETAKER_JAVA_PLACES": str(old), "PATH": ""}) is None

    def test_the_advice_is_one_line_that_can_be_run(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(tmp_path))
        assert java.advice(java.MANAGERS).endswith("install a JDK and set JAVA_HOME to it")
        for manager in java.MANAGERS:
            tool = tmp_path / manager.command
            tool.write_text("#!/bin/sh\n")
            tool.chmod(0o755)
            advice = java.advice((manager,))
            assert manager.by_hand in advice
            assert "\n" not in advice
            assert manager.packages[0] in advice or "java-21" in advice

    def test_packages_are_tried_until_one_brings_a_java(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setattr(java.shutil, "which", lambda name, path=None: name == "getit" or None)
        monkeypatch.setenv("CARETAKER_JAVA_PLACES", str(tmp_path / "jvm" / "*"))
        tool = tmp_path / "getit"
        tool.write_text(
            f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n'
            f'[ "$2" = jdk-b ] && mkdir -p {tmp_path}/jvm/b/bin && touch {tmp_path}/jvm/b/bin/java'
            f" && chmod +x {tmp_path}/jvm/b/bin/java"
            f""" && echo 'JAVA_VERSION="17"' > {tmp_path}/jvm/b/release\n"""
        )
        tool.chmod(0o755)
        manager = java.PackageManager(
            *("getit", ("getit", "refresh"), ("getit", "add"), ("jdk-a", "jdk-b", "jdk-c"), ""),
            as_root=False,
        )
        assert java.get((manager,)) == str(tmp_path / "jvm" / "b")
        calls = (tmp_path / "calls").read_text().splitlines()
        assert calls == ["refresh", "add jdk-a", "add jdk-b"]
        assert java.get((manager._replace(command="absent"),)) is None


@pytest.fixture
def launcher(tmp_path):
    """./caretaker with a made-up environment whose python prints what it was given."""
    home = tmp_path / "home"
    env = home / "env-fake"
    (env / "bin").mkdir(parents=True)
    python = env / "bin" / "python"
    python.write_text(
        '#!/bin/sh\ncase "$*" in *bootstrap.java*) echo /the/java; exit;; esac\n'
        'for a in "$@"; do echo "[$a]"; done\n'
        'echo "JAVA_HOME=${JAVA_HOME:-}"; echo "PYTHONPATH=$PYTHONPATH"\n'
        'echo "PYSPARK_PYTHON=$PYSPARK_PYTHON"; echo "PATH=$PATH"; exit 7\n'
    )
    python.chmod(0o755)
    shutil.copy(ROOT / "requirements.lock", env / "requirements.lock")
    (home / "current").write_text(f"{env}\n")

    def run(*arguments, program=ROOT / "caretaker", cwd=tmp_path, **environ):
        return subprocess.run(
            [program, *arguments],
            cwd=cwd,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CARETAKER_HOME": str(home)}
            | environ,
            capture_output=True,
            text=True,
            check=False,
        )

    run.home, run.env, run.python = home, env, python
    return run


class TestLauncher:
    def test_passes_arguments_and_exit_code_on(self, launcher):
        run = launcher("read", "db.t", "-w", "a folder", "--where", "a = 'b  c'")
        assert run.returncode == 7
        assert run.stderr == ""
        arguments = [line for line in run.stdout.splitlines() if line.startswith("[")]
        assert arguments == [
            *("[-P]", "[-m]", "[paimon_maintenance.cli]"),
            *("[read]", "[db.t]", "[-w]", "[a folder]", "[--where]", "[a = 'b  c']"),
        ]
        assert f"PYTHONPATH={ROOT}:{ROOT}/maintenance:{ROOT}/plugins:{ROOT}/dags\n" in run.stdout
        assert f"PYSPARK_PYTHON={launcher.python}\n" in run.stdout
        assert f"PATH={launcher.env}/bin:" in run.stdout

    def test_python_is_the_environments(self, launcher):
        assert launcher("python", "-c", "x y").stdout.startswith("[-c]\n[x y]\n")

    def test_works_from_anywhere_and_through_links(self, launcher, tmp_path):
        (tmp_path / "links").mkdir()
        (tmp_path / "links" / "first").symlink_to(ROOT / "caretaker")
        (tmp_path / "links" / "second").symlink_to("first")
        run = launcher("python", program=tmp_path / "links" / "second", cwd="/")
        assert f"PYTHONPATH={ROOT}:" in run.stdout
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "caretaker").symlink_to("../links/second")
        run = launcher("python", program=tmp_path / "bin" / "caretaker", PYTHONPATH="/own")
        assert (
            f"PYTHONPATH={ROOT}:{ROOT}/maintenance:{ROOT}/plugins:{ROOT}/dags:/own\n" in run.stdout
        )

    @pytest.mark.parametrize(
        ("arguments", "wanted"),
        [
            (["demo"], True),
            (["test", "-x"], True),
            (["run", "compact", "db.t"], False),
            (["sql"], False),
            (["run", "compact", "--help"], False),
            (["plan", "compact", "db.t"], False),
            (["python", "demo"], False),
            ([], False),
        ],
    )
    def test_java_is_looked_for_only_where_spark_always_starts(self, launcher, arguments, wanted):
        expected = "/the/java" if wanted else ""
        assert f"JAVA_HOME={expected}\n" in launcher(*arguments).stdout

    @pytest.mark.parametrize("spoil", ["lock", "moved", "gone", "absent"])
    def test_an_environment_that_does_not_fit_is_made_anew(self, launcher, spoil, tmp_path):
        if spoil == "lock":
            (launcher.env / "requirements.lock").write_text("other\n")
        elif spoil == "moved":
            (launcher.home / "current").write_text("/elsewhere/env-fake\n")
        elif spoil == "gone":
            launcher.python.unlink()
        else:
            (launcher.home / "current").unlink()
        # A python that does as if it had installed, and keeps what it was asked.
        fake = tmp_path / "fake-python"
        fake.write_text(
            '#!/bin/sh\n[ "$1" = -c ] && { echo "$0"; exit; }\n'
            f'echo "$@" > {tmp_path}/asked; echo installing >&2\n'
            f"mkdir -p {launcher.home}/env-new/bin; cd {launcher.home}/env-new\n"
            "printf '#!/bin/sh\\necho new \"$@\"\\n' > bin/python; chmod +x bin/python\n"
            f"echo {launcher.home}/env-new > ../current\n"
        )
        fake.chmod(0o755)
        run = launcher("python", "-V", CARETAKER_PYTHON=str(fake))
        assert run.stdout == "new -V\n"
        assert run.stderr == "installing\n"
        asked = (tmp_path / "asked").read_text()
        assert asked == f"-P -s -m bootstrap.environment {ROOT} {launcher.home}\n"

    def test_without_a_python_it_says_so_in_one_line(self, launcher, tmp_path):
        (launcher.home / "current").unlink()
        tools = tmp_path / "tools"
        tools.mkdir()
        for name in ("sh", "dirname", "readlink", "cmp"):
            (tools / name).symlink_to(shutil.which(name))
        old = tools / "python3"
        old.write_text("#!/bin/sh\necho SyntaxError >&2; exit 1\n")
        old.chmod(0o755)
        run = launcher("plan", PATH=str(tools))
        assert (run.returncode, run.stdout) == (1, "")
        assert run.stderr.startswith("caretaker: no Python 3.11")
        assert run.stderr.count("\n") == 1
        run = launcher("plan", CARETAKER_PYTHON=str(old))
        assert run.returncode == 1
        assert run.stderr.startswith(f"caretaker: CARETAKER_PYTHON={old} is not a Python")

    def test_a_termination_while_installing_is_clean(self, tmp_path):
        """Held up at the lock, where it would wait for another installation."""
        with environment.exclusive(tmp_path / "lock"):
            process = subprocess.Popen(
                [sys.executable, "-m", "bootstrap.environment", ROOT, tmp_path],
                cwd=ROOT,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert "waiting" in process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            # We hold the lock: it cannot have ended by getting it.
            assert process.wait(60) == 130
            assert "the next call continues" in process.stderr.read()
            process.stderr.close()


def run_as_nobody(*command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command as the user nobody, who may write next to nowhere."""
    return subprocess.run(
        [
            *("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"),
            *("env", "-i", "PATH=/usr/bin:/bin", "HOME=/nonexistent"),
            *(f"{name}={value}" for name, value in environ.items()),
            *map(str, command),
        ],
        check=False,
        capture_output=True,
        text=True,
        cwd="/",
    )


def python_of_everybody() -> str | None:
    """A Python of this version that the user nobody can run, and the checkout with it."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return None
    own = os.path.realpath(sys.executable)
    for python in (own, f"/usr/bin/{Path(own).name}", "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            ran = run_as_nobody(python, "-c", "import sys; print(*sys.version_info[:2])")
        except OSError:
            continue
        readable = run_as_nobody("cat", ROOT / "caretaker").returncode == 0
        if ran.stdout.split() == [str(n) for n in sys.version_info[:2]] and readable:
            return os.path.realpath(python)
    return None


class TestAnotherUser:
    """An environment that root made, and nobody uses: nothing of it is written to."""

    @pytest.fixture
    def home(self):
        python = python_of_everybody()
        if python is None:
            pytest.skip("needs root, setpriv, and a Python and checkout that nobody can read")
        # Not pytest's own folder, which only its user may enter.
        folder = Path(tempfile.mkdtemp(prefix="caretaker-"))
        folder.chmod(0o755)
        env = folder / "env-made"
        environment.make_environment_by_hand(env, python)
        shutil.copy(ROOT / "requirements.lock", env / "requirements.lock")
        (folder / "current").write_text(f"{env}\n")
        (folder / "lock").touch(mode=0o644)
        yield folder
        shutil.rmtree(folder)

    def snapshot(self, home: Path) -> set[tuple[str, int]]:
        return {(str(p), p.lstat().st_mtime_ns) for p in (home, *home.rglob("*"))}

    def test_runs_in_it(self, home):
        before = self.snapshot(home)
        code = "import os, sys; print(os.getuid(), sys.prefix)"
        ran = run_as_nobody(ROOT / "caretaker", "python", "-c", code, CARETAKER_HOME=str(home))
        assert ran.stderr == ""
        assert ran.stdout.split() == [str(pwd.getpwnam("nobody").pw_uid), str(home / "env-made")]
        assert self.snapshot(home) == before

    def test_needs_no_lock_where_the_front_door_cannot_tell_that_all_is_ready(self, home):
        """Without `cmp` on PATH, the bootstrap is asked each time."""
        python = str((home / "env-made" / "bin" / "python").readlink())
        before = self.snapshot(home)
        ran = run_as_nobody(
            *(python, "-P", "-s", "-m", "bootstrap.environment", ROOT, home), PYTHONPATH=str(ROOT)
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        assert self.snapshot(home) == before

    def test_without_java_hears_how_to_get_one(self, home):
        python = home / "env-made" / "bin" / "python"
        ran = run_as_nobody(
            *(python, "-P", "-m", "bootstrap.java", home),
            PYTHONPATH=str(ROOT),
            CARETAKER_JAVA_PLACES="/nowhere",
            PATH="/nonexistent",
        )
        assert ran.returncode == 1
        assert ran.stderr.startswith("caretaker: Spark needs Java 17 or newer")
        assert ran.stderr.count("\n") == 1

    def test_hears_why_an_environment_is_of_no_use(self, home):
        private = home / "private"
        private.mkdir(mode=0o700)
        link = home / "env-made" / "bin" / "python"
        python = str(link.readlink())
        (private / "python").symlink_to(python)
        link.unlink()
        link.symlink_to(private / "python")
        ran = run_as_nobody(
            *(ROOT / "caretaker", "python", "-V"),
            CARETAKER_HOME=str(home),
            CARETAKER_PYTHON=python,
        )
        assert ran.returncode == 1
        assert f"this user cannot run {private}/python, with which the environment" in ran.stderr
        assert ran.stderr.endswith("set CARETAKER_HOME to a folder of your own\n")

    def test_keeps_caches_of_checks_to_itself(self, home, monkeypatch, tmp_path):
        monkeypatch.setenv("CARETAKER_HOME", str(home))
        assert checks.caches_folder() == home / "cache"
        code = "from bootstrap import checks; print(checks.caches_folder())"
        ran = run_as_nobody(
            *(home / "env-made" / "bin" / "python", "-P", "-c", code),
            PYTHONPATH=str(ROOT),
            CARETAKER_HOME=str(home),
            XDG_CACHE_HOME="/somewhere",
        )
        assert ran.stdout == "/somewhere/caretaker/cache\n"


def test_what_is_installed_can_be_read_by_others_whatever_the_umask(tmp_path):
    (tmp_path / "requirements.lock").write_text("")
    code = (
        "import os; from bootstrap import environment; os.umask(0o077)\n"
        "environment.ensure = lambda root, home: print(oct(os.umask(0)))\n"
        f"environment.main([{str(tmp_path)!r}, {str(tmp_path)!r}])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert ran.stdout == "0o22\n"


DEAF = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"


class TestChecks:
    def test_stops_at_the_first_failure(self, monkeypatch, capsys, tmp_path):
        monkeypatch.setenv("CARETAKER_HOME", str(tmp_path))
        outcomes = [("one", 0), ("two", 3), ("three", 0)]
        commands = [
            (name, [sys.executable, "-c", f"print('{name}', flush=True); raise SystemExit({code})"])
            for name, code in outcomes
        ]
        monkeypatch.setattr(checks, "stages", lambda *_: commands)
        assert checks.main([]) == 3
        said = capsys.readouterr().err
        assert "two failed (exit 3)" in said
        assert "three" not in said
        monkeypatch.setattr(checks, "stages", lambda *_: commands[:1])
        assert checks.main([]) == 0
        assert "all checks passed" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("beside", "last", "code", "says"),
        [
            # The check beside the others fails while another runs, which is interrupted.
            ("print('bad types'); raise SystemExit(2)", "import time; time.sleep(60)", 2, "mypy"),
            ("raise SystemExit(2)", f"{DEAF}; import time; time.sleep(60)", 2, "mypy"),
            ("import time; time.sleep(60)", "raise SystemExit(3)", 3, "tests"),
            ("import time; time.sleep(0.5); raise SystemExit(2)", "", 2, "mypy"),
            ("print('bad types')", "import time; time.sleep(0.5)", 0, "all checks passed: cheap"),
        ],
    )
    def test_one_check_runs_beside_the_others(
        self, monkeypatch, capfd, tmp_path, beside, last, code, says
    ):
        monkeypatch.setenv("CARETAKER_HOME", str(tmp_path))
        monkeypatch.setenv("HYPOTHESIS_STORAGE_DIRECTORY", str(tmp_path / "hypothesis"))
        commands = [
            (name, [sys.executable, "-c", code])
            for name, code in (("mypy", beside), ("cheap", ""), ("tests", last))
        ]
        monkeypatch.setattr(checks, "stages", lambda *_: commands)
        monkeypatch.setattr(checks, "INTERRUPT_SECONDS", 1)
        began = time.monotonic()
        assert checks.main([]) == code
        assert time.monotonic() - began < 30
        out, err = capfd.readouterr()
        assert (says if code == 0 else f"{says} failed (exit {code})") in err
        assert out.count("bad types") == beside.count("bad types")

    def test_runs_everything_in_order(self, tmp_path):
        found = checks.stages("python", tmp_path, ["-k", "x"])
        assert [name for name, _ in found] == [
            *("mypy", "ruff check", "ruff format", "import-linter", "pytest")
        ]
        assert found[-1][1][-2:] == ["-k", "x"]
