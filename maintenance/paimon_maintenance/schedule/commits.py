"""The commits of a lake since tables were maintained last, and the partitions that they changed.

One look reads the newest snapshot id of every table, several tables at a time: two small requests
for each table that did not change.  The schema and the manifests of a table are read only after a
commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from paimon_core.errors import PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind
from paimon_core.scan.manifests import delta_manifests, read_entries
from paimon_core.snapshot.snapshot import CommitKind
from paimon_maintenance.history.position_store import Position, PositionStore

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 16
_MOST_SNAPSHOTS: Final = 200
"""With more commits than this, the whole table is examined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """The commits to a table after its position; `newest` is the id of its newest snapshot.

    `partitions` are those that received files, {} for an unpartitioned table.  None: unknown,
    because snapshots expired or there are too many.
    """

    table: str
    newest: int
    position: Position
    partitions: tuple[Mapping[str, str], ...] | None = None
    snapshots: tuple[int, ...] = ()


@dataclass(slots=True)
class Watch:
    """Looks for commits, again and again; keeps tables open between looks.

    `names` lists the tables, `open_table` opens one.  OSError and PaimonError of one table do not
    stop the others; they are logged once.
    """

    store: PositionStore
    names: Callable[[], Sequence[str]]
    open_table: Callable[[str], FileStoreTable]
    now_millis: Callable[[], int]
    list_every: int = 15
    _looks: int = 0
    _known: Sequence[str] = ()
    _open: dict[str, FileStoreTable] = field(default_factory=dict)
    _broken: dict[str, str] = field(default_factory=dict)

    def look(self) -> dict[str, int]:
        """The newest snapshot of each table that has commits to maintain.

        The tables are listed again in every 15th look.  The first look of a warehouse ever sets the
        positions: what is there already is left to the scheduler.  Tables that are created later
        start at 0.
        """
        if self._looks % self.list_every == 0:
            self._known = list(self.names())
        self._looks += 1
        positions = self.store.all()
        newest = self._newest()
        unknown = {t: 0 if positions else s for t, s in newest.items() if t not in positions}
        now = self.now_millis()
        if unknown:
            self.store.begin(unknown, now)
            positions |= {t: Position(snapshot=s, at_millis=now) for t, s in unknown.items()}
        return {
            table: snapshot
            for table, snapshot in newest.items()
            if snapshot != positions[table].snapshot and now >= positions[table].retry_millis
        }

    def _newest(self) -> dict[str, int]:
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="watch") as pool:
            found = dict(zip(self._known, pool.map(self._newest_of, self._known), strict=True))
        return {table: snapshot for table, snapshot in found.items() if snapshot is not None}

    def _newest_of(self, name: str) -> int | None:
        try:
            if name not in self._open:
                self._open[name] = self.open_table(name)
            newest = self._open[name].snapshots.latest_id()
        except (PaimonError, OSError) as e:
            self._open.pop(name, None)
            if self._broken.get(name) != str(e):
                logger.warning("cannot look for commits to %s: %s", name, e)
            self._broken[name] = str(e)
            return None
        self._broken.pop(name, None)
        return newest


def commits_since(table: FileStoreTable, position: Position) -> Commits:
    """The commits after the position, and the partitions in which they added files.

    Commits that compact change nothing that needs maintenance.  Errors of unreadable metadata are
    raised.
    """
    newest = table.snapshots.latest_id() or 0
    found = Commits(table=table.name, newest=newest, position=position)
    if newest == position.snapshot:
        return Commits(table=table.name, newest=newest, position=position, partitions=())
    ids = range(position.snapshot + 1, newest + 1)
    if not ids or len(ids) > _MOST_SNAPSHOTS:
        return found
    partitions: dict[bytes, Mapping[str, str]] = {}
    counted = []
    for number in ids:
        snapshot = table.snapshots.get_or_none(number)
        if snapshot is None:
            return found
        if snapshot.commit_kind is CommitKind.COMPACT:
            continue
        counted.append(number)
        for meta in delta_manifests(table, snapshot):
            for entry in read_entries(table, meta):
                if entry.kind is FileKind.ADD and entry.partition not in partitions:
                    partitions[entry.partition] = table.paths.partition_values(entry.partition)
    return Commits(
        table=table.name,
        newest=newest,
        position=position,
        partitions=tuple(partitions.values()),
        snapshots=tuple(counted),
    )
