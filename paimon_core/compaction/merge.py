"""Merges the versions of a unit's keys into rows and changelog.

Java: `MergeTreeCompactRewriter`, `ChangelogMergeTreeRewriter`,
`FullChangelogMergeTreeCompactRewriter`, `LookupMergeTreeCompactRewriter`.

=================================  ===============================================================
the table has                      what is merged, and what goes into the changelog
=================================  ===============================================================
`changelog-producer=full-...`      everything; the changes, if the output is the top level
lookups, files of level 0          level 0 and the nearest record above it, looked up above the
                                   output level if it is not among the files; the changes,
                                   with `changelog-producer=lookup`
lookups, no file of level 0        the nearest record of each key; nothing: no row is new
neither                            everything; nothing
=================================  ===============================================================

First-row tables, `changelog-producer=lookup`, deletion vectors and `force-lookup` need lookups.
With deletion vectors, `on_found` gets every record that was found above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from paimon_core.compaction.lookup import Found, KeyLookup
from paimon_core.compaction.record_expiry import RecordExpiry, expiry_before
from paimon_core.compaction.unit import CompactUnit
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.parquet.row_window import PagedFile
from paimon_core.index.deletion_vectors import Positions
from paimon_core.io.threads import Threads
from paimon_core.lsm.changelog import (
    ChangelogMerge,
    Equal,
    Find,
    FirstRows,
    FullCompaction,
    Lookup,
    MergeResult,
    WithoutChangelog,
    equality,
)
from paimon_core.lsm.changelog_producers import changelog_producer_of
from paimon_core.lsm.engines.traits import newest_file_wins, traits_of
from paimon_core.lsm.merge_engine import MergeEngine
from paimon_core.lsm.tree.lookup_merge import leveled
from paimon_core.lsm.tree.sorted_run import Section, SortedRun
from paimon_core.lsm.tree.universal_compaction import needs_lookup
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import (
    CHANGELOG_ROW_DEDUPLICATE,
    CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS,
    DELETION_VECTORS_ENABLED,
)
from paimon_core.read.cursor import RowCursor
from paimon_core.read.section import SectionReader
from paimon_core.read.version_reader import VersionReader
from paimon_core.scan.engine import merge_engine_for, rules_of
from paimon_core.types.buffers import index_array

OnFound = Callable[[DataFileMeta, Positions], None]
"""Called with the rows of a file above the output level that new rows supersede."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitMerge:
    """Merges sections of one unit; tables with deletion vectors need `on_found`."""

    table: FileStoreTable
    unit: CompactUnit
    vectors: Mapping[str, Positions]
    on_found: OnFound | None = None
    spill_dir: str | None = None
    windows: Mapping[str, range] | None = None
    """By file name, the rows to merge; None: all rows of the unit's key range."""
    cursors: Mapping[str, RowCursor] = field(default_factory=dict)
    footers: dict[str, PagedFile] | None = None
    """Shared by the merges of several windows, see `SectionReader`."""
    threads: Threads | None = None

    @property
    def is_plain(self) -> bool:
        """Return whether every version is merged, whatever its level, without a changelog."""
        return not self._needs_levels

    def plain_rows(self, sections: Sequence[Section]) -> Iterator[pa.RecordBatch]:
        """Yield the merged rows of the sections, one after the other."""
        reader, engine = self._reader(), merge_engine_for(self.table).engine
        for section in sections:
            yield from reader.merged(section, engine, drop_deletes=self.unit.drop_deletes)

    def sections(
        self, sections: Sequence[Section], *, has_new: bool | None = None
    ) -> Iterator[MergeResult]:
        """Yield the rows of the sections, one after the other, and their changelog.

        `has_new`: there are files of level 0; by default, if they are among these sections.
        """
        if has_new is None:
            has_new = holds_new(sections)
        return self._merged(sections, has_new=has_new)

    def file(self, file: DataFileMeta) -> Iterator[MergeResult]:
        """Do the same for one file that moves up unchanged: only the changelog matters.

        Only one slice of a unit calls this, for all keys.
        """
        whole = replace(self, unit=replace(self.unit, key_range=None))
        return whole._merged([(SortedRun((file,)),)], has_new=file.level == 0)  # noqa: SLF001

    def _merged(self, sections: Sequence[Section], *, has_new: bool) -> Iterator[MergeResult]:
        # One reader and one lookup for all sections, which are in key order.
        reader = self._reader()
        merge = self._changelog_merge(has_new=has_new)
        for section in sections:
            for piece in reader.versions(section):
                yield merge.merge(piece)

    def _reader(self) -> VersionReader:
        expiry, key_range = self._expiry(), self.unit.key_range
        return VersionReader(
            table=self.table,
            partition=self.unit.partition,
            bucket=self.unit.bucket,
            read_type=self.table.schema.row_type,
            low=None if key_range is None else key_range.low,
            high=None if key_range is None else key_range.high,
            windows=self._windows,
            cursors=self.cursors,
            footers=self.footers,
            threads=self.threads,
            spill_dir=self.spill_dir,
            vectors=self.vectors,
            with_levels=self._needs_levels,
            keep=None if expiry is None else expiry.keep,
        )

    @property
    def _windows(self) -> Mapping[str, range]:
        if self.windows is not None:
            return self.windows
        return {} if self.unit.key_range is None else self.unit.key_range.rows

    @property
    def _needs_levels(self) -> bool:
        return self.unit.writes_changelog or needs_lookup(self.table.options)

    def _expiry(self) -> RecordExpiry | None:
        before = self.unit.expired_before
        return None if before is None else expiry_before(self.table, before)

    def _changelog_merge(self, *, has_new: bool) -> ChangelogMerge:
        options = self.table.options
        chosen = merge_engine_for(self.table)
        looks_up = needs_lookup(options)
        if self.unit.writes_changelog and changelog_producer_of(options).top_level_only:
            return FullCompaction(chosen.of_files, self.unit.output_level, self._equal())
        if not (looks_up and has_new):
            return WithoutChangelog(chosen.of_files)
        writes_changelog = self.unit.writes_changelog
        if traits_of(options).keeps_first:
            return FirstRows(chosen.engine, self._find(records=False), writes_changelog)
        records = writes_changelog or not newest_file_wins(options)
        return self._lookup(chosen.engine, writes_changelog=writes_changelog, records=records)

    def _lookup(self, engine: MergeEngine, *, writes_changelog: bool, records: bool) -> Lookup:
        reader = self._reader()
        return Lookup(
            engine, reader.order, self._find(records=records), writes_changelog, self._equal()
        )

    def _find(self, *, records: bool) -> Find | None:
        """Return the lookup of keys above the unit's output; None if nothing needs it."""
        options = self.table.options
        keeps_first = traits_of(options).keeps_first
        sink = self.on_found if options.value(DELETION_VECTORS_ENABLED) else None
        if not self.unit.above or not (records or keeps_first or sink is not None):
            return None
        schema = self.table.schema
        # Java's lookup of first-row reads no values, so there an expired row still exists.
        expiry = None if keeps_first else self._expiry()
        names = set(schema.key_type.names) | ({expiry.field.name} if expiry else set())
        read_type = schema.row_type
        if not records:
            read_type = read_type.project([n for n in schema.names if n in names])
        lookup = KeyLookup(
            SectionReader(
                table=self.table,
                partition=self.unit.partition,
                bucket=self.unit.bucket,
                read_type=read_type,
                vectors=self.vectors,
            ),
            self.unit.above,
            keep=None if expiry is None else expiry.keep,
        )
        return _finding(lookup, schema.key_type.names, sink, records=records)

    def _equal(self) -> Equal | None:
        options = self.table.options
        if not options.value(CHANGELOG_ROW_DEDUPLICATE):
            return None
        ignored = options.value(CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS)
        names = [n for n in self.table.schema.names if n not in ignored]
        return equality(names, rules=rules_of(self.table))


def holds_new(sections: Sequence[Section]) -> bool:
    """Return whether files of level 0 are among these sections."""
    return any(f.level == 0 for s in sections for run in s for f in run.files)


def _finding(
    lookup: KeyLookup, key_names: Sequence[str], sink: OnFound | None, *, records: bool
) -> Find:
    levels = np.array([f.level for f in lookup.files], np.int8)

    def find(batch: pa.RecordBatch, rows: Positions) -> tuple[Positions, pa.RecordBatch | None]:
        found = lookup.find(batch.select(list(key_names)).take(index_array(rows)))
        if sink is not None:
            _tell(lookup, found, sink)
        return found.keys, leveled(found.records, levels[found.files]) if records else None

    return find


def _tell(lookup: KeyLookup, found: Found, sink: OnFound) -> None:
    for number in np.unique(found.files).tolist():
        sink(lookup.files[number], found.positions[found.files == number])
