"""Reports a finished partition to a server (Java: `partition/actions/HttpReportMarkDoneAction`)."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from typing import Final

from paimon_core.errors import InvalidArgument, PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import PARTITION_MARK_DONE_HTTP_PARAMS, PARTITION_MARK_DONE_HTTP_URL

_SECONDS: Final = 180
_SUCCESS: Final = "SUCCESS"


@dataclass(frozen=True, slots=True)
class HttpReport:
    """The URL for the partitions of a table, and the parameters of the request."""

    url: str
    params: str | None
    table: str
    location: str

    @classmethod
    def of(cls, table: FileStoreTable) -> HttpReport:
        """The settings from the table options; InvalidArgument without an HTTP URL."""
        url = table.options.value(PARTITION_MARK_DONE_HTTP_URL)
        if url is None or not url.startswith(("http://", "https://")):
            raise InvalidArgument(
                f"partition.mark-done-action=http-report of table {table.name} needs "
                f"{PARTITION_MARK_DONE_HTTP_URL.key} with an HTTP URL, not {url!r}",
                table=table.name,
                next_step=f"set {PARTITION_MARK_DONE_HTTP_URL.key}",
            )
        params = table.options.value(PARTITION_MARK_DONE_HTTP_PARAMS)
        return cls(url, params, table.name, table.root)

    def send(self, partition: str) -> None:
        """Report one partition ("dt=1/hh=2/"); PaimonError unless the server returns SUCCESS."""
        body = {
            "params": self.params,
            "table": self.table,
            "path": self.location,
            "partition": partition,
        }
        request = urllib.request.Request(  # noqa: S310 - http alone, see `of`
            self.url,
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method="POST",
        )
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as reply:  # noqa: S310
                result = json.loads(reply.read()).get("result")
        except (OSError, ValueError, AttributeError) as e:
            raise self._failed(partition, str(e)) from e
        if str(result).upper() != _SUCCESS:
            raise self._failed(partition, f"its result is {result!r}, not {_SUCCESS}")

    def _failed(self, partition: str, why: str) -> PaimonError:
        return PaimonError(
            f"cannot report partition {partition} of table {self.table} to {self.url}: {why}",
            table=self.table,
            next_step="check the server, then run again; the run may repeat reports",
        )
