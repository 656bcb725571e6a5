"""Which options of a store are secret, and that nothing public takes them."""

from __future__ import annotations

import pytest
from command_line import caretaker

from paimon_core.errors import InvalidArgument
from paimon_maintenance.storage.options import options_of_environment, refuse_secrets, secret_keys

SECRET = [
    "s3.access-key",
    "s3.secret-key",
    "s3.session-token",
    "fs.s3a.access.key",
    "fs.s3a.secret.key",
    "fsspec.key",
    "fsspec.secret",
    "fsspec.token",
    "fsspec.password",
    "fs.oss.accessKeySecret",
    "fs.oss.accessKeyId",
    "fsspec.account_key",
    "fsspec.connection_string",
    "fsspec.sas",
    "AWS_SECRET_ACCESS_KEY",
    "spark.hadoop.fs.s3a.secret.key",
    "spark.authenticate.secret",
    "spark.ssl.keyStorePassword",
    "spark.kubernetes.authenticate.submission.oauthToken",
]
OPEN = [
    "s3.endpoint",
    "s3.region",
    "s3.path.style.access",
    "fsspec.anon",
    "caretaker.commit-by-rename",
    "spark.executor.memory",
    "spark.hadoop.fs.s3a.aws.credentials.provider",
    "spark.hadoop.hadoop.security.credential.provider.path",
    "spark.kubernetes.driver.secrets.lake",
    "spark.kubernetes.executor.secretKeyRef.AWS_SECRET_ACCESS_KEY",
    "spark.authenticate.secret.file",
    "spark.security.credentials.hive.enabled",
]


@pytest.mark.parametrize("key", SECRET)
def test_secret_keys_are_refused_with_the_way_to_do_it_right(key):
    with pytest.raises(InvalidArgument, match=key) as caught:
        refuse_secrets({key: "xyz-1"}, "here")
    assert "xyz-1" not in str(caught.value)
    assert "CARETAKER_STORAGE" in caught.value.next_step
    assert "storage_connection" in caught.value.next_step


def test_other_keys_are_not():
    assert secret_keys(dict.fromkeys(OPEN, "x")) == []


def test_a_login_in_a_url_is_secret():
    assert secret_keys({"s3.endpoint": "https://me:pw@store"}) == ["s3.endpoint"]
    assert secret_keys({"s3.endpoint": "https://store:9000/a@b"}) == []


def test_the_command_line_takes_no_secret():
    words = ("plan", "compact", "db.t", "-w", "s3://lake", "--storage", "s3.secret-key=xyz-1")
    ran = caretaker(*words)
    assert ran.code == 2
    assert "s3.secret-key" in ran.err
    assert "xyz-1" not in ran.err


def test_the_environment_holds_options_as_json(monkeypatch):
    assert options_of_environment({}) == {}
    found = options_of_environment({"CARETAKER_STORAGE": '{"s3.secret-key": "a", "n": 1}'})
    assert found == {"s3.secret-key": "a", "n": "1"}
    for wrong in ("xyz-1", '["xyz-1"]'):
        with pytest.raises(InvalidArgument) as caught:
            options_of_environment({"CARETAKER_STORAGE": wrong})
        assert "xyz-1" not in str(caught.value)
        assert caught.value.__cause__ is None
