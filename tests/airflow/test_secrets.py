"""Secrets of the store reach planner, driver and executors, and nobody else.

A DAG runs on a real Spark and a real S3 server with credentials from a connection, and everything
that others can read is searched for them: the processes' arguments, the DAG, logs, the history,
XCom and everything else that Airflow stores, Spark's event log (its UI shows the same), and what is
left on disk.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import watched_arguments
from s3_store import s3_server

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.table.open import open_table
from paimon_core.write.row_writer import RowWriter
from paimon_dags.settings import SettingsError, settings_from
from paimon_maintenance.history.store import SqlHistory

pytestmark = [pytest.mark.airflow, pytest.mark.s3]

KEY, SECRET, TOKEN = "ACCESS-7391-KEY", "SECRET-7391-KEY", "TOKEN-7391-KEY"
NEEDLE = "7391-KEY"


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A table with something to compact on S3, and a connection with the way to it."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    from paimon_core.io.s3 import BoundedS3FileSystem

    with s3_server() as server:
        # What was opened without options keeps the credentials and the endpoint of its time.
        BoundedS3FileSystem.clear_instance_cache()
        warehouse = server.new_root()
        options = {
            **server.options,
            "s3.access-key": KEY,
            "s3.secret-key": SECRET,
            "s3.session-token": TOKEN,
        }
        extra = {
            "endpoint_url": options["s3.endpoint"],
            "region_name": options["s3.region"],
            "aws_session_token": TOKEN,
            "s3.path.style.access": "true",
        }
        connection = {"conn_type": "aws", "login": KEY, "password": SECRET, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
        fill(warehouse, options)
        yield warehouse
        BoundedS3FileSystem.clear_instance_cache()


def fill(warehouse: str, options: dict[str, str]) -> None:
    import pyarrow as pa

    env = system_environment()
    catalog = FileSystemCatalog(warehouse, options)
    catalog.create_database("db")
    columns = [Column("k", "INT NOT NULL"), Column("v", "STRING")]
    schema = create_schema(
        columns,
        now_millis=env.now_millis(),
        primary_keys=["k"],
        options={"bucket": "1", "write-only": "true"},
    )
    catalog.create_table("db.t", schema)
    for number in range(3):
        table = open_table(warehouse, "db.t", file_io_options=options)
        into = RowWriter(table, env=env)
        into.write(pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}))
        commit(table, into.prepare_commit(), user="test", identifier=number, env=env)


@pytest.mark.spark
@pytest.mark.slow
def test_nothing_that_others_can_read_holds_a_secret(
    lake: str, run_dag: Any, monkeypatch, tmp_path: Path, capfd, caplog
):
    history = SqlHistory(f"sqlite:///{tmp_path}/history.db")
    scratch, events = tmp_path / "scratch", tmp_path / "events"
    scratch.mkdir()
    events.mkdir()
    monkeypatch.setenv("CARETAKER_HISTORY_URL", history.url)
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    caplog.set_level(logging.INFO)
    with watched_arguments() as commands:
        conf = {"warehouse": lake, "tables": ["db.t"], "strategy": "full", "engine": "spark"}
        event_log = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false"}
        event_log["spark.eventLog.dir"] = events.as_uri()
        ran = run_dag(conf, storage_connection="lake", spark_conf=event_log)
    assert ran.state == "success", ran.report
    assert ran.tasks["on_spark[0]"] == "success"

    # What was searched is what was meant to be searched.
    submitted = [c for c in commands if "spark_app.py" in c]
    assert any("org.apache.spark.deploy.SparkSubmit" in c for c in submitted), submitted
    assert any("python" in c and "--batch" in c and "java" not in c for c in submitted), submitted
    told = "\n".join(capfd.readouterr()) + caplog.text
    assert "Spark-Submit cmd" in told
    entries = history.newest()
    assert [e.status for e in entries] == ["success", "planned"]
    places = {
        "the arguments of processes": "\n".join(commands),
        "logs": told,
        "the history": json.dumps([e.to_json() for e in entries]),
        "the report": json.dumps(dict(ran.report)) + ran.shown,
        "what Airflow stores": stored_by_airflow(),
        "Spark's event log": text_of_files(events),
    }
    assert "SparkListenerEnvironmentUpdate" in places["Spark's event log"]
    assert "caretaker_compact" in places["what Airflow stores"]
    assert {name for name, text in places.items() if NEEDLE in text} == set()
    # Also nothing of it stays on disk: neither a batch nor a folder of ours.
    assert [
        p for p in scratch.rglob("*") if p.is_file() and NEEDLE.encode() in p.read_bytes()
    ] == []
    assert list(scratch.glob("caretaker-*")) == []


def text_of_files(folder: Path) -> str:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return "\n".join(p.read_bytes().decode(errors="replace") for p in files)


def stored_by_airflow() -> str:
    """All rows of all tables of Airflow's database but its connections, as text."""
    import sqlalchemy as sa
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.session import create_session

    found = []
    with create_session() as session:
        engine = session.get_bind()
        metadata = sa.MetaData()
        metadata.reflect(engine)
        for table in metadata.sorted_tables:
            if table.name != "connection":
                found += [str(row) for row in session.execute(sa.select(table))]
        found += [json.dumps(dag.data) for dag in session.scalars(sa.select(SerializedDagModel))]
    return "\n".join(found)


