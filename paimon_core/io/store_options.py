"""Paimon's option names of each store, as arguments of the store's fsspec file system.

================  ===========================================================  ===============
scheme            Paimon's options (Java: the `FileIO` of the store)           Python package
================  ===========================================================  ===============
s3, s3a, s3n      `s3.`, `s3a.`, `fs.s3a.`                                     s3fs
oss               `fs.oss.`                                                    ossfs
gs, gcs           `gs.`, `fs.gs.`                                              gcsfs
abfs, abfss       `azure.`, `fs.azure.`, `fs.wasb.`                            adlfs
hdfs, viewfs      `dfs.`, `fs.defaultFS`, `hadoop.`, `hadoop-conf-dir`         hdfs-native
================  ===========================================================  ===============

Other options of these prefixes configure Hadoop's clients and have no effect here.  Where no option
names credentials, the package takes them from the environment or from an instance role.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from paimon_core.errors import InvalidArgument
from paimon_core.options import parse_bool, parse_duration_millis, parse_memory_size

REQUEST_DEADLINE: Final = "caretaker.request-deadline"
_HADOOP_FILES: Final = ("core-site.xml", "hdfs-site.xml")
_HADOOP_OPTIONS: Final = (
    "dfs.",
    "fs.defaultFS",
    "fs.permissions.",
    "fs.viewfs.",
    "hadoop.security.",
)

Options = Mapping[str, str]
Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scheme:
    """How the URLs of a scheme are opened.

    `needs` says in one line what must be installed; `arguments` maps the URL and the options to
    those of the fsspec file system `protocol`, or of `hdfs.HdfsFileIO`.
    """

    protocol: str
    needs: str
    arguments: Callable[[str, Options], Arguments]


def _prefixed(options: Options, *prefixes: str) -> dict[str, str]:
    """Return the options with one of the prefixes, without it; later ones win, as in Java."""
    return {
        key[len(prefix) :]: value
        for key, value in options.items()
        for prefix in prefixes
        if key.startswith(prefix)
    }


def _s3(_: str, options: Options) -> Arguments:
    given = _prefixed(options, "s3.", "s3a.", "fs.s3.", "fs.s3a.")
    found = {key.replace("-", "."): value for key, value in given.items()}
    result: Arguments = {}
    for option, keyword in (
        ("access.key", "key"),
        ("secret.key", "secret"),
        ("session.token", "token"),
        ("endpoint", "endpoint_url"),
    ):
        if option in found:
            result[keyword] = found[option]
    endpoint = result.get("endpoint_url")
    if endpoint and "://" not in endpoint:
        secure = parse_bool(found.get("connection.ssl.enabled", "true"))
        result["endpoint_url"] = f"{'https' if secure else 'http'}://{endpoint}"
    region = found.get("region") or found.get("endpoint.region")
    if region:
        result["client_kwargs"] = {"region_name": region}
    config: Arguments = {}
    if "path.style.access" in found:
        style = "path" if parse_bool(found["path.style.access"]) else "virtual"
        config["s3"] = {"addressing_style": style}
    if "connection.maximum" in found:
        config["max_pool_connections"] = int(found["connection.maximum"])
    if config:
        result["config_kwargs"] = config
    if "AnonymousAWSCredentialsProvider" in found.get("aws.credentials.provider", ""):
        result["anon"] = True
    if REQUEST_DEADLINE in options:
        result["deadline_seconds"] = parse_duration_millis(options[REQUEST_DEADLINE]) / 1000
    return result


def _oss(_: str, options: Options) -> Arguments:
    # Java ignores the case of these keys, because some engines change it.
    found = {key.lower(): value for key, value in _prefixed(options, "fs.oss.").items()}
    result: Arguments = {}
    for option, variable, keyword in (
        ("endpoint", "OSS_ENDPOINT", "endpoint"),
        ("accesskeyid", "OSS_ACCESS_KEY_ID", "key"),
        ("accesskeysecret", "OSS_ACCESS_KEY_SECRET", "secret"),
        ("securitytoken", "OSS_SESSION_TOKEN", "token"),
    ):
        value = found.get(option) or os.environ.get(variable)
        if value:
            result[keyword] = value
    endpoint = result.get("endpoint")
    if endpoint is None:
        raise InvalidArgument(
            "OSS needs an endpoint",
            next_step="set the option fs.oss.endpoint or the environment variable OSS_ENDPOINT",
        )
    if "://" not in endpoint:
        result["endpoint"] = f"https://{endpoint}"
    return result


def _gs(_: str, options: Options) -> Arguments:
    found = _prefixed(options, "gs.", "fs.gs.")
    result: Arguments = {}
    key_file = found.get("auth.service.account.json.keyfile")
    match found.get("auth.type", "").upper():
        case "UNAUTHENTICATED":
            result["token"] = "anon"  # noqa: S105 - the name of a method
        case "COMPUTE_ENGINE":
            result["token"] = "cloud"  # noqa: S105
        case "APPLICATION_DEFAULT":
            result["token"] = "google_default"  # noqa: S105
        case "SERVICE_ACCOUNT_JSON_KEYFILE" if key_file is None:
            raise InvalidArgument(
                "fs.gs.auth.type is SERVICE_ACCOUNT_JSON_KEYFILE, but no file is named",
                next_step="set fs.gs.auth.service.account.json.keyfile",
            )
        case _ if key_file is not None:
            result["token"] = key_file
        case _:
            pass
    if "project.id" in found:
        result["project"] = found["project.id"]
    if "storage.root.url" in found:
        result["endpoint_url"] = found["storage.root.url"].rstrip("/")
    return result


def _azure(url: str, options: Options) -> Arguments:
    host = urlsplit(url).hostname or ""
    if "@" not in urlsplit(url).netloc:
        raise InvalidArgument(
            f"{url} names no storage account",
            next_step="use abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
        )
    account = host.partition(".")[0]
    found = _prefixed(options, "azure.", "fs.azure.", "fs.wasb.")

    def value(name: str) -> str | None:
        hosts = (host, f"{account}.dfs.core.windows.net", f"{account}.blob.core.windows.net")
        named = (found.get(f"{name}.{h}") for h in hosts)
        return next((v for v in named if v is not None), found.get(name))

    result: Arguments = {"account_name": account}
    for option, keyword in (
        ("account.key", "account_key"),
        ("sas.fixed.token", "sas_token"),
        ("account.oauth2.client.id", "client_id"),
        ("account.oauth2.client.secret", "client_secret"),
    ):
        text = value(option)
        if text is not None:
            result[keyword] = text
    endpoint = value("account.oauth2.client.endpoint")
    if endpoint is not None:
        tenant = re.search(r"://[^/]+/([^/]+)/oauth2", endpoint)
        if tenant is None:
            raise InvalidArgument(
                "fs.azure.account.oauth2.client.endpoint names no tenant",
                next_step="use https://login.microsoftonline.com/TENANT/oauth2/token",
            )
        result["tenant_id"] = tenant[1]
    if not result.keys() - {"account_name"}:
        # Without it, adlfs connects anonymously unless a variable holds credentials.
        result["anon"] = False
    return result


def _hdfs(url: str, options: Options) -> Arguments:
    # Later ones win, as in Java (`HadoopUtils.getHadoopConfiguration`).
    home = os.environ.get("HADOOP_HOME")
    conf = _hadoop_files(home and f"{home}/etc/hadoop")
    conf |= _hadoop_files(os.environ.get("HADOOP_CONF_DIR"))
    conf |= _hadoop_files(options.get("hadoop-conf-dir"))
    conf |= {k: v for k, v in options.items() if k.startswith(_HADOOP_OPTIONS)}
    conf |= _prefixed(options, "hadoop.")
    place = urlsplit(url)
    if place.username:
        raise InvalidArgument(
            f"{url} names a user", next_step="set the environment variable HADOOP_USER_NAME"
        )
    if place.port:
        # The client's own 15 attempts take three minutes. A name service may need them.
        conf.setdefault("dfs.client.failover.max.attempts", "5")
    client: Arguments = {"url": f"{place.scheme}://{place.netloc}", "config": conf}
    principal = options.get("security.kerberos.login.principal")
    if principal is not None:
        client["kerberos_principal"] = principal
        client["kerberos_keytab"] = options.get("security.kerberos.login.keytab")
    result: Arguments = {"client": client}
    if "fs.permissions.umask-mode" in conf:
        result["umask"] = _umask(conf["fs.permissions.umask-mode"])
    if "dfs.replication" in conf:
        result["replication"] = int(conf["dfs.replication"])
    if "dfs.blocksize" in conf:
        result["block_size"] = parse_memory_size(conf["dfs.blocksize"])
    return result


def _umask(text: str) -> int:
    try:
        return int(text, 8)
    except ValueError:
        raise InvalidArgument(
            f"fs.permissions.umask-mode is {text!r}", next_step="use an octal number, such as 022"
        ) from None


def _hadoop_files(folder: str | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _HADOOP_FILES if folder else ():
        file = Path(str(folder)) / name
        if not file.exists():
            continue
        for entry in ET.fromstring(file.read_bytes()).iter("property"):  # noqa: S314 - the operator's own file
            key, value = entry.findtext("name"), entry.findtext("value")
            if key is not None and value is not None:
                found[key.strip()] = value.strip()
    return found


def _none(_url: str, _options: Options) -> Arguments:
    return {}


_S3: Final = Scheme("s3", "install s3fs (the extra 's3')", _s3)
_GS: Final = Scheme("gs", "install gcsfs", _gs)
_AZURE: Final = Scheme("abfs", "install adlfs", _azure)
_HDFS: Final = Scheme(
    "hdfs",
    "install hdfs-native (the extra 'hdfs')",
    _hdfs,
)
SCHEMES: Final[Mapping[str, Scheme]] = {
    "s3": _S3,
    "s3a": _S3,
    "s3n": _S3,
    "oss": Scheme("oss", "install ossfs", _oss),
    "gs": _GS,
    "gcs": _GS,
    "abfs": _AZURE,
    "abfss": _AZURE,
    "hdfs": _HDFS,
    "viewfs": _HDFS,
}


def scheme_of(scheme: str) -> Scheme:
    """Return how a scheme is opened; an unknown one is left to fsspec and its own options."""
    return SCHEMES.get(scheme) or Scheme(scheme, "install its fsspec package", _none)
