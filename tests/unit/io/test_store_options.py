"""Stores are opened by Paimon's option names, and say in one line what they need."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.io.fsspec_io import CONDITIONAL_CREATE, FsspecFileIO
from paimon_core.io.open import open_file_io
from paimon_core.io.store_options import SCHEMES, scheme_of
from paimon_maintenance.storage.options import secret_keys

AZURE = "abfss://lake@acc.dfs.core.windows.net/w"
TENANT = "https://login.microsoftonline.com/tenant-1/oauth2/token"
CASES: list[tuple[str, Mapping[str, str], Mapping[str, Any]]] = [
    (
        "s3://b/w",
        {"s3.access-key": "a", "s3.secret-key": "s", "s3.endpoint": "minio:9000"},
        {"key": "a", "secret": "s", "endpoint_url": "https://minio:9000"},
    ),
    (
        "s3a://b/w",
        {
            "fs.s3a.access.key": "a",
            "fs.s3a.secret.key": "s",
            "fs.s3a.session.token": "t",
            "fs.s3a.endpoint": "minio:9000",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.endpoint.region": "eu-west-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.maximum": "100",
        },
        {
            "key": "a",
            "secret": "s",
            "token": "t",
            "endpoint_url": "http://minio:9000",
            "client_kwargs": {"region_name": "eu-west-1"},
            "config_kwargs": {"s3": {"addressing_style": "path"}, "max_pool_connections": 100},
        },
    ),
    (
        "s3://b/w",
        {"fs.s3a.aws.credentials.provider": "org.a.s3a.AnonymousAWSCredentialsProvider"},
        {"anon": True},
    ),
    (
        "oss://b/w",
        {
            "fs.oss.endpoint": "oss-cn-hangzhou.aliyuncs.com",
            "fs.oss.accessKeyId": "a",
            "fs.oss.accesskeysecret": "s",
            "fs.oss.securityToken": "t",
        },
        {
            "endpoint": "https://oss-cn-hangzhou.aliyuncs.com",
            "key": "a",
            "secret": "s",
            "token": "t",
        },
    ),
    (
        "gs://b/w",
        {
            "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
            "fs.gs.auth.service.account.json.keyfile": "/keys/k.json",
            "fs.gs.project.id": "p",
        },
        {"token": "/keys/k.json", "project": "p"},
    ),
    ("gs://b/w", {"gs.auth.type": "UNAUTHENTICATED"}, {"token": "anon"}),
    ("gs://b/w", {}, {}),
    (
        AZURE,
        {"fs.azure.account.key.acc.dfs.core.windows.net": "k"},
        {"account_name": "acc", "account_key": "k"},
    ),
    (
        AZURE,
        {"fs.azure.account.key.acc.blob.core.windows.net": "k"},
        {"account_name": "acc", "account_key": "k"},
    ),
    (AZURE, {"azure.sas.fixed.token": "t"}, {"account_name": "acc", "sas_token": "t"}),
    (
        AZURE,
        {
            "fs.azure.account.auth.type": "OAuth",
            "fs.azure.account.oauth2.client.id": "i",
            "fs.azure.account.oauth2.client.secret": "s",
            "fs.azure.account.oauth2.client.endpoint": TENANT,
        },
        {
            "account_name": "acc",
            "client_id": "i",
            "client_secret": "s",
            "tenant_id": "tenant-1",
        },
    ),
    (AZURE, {}, {"account_name": "acc", "anon": False}),
    (
        "hdfs://nn:8020/w",
        {
            "dfs.replication": "2",
            "hadoop.dfs.blocksize": "64m",
            "fs.permissions.umask-mode": "002",
            "security.kerberos.login.principal": "p",
            "security.kerberos.login.keytab": "/k",
        },
        {
            "client": {
                "url": "hdfs://nn:8020",
                "config": {
                    "dfs.replication": "2",
                    "dfs.blocksize": "64m",
                    "fs.permissions.umask-mode": "002",
                    "dfs.client.failover.max.attempts": "5",
                },
                "kerberos_principal": "p",
                "kerberos_keytab": "/k",
            },
            "umask": 0o002,
            "replication": 2,
            "block_size": 64 * 1024**2,
        },
    ),
    (
        "hdfs:///w",
        {"fs.defaultFS": "hdfs://ns"},
        {"client": {"url": "hdfs://", "config": {"fs.defaultFS": "hdfs://ns"}}},
    ),
    (
        "viewfs://cluster/w",
        {"fs.viewfs.mounttable.cluster.linkFallback": "hdfs://ns/"},
        {
            "client": {
                "url": "viewfs://cluster",
                "config": {"fs.viewfs.mounttable.cluster.linkFallback": "hdfs://ns/"},
            }
        },
    ),
]


@pytest.mark.parametrize(("url", "options", "arguments"), CASES)
def test_options_become_arguments(
    url: str, options: Mapping[str, str], arguments: Mapping[str, Any]
) -> None:
    found = scheme_of(url.partition("://")[0]).arguments(url, {**options, "warehouse": url})
    assert found == arguments


def test_credentials_of_oss_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OSS_ENDPOINT", "OSS_ACCESS_KEY_ID", "OSS_ACCESS_KEY_SECRET"):
        monkeypatch.setenv(name, f"https://{name}")
    assert scheme_of("oss").arguments("oss://b/w", {}) == {
        "endpoint": "https://OSS_ENDPOINT",
        "key": "https://OSS_ACCESS_KEY_ID",
        "secret": "https://OSS_ACCESS_KEY_SECRET",
    }


def test_hadoop_configuration_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, replication in (("home/etc/hadoop", 1), ("env", 2), ("option", 3)):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "core-site.xml").write_text(
            "<configuration><property><name>fs.defaultFS</name><value> hdfs://ns:9000 </value>"
            f"</property><property><name>dfs.replication</name><value>{replication}</value>"
            "</property></configuration>"
        )
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path / "home"))
    arguments = scheme_of("hdfs").arguments
    assert arguments("hdfs:///w", {}) == {
        "client": {
            "url": "hdfs://",
            "config": {"fs.defaultFS": "hdfs://ns:9000", "dfs.replication": "1"},
        },
        "replication": 1,
    }
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "env"))
    assert arguments("hdfs:///w", {})["replication"] == 2
    by_option = {"hadoop-conf-dir": str(tmp_path / "option")}
    assert arguments("hdfs:///w", by_option)["replication"] == 3
    assert arguments("hdfs:///w", {**by_option, "hadoop.dfs.replication": "4"})["replication"] == 4


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("oss://b/w", {}, "endpoint"),
        ("abfss://lake/w", {}, "storage account"),
        (AZURE, {"fs.azure.account.oauth2.client.endpoint": "https://h/"}, "tenant"),
        ("gs://b/w", {"gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE"}, "no file"),
        ("hdfs://user@nn:8020/w", {}, "names a user"),
        ("hdfs://nn:8020/w", {"fs.permissions.umask-mode": "u=rwx"}, "umask-mode"),
    ],
)
def test_what_is_missing_is_named(
    url: str, options: Mapping[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OSS_ENDPOINT", raising=False)
    with pytest.raises(InvalidArgument, match=message):
        open_file_io(url, options)


@pytest.mark.parametrize(
    ("url", "module"),
    [
        ("oss://b/w", "ossfs"),
        ("gs://b/w", "gcsfs"),
        (AZURE, "adlfs"),
        ("hdfs://nn:8020/w", "hdfs_native"),
        ("obs://b/w", "obs"),
    ],
)
def test_a_missing_package_is_named_in_one_line(url: str, module: str) -> None:
    if importlib.util.find_spec(module) is not None:
        pytest.skip(f"{module} is installed")
    with pytest.raises(InvalidArgument) as caught:
        open_file_io(url, {"fs.oss.endpoint": "e"})
    assert "\n" not in caught.value.message
    assert "install" in (caught.value.next_step or "")


def test_every_store_has_a_rule_for_commits() -> None:
    for scheme, store in SCHEMES.items():
        safe = store.protocol in CONDITIONAL_CREATE | {"hdfs"}
        assert safe != (scheme == "oss"), scheme
    io = FsspecFileIO("memory")
    assert io.create_if_absent("memory://r/a", b"1")


def test_a_store_without_exclusive_creation_refuses_commits(tmp_path: Path) -> None:
    io = FsspecFileIO("file")
    with pytest.raises(UnsupportedFeature, match="no exclusive create"):
        io.create_if_absent(f"file://{tmp_path}/snapshot-1", b"1")


def test_secrets_of_all_stores_are_recognised() -> None:
    secret = {
        "s3.secret-key",
        "fs.oss.accessKeySecret",
        "fs.oss.securityToken",
        "fs.azure.account.key.acc.dfs.core.windows.net",
        "azure.sas.fixed.token",
        "fs.azure.account.oauth2.client.secret",
    }
    plain = {"fs.gs.auth.service.account.json.keyfile", "dfs.replication", "fs.oss.endpoint"}
    assert set(secret_keys(dict.fromkeys(secret | plain, "x"))) == secret