def test_a_serialised_dag_names_the_connection_and_holds_no_secret(lake: str, tmp_path: Path):
    from airflow.serialization.serialized_objects import DagSerialization

    from paimon_dags.job_dags import job_dags

    settings = settings_from(
        {
            "caretaker": {"storage_connection": "lake"},
            "storage": {"s3.endpoint": "https://store"},
        },
        environ={},
    )
    for dag in job_dags(settings):
        written = json.dumps(DagSerialization.to_dict(dag))
        assert NEEDLE not in written


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("storage", "s3.secret-key"),
        ("storage", "s3.access-key"),
        ("spark_conf", "spark.hadoop.fs.s3a.secret.key"),
    ],
)
def test_settings_refuse_secrets_and_say_where_they_belong(table: str, key: str):
    with pytest.raises(SettingsError) as caught:
        settings_from({table: {key: SECRET}}, environ={}, where="caretaker.toml")
    text = str(caught.value)
    assert text.startswith(f"caretaker.toml: [{table}]: {key} must not be set here")
    assert "storage_connection" in text
    assert NEEDLE not in text


def test_settings_refuse_secrets_in_environment_variables_of_spark_submit():
    submit = {"env_vars": {"AWS_SECRET_ACCESS_KEY": SECRET}, "num_executors": 2}
    with pytest.raises(SettingsError, match=r"\[submit\]: env_vars\.AWS_SECRET_ACCESS_KEY"):
        settings_from({"submit": submit}, environ={})


def test_a_batch_is_readable_by_its_owner_only(tmp_path: Path):
    from paimon_airflow.spark import submission

    batch = submission.write_private(tmp_path / "batch.json", "{}")
    assert batch.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        submission.write_private(batch, "{}")


def test_the_batch_travels_as_a_file_to_a_driver_on_the_cluster(tmp_path: Path):
    from paimon_airflow.spark import submission

    yarn, local = submission.Target("yarn", "cluster"), submission.Target("local[2]", "client")
    batch = tmp_path / "caretaker-batch-1.json"
    assert submission.shipped_files(yarn, batch, "a.txt") == f"a.txt,{batch}"
    assert submission.shipped_files(local, batch, None) is None
    args = submission.application_args(yarn, batch, "s3://lake/.caretaker/x", None)
    assert args == ["--batch", batch.name, "--results", "s3://lake/.caretaker/x"]
    args = submission.application_args(local, batch, "/r", tmp_path / "lifeline")
    assert args[:2] == ["--batch", str(batch)]
    assert args[-2:] == ["--lifeline", str(tmp_path / "lifeline")]
    args = submission.application_args(yarn, batch, "/r", None, "Europe/Berlin")
    assert args[-2:] == ["--timezone", "Europe/Berlin"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("none at all", "Unable to locate credentials"),
        ("unknown", "The AWS Access Key Id you provided does not exist"),
    ],
)
def test_wrong_credentials_fail_at_once(
    wrong: str, said: str, run_dag: Any, lake: str, monkeypatch, capfd
):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    settings = {}
    if wrong == "unknown":
        settings["storage_connection"] = "lake"
        # From now on the server wants to know who asks.
        monkeypatch.setattr("moto.core.responses.ActionAuthenticatorMixin.request_count", 1)
        monkeypatch.setattr("moto.settings.INITIAL_NO_AUTH_ACTION_COUNT", 0.0)
        monkeypatch.setattr("moto.core.responses.settings.INITIAL_NO_AUTH_ACTION_COUNT", 0.0)
    ran = run_dag({"warehouse": lake, "tables": ["db.*"]}, retries=2, **settings)
    assert ran.state == "failed"
    assert ran.tries["plan"] == 1
    assert said in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "text",
    [
        "An error occurred (InvalidAccessKeyId) when calling the ListObjectsV2 operation",
        "[Errno 5] NoCredentialsError: Unable to locate credentials",
        "PartialCredentialsError: Partial credentials found in explicit, missing: secret_key",
        "ClientError: An error occurred (ExpiredToken) when calling the PutObject operation",
        "java.nio.file.AccessDeniedException: s3a://lake/x: AccessDenied",
        "the Spark task died: PermissionError: Access Denied.",
    ],
)
def test_refused_credentials_are_known_by_their_text(text: str):
    from paimon_airflow.tasks.results import retry_helps

    assert not retry_helps("OSError", text)
    assert not retry_helps("StorageAccessDenied")
    assert retry_helps("OSError", "[Errno 5] EndpointConnectionError: could not connect")
    assert retry_helps("OSError", re.sub(r"\w+", "x", text))
