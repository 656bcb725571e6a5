"""Calls of a Hive metastore over Thrift (Java: Hive's `HiveMetaStoreClient`).

Each call has a connection of its own, because a metastore closes idle ones, and connections survive
neither threads nor forks.  Servers of the option `uri` are tried in their order; calls that change
nothing are repeated if a connection is lost.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

from paimon_core.environment import user_name
from paimon_core.errors import (
    UNREADABLE,
    AlreadyExists,
    CatalogError,
    InvalidArgument,
    NotFound,
    PaimonError,
    StorageError,
    UnsupportedFeature,
    how_to_get,
)
from paimon_core.options import parse_bool, parse_duration_millis
from paimon_core.remote.thrift_calls import CALLS, Call, HiveFailure

URI: Final = "uri"
CONF_DIR: Final = "hive-conf-dir"
WAREHOUSE_DIR: Final = "hive.metastore.warehouse.dir"
_URIS: Final = "hive.metastore.uris"
SOCKET_TIMEOUT: Final = "hive.metastore.client.socket.timeout"
_SET_UGI: Final = "hive.metastore.execute.setugi"
_REFUSED: Final = (
    "hive.metastore.sasl.enabled",
    "hive.metastore.use.SSL",
    "hive.metastore.thrift.framed.transport.enabled",
    "hive.metastore.thrift.compact.protocol.enabled",
)
"""What a connection could need that was never run against a server."""
_SITE_KEYS: Final = frozenset({_URIS, WAREHOUSE_DIR, SOCKET_TIMEOUT, _SET_UGI, *_REFUSED})
CLIENT_CLASS: Final = "metastore.client.class"
_JAVA_CLIENT: Final = "org.apache.hadoop.hive.metastore.HiveMetaStoreClient"
_PORT: Final = 9083
_ADDRESS: Final = re.compile(r"thrift://(?P<host>\[[^\]]+\]|[^:/@\s]+)(:(?P<port>\d{1,5}))?/?")
_ATTEMPTS: Final = 3
_CONNECT_MILLIS: Final = 30_000
"""A server that is down must not take the time of an answer: the next one is tried."""
_MAX_STRING: Final = 64 << 20
_MAX_ELEMENTS: Final = 1 << 20
_MESSAGE_CALL: Final = 1
_MESSAGE_EXCEPTION: Final = 3
_ERRORS: Final[Mapping[str, type[PaimonError]]] = {
    "NoSuchObjectException": NotFound,
    "UnknownDBException": NotFound,
    "UnknownTableException": NotFound,
    "UnknownPartitionException": NotFound,
    "NoSuchLockException": NotFound,
    "AlreadyExistsException": AlreadyExists,
    "InvalidObjectException": InvalidArgument,
    "InvalidOperationException": InvalidArgument,
    "InvalidPartitionException": InvalidArgument,
}


def with_site(options: Mapping[str, str]) -> dict[str, str]:
    """The options with those of `hive-site.xml` that they do not set.

    The file is in the folder `hive-conf-dir`, else `$HIVE_CONF_DIR`.  Only keys that concern the
    connection are taken: the file may hold passwords.
    """
    folder = options.get(CONF_DIR) or os.environ.get("HIVE_CONF_DIR")
    if not folder:
        return dict(options)
    file = Path(folder) / "hive-site.xml"
    try:
        root = ET.fromstring(file.read_bytes())  # noqa: S314 - the operator's own file
    except (OSError, ET.ParseError) as e:
        if options.get(CONF_DIR):
            raise InvalidArgument(f"{file}, of the option {CONF_DIR}, cannot be read: {e}") from e
        return dict(options)
    found = {p.findtext("name", "").strip(): p.findtext("value", "").strip() for p in root}
    return {**{k: v for k, v in found.items() if k in _SITE_KEYS}, **options}


@dataclass(frozen=True, slots=True)
class HiveClient:
    """Calls of the metastore that the options name.  Picklable."""

    options: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        for key in _REFUSED:
            if parse_bool(self.options.get(key, "false")):
                raise UnsupportedFeature(
                    key, f"a Hive metastore with {key}=true is not supported by Caretaker"
                )
        client = self.options.get(CLIENT_CLASS, _JAVA_CLIENT)
        if client != _JAVA_CLIENT:
            raise UnsupportedFeature(
                f"{CLIENT_CLASS}={client}",
                f"{CLIENT_CLASS}={client} is not supported, only a Hive metastore over Thrift is",
            )
        self.servers()

    def servers(self) -> list[tuple[str, int]]:
        """Hosts and ports in the order of the option; InvalidArgument if they are not given."""
        uris = self.options.get(URI) or self.options.get(_URIS) or ""
        found = []
        for uri in filter(None, (part.strip() for part in uris.split(","))):
            match = _ADDRESS.fullmatch(uri)
            if match is None:
                raise InvalidArgument(
                    f"not the address of a Hive metastore: {uri!r} (expected thrift://HOST:PORT)"
                )
            found.append((match["host"].strip("[]"), int(match["port"] or _PORT)))
        if not found:
            raise InvalidArgument(
                "a Hive catalog needs the option uri",
                next_step=f"set uri to thrift://HOST:{_PORT}, or {CONF_DIR} to the folder of "
                "hive-site.xml",
            )
        return found

    def call(self, name: str, *arguments: Any) -> Any:
        """The result of a call of `thrift_calls.CALLS`.

        NotFound, AlreadyExists, InvalidArgument and CatalogError for the server's exceptions;
        StorageError if there is no answer: what a change did is then unknown.
        """
        call = CALLS[name]
        for attempt in range(_ATTEMPTS):
            try:
                with self._connection() as protocol:
                    return _ask(protocol, name, call, arguments)
            except StorageError:
                if not call.reads or attempt + 1 == _ATTEMPTS:
                    raise
        raise AssertionError(name)

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        check_thrift()
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol  # noqa: PLC0415 - an extra
        from thrift.Thrift import TException  # noqa: PLC0415 - an extra
        from thrift.transport.TSocket import TSocket  # noqa: PLC0415 - an extra
        from thrift.transport.TTransport import (  # noqa: PLC0415 - an extra
            TBufferedTransport,
            TTransportException,
        )

        # Its log lines say what the errors below say.
        logging.getLogger("thrift.transport.TSocket").setLevel(logging.CRITICAL)
        reasons = []
        for host, port in self.servers():
            socket = TSocket(host, port)
            socket.setTimeout(min(self._timeout_millis, _CONNECT_MILLIS))
            try:
                socket.open()
                socket.setTimeout(self._timeout_millis)
            except TTransportException as e:
                reasons.append(f"{host}:{port}: {e.inner or e}")
                continue
            transport = TBufferedTransport(socket)
            protocol = TBinaryProtocol(
                transport,
                string_length_limit=_MAX_STRING,
                container_length_limit=_MAX_ELEMENTS,
            )
            try:
                if parse_bool(self.options.get(_SET_UGI, "true")):
                    # The metastore creates folders as this user.
                    user = user_name()
                    _ask(protocol, "set_ugi", CALLS["set_ugi"], (user, ()))
                yield protocol
            except (TException, OSError, *UNREADABLE) as e:
                if isinstance(e, PaimonError):
                    raise
                raise StorageError(
                    f"the Hive metastore {host}:{port} did not answer: {e}",
                    next_step="check that the metastore runs, then run again",
                ) from e
            finally:
                transport.close()
            return
        raise StorageError(
            f"no Hive metastore can be reached ({'; '.join(reasons)})",
            next_step="check that the metastore runs, and check the option uri",
        )

    @property
    def _timeout_millis(self) -> int:
        text = self.options.get(SOCKET_TIMEOUT, "600")
        return int(text) * 1000 if text.isdecimal() else parse_duration_millis(text)


def check_thrift() -> None:
    """InvalidArgument without the package that calls are sent with."""
    try:
        import thrift  # noqa: F401, PLC0415 - an extra
    except ModuleNotFoundError as e:
        raise InvalidArgument(
            "a Hive metastore needs the package thrift, which is not installed",
            next_step=how_to_get("hive"),
        ) from e


def _ask(protocol: Any, name: str, call: Call, arguments: tuple[Any, ...]) -> Any:
    protocol.writeMessageBegin(name, _MESSAGE_CALL, 0)
    protocol.writeStructBegin(f"{name}_args")
    for number, (wire, value) in enumerate(zip(call.arguments, arguments, strict=True), start=1):
        protocol.writeFieldBegin("", wire.code, number)
        wire.write(protocol, value)
        protocol.writeFieldEnd()
    protocol.writeFieldStop()
    protocol.writeStructEnd()
    protocol.writeMessageEnd()
    protocol.trans.flush()
    return _answer(protocol, name, call)


def _answer(protocol: Any, name: str, call: Call) -> Any:
    _, kind, _ = protocol.readMessageBegin()
    if kind == _MESSAGE_EXCEPTION:
        failure = HiveFailure.read(protocol)
        raise UnsupportedFeature(
            name,
            f"the Hive metastore does not serve the call {name}: {failure.message}",
            next_step="see the metastore's log; Hive 2.3 and newer are supported",
        )
    found: Any = None
    protocol.readStructBegin()
    while True:
        _, code, number = protocol.readFieldBegin()
        if code == 0:
            break
        if number == 0 and call.result is not None:
            found = call.result.read(protocol)
        else:
            _fail(name, call, number, HiveFailure.read(protocol))
        protocol.readFieldEnd()
    protocol.readStructEnd()
    protocol.readMessageEnd()
    if found is None and call.result is not None:
        raise CatalogError(
            f"the Hive metastore gave no result for {name}",
            next_step="look at the metastore's log; its version may not support this call",
        )
    return found


def _fail(name: str, call: Call, number: int, failure: HiveFailure) -> None:
    kind = call.failures.get(number, "an unknown exception")
    message = failure.message or "no message"
    error = _ERRORS.get(kind, CatalogError)
    raise error(f"the Hive metastore refused {name}: {message} ({kind})")
