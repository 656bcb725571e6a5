"""New row ids for the rows of files that stay (java-rules L2).

Java: `append/dataevolution/DataEvolutionRowIdReassigner`, `RowRangeMappingIndex`.

The ids of a file's rows are in its manifest entry only, so the commit writes the manifests again,
and no data file.  Entries of deleted files get the same numbers as those of the added ones.  A
global index names the ids that it covers in its own entry: it moves with its rows, or goes if these
do not stay together.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.manifest.data_file import DataFileMeta, FileKind, IndexManifestEntry, ManifestEntry
from paimon_core.scan.global_index import index_range
from paimon_core.schema.tracked import ROW_ID


@dataclass(frozen=True, slots=True)
class MovedRows:
    """Ranges of row ids, in order and apart from each other, that become one.

    `firsts` and `stops` are the ranges, `starts` their first new ids, and in the end the id after
    the last one.  Arrays, because a table may have a million ranges.
    """

    firsts: array[int]
    stops: array[int]
    starts: array[int]

    @staticmethod
    def of(ranges: Sequence[range], to: int) -> MovedRows:
        """Return the move of these ranges to the ids from `to` on."""
        return MovedRows(
            array("q", (r.start for r in ranges)),
            array("q", (r.stop for r in ranges)),
            array("q", accumulate((len(r) for r in ranges), initial=to)),
        )

    @property
    def ranges(self) -> int:
        """Return the number of ranges."""
        return len(self.firsts)

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return self.starts[-1] - self.starts[0]

    def moved(self, rows: range) -> int | None:
        """Return the first new id of these rows; None unless one of the ranges has all of them."""
        at = bisect_right(self.firsts, rows.start) - 1
        if at < 0 or rows.stop > self.stops[at]:
            return None
        return self.starts[at] + rows.start - self.firsts[at]

    def file(self, file: DataFileMeta) -> DataFileMeta | None:
        """Return the file with its new row ids; None unless all of its rows move together."""
        if file.first_row_id is None:
            return None
        first = self.moved(range(file.first_row_id, file.first_row_id + file.row_count))
        return None if first is None else replace(file, first_row_id=first)

    def touches(self, rows: range) -> bool:
        """Return whether any of these rows moves."""
        at = bisect_right(self.firsts, rows.stop - 1) - 1
        return at >= 0 and self.stops[at] > rows.start


@dataclass(frozen=True, slots=True)
class Renumbering:
    """The rows that get new ids, by partition, and the first id that stays free."""

    moved: Mapping[bytes, MovedRows]
    next_row_id: int

    @property
    def rows(self) -> int:
        """Return the number of rows that get new ids."""
        return sum(m.count for m in self.moved.values())

    def entry(self, entry: ManifestEntry) -> ManifestEntry:
        """Return the entry with its new row ids, or as it is.

        CorruptTable if only some of its rows would move, UnsupportedFeature if the file itself
        holds the ids.
        """
        file, moved = entry.file, self.moved.get(entry.partition)
        if moved is None or file.first_row_id is None:
            return entry
        new = moved.file(file)
        if new is not None:
            if file.write_cols is not None and ROW_ID in file.write_cols:
                raise UnsupportedFeature(
                    f"column {ROW_ID} in a data file",
                    f"the rows of file {file.file_name} cannot get other ids: the file holds them",
                    file=file.file_name,
                    next_step="leave out its partition",
                )
            return replace(entry, file=new)
        if moved.touches(range(file.first_row_id, file.first_row_id + file.row_count)):
            raise CorruptTable(
                f"file {file.file_name} shares only some rows with other files",
                file=file.file_name,
                next_step="run `caretaker verify` on the table",
            )
        return entry

    def index_changes(self, live: Iterable[IndexManifestEntry]) -> Iterator[IndexManifestEntry]:
        """Yield what changes about global indexes of moved rows: each as removed, then as added.

        An index that covers rows which do not stay together is not added again.
        """
        for entry in live:
            moved = self.moved.get(entry.partition)
            meta = entry.index_file.global_index
            if moved is None or meta is None:
                continue
            covered = index_range(entry.index_file)
            rows = range(covered.first, covered.last + 1)
            if not moved.touches(rows):
                continue
            yield replace(entry, kind=FileKind.DELETE)
            first = moved.moved(rows)
            if first is not None:
                place = {"_ROW_RANGE_START": first, "_ROW_RANGE_END": first + len(rows) - 1}
                file = replace(entry.index_file, global_index={**meta, **place})
                yield replace(entry, index_file=file)
