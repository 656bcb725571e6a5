"""Partitions of format tables in a REST catalog (Java: `CatalogFormatTablePartitionManager`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from paimon_core.names import checked_texts
from paimon_core.remote.rest_client import RestClient

_TOGETHER: Final = 1000
"""Partitions of a request; servers limit their number."""


@dataclass(frozen=True, slots=True)
class RestFormatPartitions:
    """`FormatPartitions` of the table with this path in the API."""

    client: RestClient
    path: str

    def specs(self) -> list[dict[str, str]]:
        """All partitions; a page may be empty without being the last one."""
        return self.client.pages(f"{self.path}/partitions", "partitions", _spec_of, sparse=True)

    def add(self, specs: Sequence[Mapping[str, str]], *, if_not_exists: bool) -> None:
        """Register partitions: in one request where all or none must be new."""
        for part in _parts(specs) if if_not_exists else [specs]:
            body = {"partitionSpecs": list(map(dict, part)), "ignoreIfExists": if_not_exists}
            self.client.post(f"{self.path}/partitions", body, retry_unavailable=if_not_exists)

    def drop(self, specs: Sequence[Mapping[str, str]]) -> None:
        """Unregister the partitions that exist."""
        for part in _parts(specs):
            body = {"partitionSpecs": list(map(dict, part)), "ignoreIfNotExists": True}
            self.client.post(f"{self.path}/partitions/drop", body)


def _parts(specs: Sequence[Mapping[str, str]]) -> Iterator[Sequence[Mapping[str, str]]]:
    return (specs[i : i + _TOGETHER] for i in range(0, len(specs), _TOGETHER))


def _spec_of(partition: Any) -> dict[str, str]:
    return checked_texts(partition["spec"], "spec")
