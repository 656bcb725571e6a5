"""The files under docker/, as far as they can be held to something without a Docker engine."""

from __future__ import annotations

import importlib.metadata
import os
import re
import runpy
import subprocess
import tomllib
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from s3_store import s3_server

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
LOCK = (ROOT / "requirements.lock").read_text()
VARIABLE = re.compile(r"\$\{(\w+)(?P<rest>[^}]*)\}")
SECRET_NAMES = re.compile(r"PASSWORD|SECRET|ACCESS_KEY|FERNET|SQL_ALCHEMY_CONN|HISTORY_URL")


def env_names() -> dict[str, str]:
    lines = (DOCKER / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def one_shot(name: str) -> bool:
    return SERVICES[name].get("restart") == "no"


def test_every_variable_is_in_the_example_and_every_secret_is_asked_for():
    text = (DOCKER / "compose.yaml").read_text()
    names = env_names()
    assert {found.group(1) for found in VARIABLE.finditer(text)} == set(names)
    for found in VARIABLE.finditer(text):
        if names[found.group(1)]:
            assert found["rest"] == f":-{names[found.group(1)]}", found.group(0)
        else:
            assert found["rest"].startswith(":?"), found.group(0)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_healthy_or_ends_and_keeps_no_secret(name):
    service = SERVICES[name]
    assert one_shot(name) != ("healthcheck" in service)
    if "image" in service and "build" not in service:
        tag = service["image"].rpartition(":")[2]
        assert re.match(r"\d", tag), "pinned to a version"
    for variable, value in service.get("environment", {}).items():
        if SECRET_NAMES.search(variable):
            assert "${" in str(value), variable
    for port in service.get("ports", ()):
        assert port.startswith("127.0.0.1:")
    for other, how in service.get("depends_on", {}).items():
        wanted = "service_completed_successfully" if one_shot(other) else "service_healthy"
        assert how["condition"] == wanted
    for volume in service.get("volumes", ()):
        assert volume.split(":")[0] in COMPOSE["volumes"]


def test_filling_in_the_example_makes_fresh_secrets_and_git_ignores_them():
    filled = runpy.run_path(str(DOCKER / "make_env.py"))["filled"]
    example = (DOCKER / ".env.example").read_text()
    first, second = filled(example), filled(example)
    assert first != second
    made = dict(line.split("=", 1) for line in first.splitlines() if re.match(r"\w+=", line))
    assert set(made) == set(env_names())
    assert all(made.values())
    pytest.importorskip("cryptography.fernet").Fernet(made["AIRFLOW_FERNET_KEY"])
    assert "docker/.env" in (ROOT / ".gitignore").read_text()


def test_the_image_holds_all_that_its_packages_need_and_no_tools_of_ours():
    image_lock = runpy.run_path(str(DOCKER / "image_lock.py"))
    needed = image_lock["needed"](LOCK)
    assert not needed & {"pytest", "mypy", "ruff", "moto", "hypothesis", "import-linter"}
    names = {canonicalize_name(name) for name in needed}
    extras = {"pyspark": ("connect",), "fastapi": ("standard-no-fastapi-cloud-cli",)}
    missing = set()
    for name in needed:
        try:
            requires = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # of another Python or platform
        for text in requires:
            wanted = Requirement(text)
            if wanted.marker is None or any(
                wanted.marker.evaluate({"extra": extra}) for extra in ("", *extras.get(name, ()))
            ):
                missing |= {canonicalize_name(wanted.name)} - names
    assert missing == set()
    # All of the extras that the image is for is among the roots.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = [
        *project["project"]["dependencies"],
        *(
            text
            for extra in ("maintenance", "spark", "airflow", "s3", "sketches")
            for text in project["project"]["optional-dependencies"][extra]
        ),
    ]
    roots = {Requirement(text).name for text in asked} - {"paimon-caretaker"}
    assert roots == set(image_lock["ROOTS"])


def test_parts_of_the_lock_keep_their_hashes():
    image_lock = runpy.run_path(str(DOCKER / "image_lock.py"))
    part = image_lock["part"](LOCK, frozenset({"setuptools", "wheel"}))
    assert part.count("==") == 2
    assert part.count("--hash=sha256:") >= 4
    with pytest.raises(SystemExit, match="nothere"):
        image_lock["part"](LOCK, frozenset({"nothere"}))


def test_what_the_dockerfile_copies_is_there_and_not_ignored():
    text = (DOCKER / "Dockerfile").read_text()
    kept = [
        line[1:]
        for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    sources = [
        source
        for line in text.splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    ]
    assert len(sources) >= 9
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(source == k or source.startswith(f"{k}/") for k in kept), source
    assert re.search(r"^USER caretaker$", text, re.MULTILINE)


def test_the_scripts_are_well_formed():
    script = DOCKER / "serve_airflow.sh"
    assert os.access(script, os.X_OK)
    subprocess.run(["sh", "-n", str(script)], check=True)


def test_the_settings_of_the_image_are_settings():
    from paimon_dags.settings import load_settings

    settings = load_settings(DOCKER / "caretaker.toml", {"CARETAKER_WAREHOUSE": "s3://lake"})
    assert settings.pool == "caretaker"
    init = " ".join(SERVICES["airflow-init"]["command"])
    assert f"airflow pools set {settings.pool} " in init


def test_the_policy_of_the_image_is_a_policy_and_where_the_settings_look():
    from paimon_maintenance.policy.load import load_policy

    assert load_policy(DOCKER / "policy.yaml").schedules()
    settings = tomllib.loads((DOCKER / "caretaker.toml").read_text())
    folder, _, name = settings["caretaker"]["policy"].rpartition("/")
    copied = re.search(
        r"^COPY (.*) (/app/dags/)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE
    )
    assert copied is not None
    assert copied[2].rstrip("/") == folder
    assert f"docker/{name}" in copied[1].split()


@pytest.mark.s3
def test_a_store_is_probed_before_anything_commits_to_it(monkeypatch, capsys):
    store = runpy.run_path(str(DOCKER / "store.py"))
    with s3_server() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.options["s3.endpoint"])
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        client = store["connect"]()
        # A bucket of its own: the server remembers what other tests of this process left.
        store["make_bucket"](client, "probed")
        store["make_bucket"](client, "probed")
        client.put_object(Bucket="probed", Key="there", Body=b"0")
        assert store["winners"](client, "probed", "there") == 0
        # Whatever this server makes of a race, the verdict must be the truth.
        code = store["main"]("s3://probed/warehouse")
        assert ("loses commits" in capsys.readouterr().out) == (code == 1)
        assert "Contents" not in client.list_objects_v2(Bucket="probed", Prefix="warehouse")

        alone = Lock()

        class Careless:
            """A store that takes the condition and ignores it, one request after the other.

            The server answers 500 where two of them write one object at once.
            """

            def __getattr__(self, name: str) -> Any:
                return getattr(client, name)

            def put_object(self, *, IfNoneMatch: str, **parts: Any) -> Any:  # noqa: N803
                with alone:
                    return client.put_object(**parts)

        assert store["winners"](Careless(), "probed", "careless") > 1
