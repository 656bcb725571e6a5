"""Names that a reference mentions are no orphans, even if other references vanish meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from lakes import Lake

from paimon_core.errors import CorruptTable
from paimon_core.reachability import mentioned
from paimon_core.reachability.mentioned import Mentioned
from paimon_core.reachability.name_set import NameSet
from paimon_core.reachability.references import Reference
from paimon_core.scan.scan import scan_files


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_lists_of_a_vanished_reference_are_read_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """A list that two references share counts as read only when its manifests were."""
    lake.primary_key()
    lake.fill(3)
    table = lake.table()
    newest = table.latest_or_not_found()
    names = {e.file.file_name for e in scan_files(table, newest)}
    read, calls = mentioned.entry_columns, []

    def failing(*arguments: Any, exact: bool) -> Iterator[Any]:
        calls.append(arguments)
        if len(calls) <= failures:
            raise CorruptTable("a manifest is missing")
        return read(*arguments, exact=exact)

    monkeypatch.setattr(mentioned, "entry_columns", failing)
    # The first snapshot has expired meanwhile; the others are there.
    monkeypatch.setattr(Reference, "is_alive", lambda self: self.snapshot.id > 1)
    found = Mentioned(table, NameSet.of({*names, "data-orphan-0.parquet"}))
    assert found.look() == 3
    assert "data-orphan-0.parquet" in found.candidates
    assert not [name for name in names if name in found.candidates]
    assert found.look() == 0


def test_a_living_reference_that_cannot_be_read_stops_the_job(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.primary_key()
    lake.fill(1)

    def failing(*_: Any, exact: bool) -> Iterator[Any]:
        raise CorruptTable("a manifest is missing")

    monkeypatch.setattr(mentioned, "entry_columns", failing)
    with pytest.raises(CorruptTable):
        Mentioned(lake.table(), NameSet.of(["data-orphan-0.parquet"])).look()
