"""An empty catalog of each kind, for Java's clients and ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from hive_metastore import HiveMetastore
from postgres import postgres_server

from oracle import RestServer

KINDS = ("filesystem", "rest", "jdbc-sqlite", "jdbc-postgresql", "hive")


@contextmanager
def catalog_of_kind(kind: str, place: Path) -> Iterator[dict[str, str]]:
    """The options of a catalog below `place`; its server runs until the block ends."""
    match kind:
        case "rest":
            server = RestServer(place / "rest")
            try:
                yield server.options
            finally:
                server.end()
        case "hive":
            (place / "hive").mkdir(parents=True)
            metastore = HiveMetastore(place / "hive")
            try:
                yield metastore.options
            finally:
                metastore.end()
        case "jdbc-postgresql":
            servers = postgres_server()
            yield options_of_kind(kind, place, next(servers))
            next(servers, None)
        case _:
            yield options_of_kind(kind, place)


def options_of_kind(kind: str, place: Path, postgres_url: str = "") -> dict[str, str]:
    """The options of a catalog that needs no server, or the one at this SQLAlchemy URL."""
    warehouse = str(place / "lake")
    if kind == "filesystem":
        return {"metastore": "filesystem", "warehouse": warehouse}
    jdbc = {
        "metastore": "jdbc",
        "warehouse": warehouse,
        "lock.enabled": "true",
        "lock-check-max-sleep": "100 ms",
    }
    if kind == "jdbc-sqlite":
        return {**jdbc, "uri": f"jdbc:sqlite:{place}/catalog.db?journal_mode=WAL"}
    assert kind == "jdbc-postgresql", kind
    url = urlsplit(postgres_url)
    uri = f"jdbc:postgresql://{url.hostname}:{url.port}{url.path}"
    return {**jdbc, "uri": uri, "jdbc.user": "care", "jdbc.password": "not-asked-for"}
