"""The Hive client without a metastore: options, addresses, and servers that do not answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from paimon_core.catalog.open import open_catalog
from paimon_core.errors import InvalidArgument, StorageError, UnsupportedFeature
from paimon_core.remote.hive_client import HiveClient, with_site


@pytest.mark.parametrize(
    ("uri", "servers"),
    [
        ("thrift://a:1", [("a", 1)]),
        ("thrift://a, thrift://b.example.com:2/", [("a", 9083), ("b.example.com", 2)]),
        ("thrift://[::1]:7", [("::1", 7)]),
    ],
)
def test_addresses(uri: str, servers: list[tuple[str, int]]) -> None:
    assert HiveClient({"uri": uri}).servers() == servers


@pytest.mark.parametrize("uri", ["", "http://a:1", "thrift://", "thrift://a:x", "a:9083"])
def test_wrong_addresses_are_refused(uri: str) -> None:
    with pytest.raises(InvalidArgument, match=r"uri|address"):
        open_catalog({"metastore": "hive", "uri": uri, "warehouse": "/w"})


@pytest.mark.parametrize(
    "options",
    [
        {"hive.metastore.sasl.enabled": "true"},
        {"hive.metastore.use.SSL": "true"},
        {"metastore.client.class": "com.example.GlueClient"},
        {"lock.type": "zookeeper"},
    ],
)
def test_what_was_never_tried_is_refused_by_name(options: dict[str, str]) -> None:
    (name,) = options
    with pytest.raises(UnsupportedFeature, match=name):
        open_catalog({"metastore": "hive", "uri": "thrift://a:1", "warehouse": "/w", **options})


def test_hive_site_gives_what_the_options_do_not(tmp_path: Path) -> None:
    (tmp_path / "hive-site.xml").write_text(
        "<configuration><!-- c --><property><name>hive.metastore.uris</name>"
        "<value> thrift://site:1 </value></property><property><name>hive.metastore.warehouse.dir"
        "</name><value>/site</value></property><property><name>javax.jdo.option.ConnectionPassword"
        "</name><value>secret</value></property></configuration>"
    )
    found = with_site({"hive-conf-dir": str(tmp_path), "hive.metastore.warehouse.dir": "/mine"})
    assert HiveClient(found).servers() == [("site", 1)]
    assert found["hive.metastore.warehouse.dir"] == "/mine"
    assert "secret" not in found.values()
    with pytest.raises(InvalidArgument, match=r"hive-site\.xml"):
        with_site({"hive-conf-dir": str(tmp_path / "missing")})


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def broken_server() -> Iterator[tuple[int, list[bytes]]]:
    """Takes a request and hangs up; the first bytes of each request."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        requests.append(connection.recv(1000))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(server.getsockname()[1]), requests
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def test_a_metastore_that_does_not_run(tmp_path: Path) -> None:
    uri = f"thrift://127.0.0.1:{_free_port()},thrift://127.0.0.1:{_free_port()}"
    catalog = open_catalog({"metastore": "hive", "uri": uri, "warehouse": str(tmp_path)})
    with pytest.raises(StorageError, match=r"no Hive metastore can be reached.*refused.*refused"):
        catalog.list_databases()


def test_only_calls_that_change_nothing_are_repeated(
    broken_server: tuple[int, list[bytes]],
) -> None:
    port, requests = broken_server
    client = HiveClient(
        {"uri": f"thrift://127.0.0.1:{port}", "hive.metastore.execute.setugi": "false"}
    )
    with pytest.raises(StorageError, match="did not answer"):
        client.call("get_all_databases")
    assert len(requests) == 3
    with pytest.raises(StorageError, match="did not answer"):
        client.call("drop_database", "db", False, False)
    assert len(requests) == 4
    assert b"drop_database" in requests[-1]


def test_an_answer_that_is_no_thrift_is_an_error_of_the_store() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def serve() -> None:
            for _ in range(3):
                connection, _ = server.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + b"\xff" * 64)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        client = HiveClient({"uri": f"thrift://127.0.0.1:{port}"})
        with pytest.raises(StorageError, match="did not answer"):
            client.call("get_all_databases")
        thread.join(10)


def test_an_answer_that_is_nested_without_end() -> None:
    """A field of an unknown number, whose value is a list of lists of lists."""
    reply = b"\x80\x01\x00\x02" + bytes(8) + b"\x0f\x00\x00\x0c\x00\x00\x00\x01\x0f\x00\x63"
    nested = b"\x0f\x00\x00\x00\x01" * 20_000
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.sendall(reply + nested)
                        connection.recv(1000)

        threading.Thread(target=serve, daemon=True).start()
        uri = f"thrift://127.0.0.1:{server.getsockname()[1]}"
        client = HiveClient({"uri": uri, "hive.metastore.execute.setugi": "false"})
        with pytest.raises(StorageError, match="recursion"):
            client.call("get_table_objects_by_name", "db", ("t",))
        server.shutdown(socket.SHUT_RDWR)
