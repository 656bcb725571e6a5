"""Finds the rows of a rewrite that are alone with their keys, so that their pages can be copied.

The page indexes of a file say which keys lie in which pages.  Pages whose keys no page of another
file can hold, by these bounds, need no merge::

    file A   |--1--|--2--|--3--|--4--|--5--|        copied: 1, 2, then 4, 5
    file B                  |---1---|                merged: 3 of A with 1 of B

The keys of smaller files are read, so that a few of them do not count for all keys between them.

The rows between two copied stretches are merged as always, each file limited to its rows there.
Bounds may be wider than the keys of a page: then rows are merged needlessly, but never copied
wrongly.  Nothing protects a page index from damage, so the first and the last key of each stretch
are read: of a file whose index leaves one of them out, nothing is copied.  What a merge would drop
or change is not copied: deletes, rows that a deletion vector names, rows of files with other
columns, and rows whose changes go into a changelog.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import pyarrow.parquet as pq

from paimon_core.compaction.page_copy import LEAST_BYTES, MOST_BYTES, has_current_columns
from paimon_core.compaction.unit import CompactUnit, KeyRange, Rewrite
from paimon_core.compaction.untouched import untouched
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.data_format import format_of
from paimon_core.format.parquet.assembler import COPIED_CODECS, layout_like
from paimon_core.format.parquet.chunks import StoredColumn, StoredGroup, stored_number
from paimon_core.format.parquet.stored_page import Raw, value_of_bound
from paimon_core.format.stored_file import WHOLE_BELOW, StoredFile, open_stored_file
from paimon_core.index.deletion_vectors import NOTHING_DELETED, Positions
from paimon_core.index.file_index.writer import indexed_columns
from paimon_core.lsm.changelog_producers import changelog_producer_of
from paimon_core.lsm.engines.traits import newest_file_wins
from paimon_core.lsm.key_column import Value
from paimon_core.lsm.key_order import Key, KeyView, stored_key
from paimon_core.lsm.tree.sorted_run import Section, SortedRun
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import DATA_FILE_THIN_MODE, SNAPSHOT_ORDERING
from paimon_core.read.data_file import missing_data_file, read_table_file
from paimon_core.schema.key_value import file_row_type
from paimon_core.types.data_types import AtomicType, DataField, RowType, TypeRoot, type_roots
from paimon_core.write.file_layout import key_value_layout
from paimon_core.write.page_splice import StoredRange, leaf_ranges
from paimon_core.write.splice_writer import copied_codec

LEAST_FILE: Final = WHOLE_BELOW
"""Smaller files are decoded."""
LEAST_CHUNK: Final = 128 * 1024
"""Files with fewer bytes for a column are decoded, too: looking through their footers, which list
each column, would cost more than it can save."""
_TEXTS: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_INTEGERS: Final = (
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.DATE,
)
_TIMESTAMPS: Final = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_MICROS: Final = 6


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """Rows of one row group of a file, as rows of the file, and bounds of their keys."""

    file: DataFileMeta
    group: int
    rows: range
    low: Key
    high: Key

    def of(self, opened: StoredFile) -> StoredRange:
        """Return the rows in the opened file."""
        return StoredRange(opened, opened.groups[self.group], self.rows)


@dataclass(frozen=True, slots=True)
class MergedRange:
    """Sections to merge, of whose files only the rows in `windows` count (none named: all)."""

    sections: tuple[Section, ...]
    windows: Mapping[str, range]


Step = CopiedRows | MergedRange


@dataclass(frozen=True, slots=True)
class _Block:
    """Consecutive rows of a file, and keys that none of them is below or above.

    `group` is the row group if the rows may be copied, otherwise None.
    """

    file: int
    rows: range
    low: Key
    high: Key
    group: int | None = None


@dataclass(frozen=True, slots=True)
class CopyablePages:
    """The files of a unit whose pages can be copied, and the layout that they need for it."""

    table: FileStoreTable
    unit: CompactUnit
    vectors: Mapping[str, Positions]
    is_plain: bool
    columns: RowType
    like: pq.FileMetaData
    codec: str

    @staticmethod
    def of(
        table: FileStoreTable,
        unit: CompactUnit,
        vectors: Mapping[str, Positions],
        *,
        is_plain: bool,
    ) -> CopyablePages | None:
        """Return the unit's work; None if all its rows must be decoded.

        `is_plain`: rows alone with their key are written as they are, whatever their level.
        """
        options = table.options
        layout = key_value_layout(options, level=unit.output_level)
        compression = copied_codec(layout, options)
        if (
            compression is None
            or (unit.key_range is not None and not unit.key_range.may_copy)
            or indexed_columns(options)
            or unit.expired_before is not None
            # The numbers in the files are not those of the rows.
            or options.value(SNAPSHOT_ORDERING)
            # A sidecar names the packs of the rows.
            or TypeRoot.BLOB in type_roots(table.schema.row_type)
            or not (is_plain or newest_file_wins(options))
            or not all(map(_has_order, table.schema.key_type.fields))
        ):
            return None
        columns = file_row_type(
            table.schema.key_type, table.schema.row_type, thin=options.value(DATA_FILE_THIN_MODE)
        )
        if all(f.file_size < _least_size(columns) for f in unit.rewritten_files):
            return None
        like = layout_like(columns, compression)
        codec = COPIED_CODECS[compression]
        return CopyablePages(table, unit, vectors, is_plain, columns, like, codec)

    def steps(self, group: Rewrite) -> list[Step] | None:
        """Return what to do in key order; None if nothing can be copied."""
        files = [f for section in group for run in section for f in run.files]
        leaves = leaf_ranges(self.columns)
        names = self.table.schema.key_type.names
        places = [leaves[self.columns.names.index(name)].start for name in names]
        groups = [self._groups(file, places) for file in files]
        while True:
            steps = self._steps(group, files, groups, places)
            copied = [step for step in steps if isinstance(step, CopiedRows)]
            lying = self._lying(copied, places)
            if not lying:
                return steps if copied else None
            groups = [
                () if file.file_name in lying else known
                for file, known in zip(files, groups, strict=True)
            ]

    def _steps(
        self,
        group: Rewrite,
        files: Sequence[DataFileMeta],
        groups: Sequence[tuple[StoredGroup, ...]],
        places: Sequence[int],
    ) -> list[Step]:
        """Return what to do in key order; `groups` are the row groups that may be copied."""
        blocks = [
            block
            for number, file in enumerate(files)
            for block in self._blocks(number, file, groups[number], places)
        ]
        blocks = self._divided(files, blocks)
        blocks.sort(key=lambda b: (b.low, b.file, b.rows.start))
        key_range = self.unit.key_range
        windows = {} if key_range is None else key_range.rows
        walk = _Walk(group, files, windows)
        for first, last in _alone(blocks):
            span = blocks[first : last + 1]
            number = span[0].file
            place = span[0].group or 0
            for rows in self._worthwhile(files[number], groups[number][place], span):
                for before in blocks[walk.passed : first]:
                    walk.reached[before.file] = before.rows.stop
                walk.passed = max(walk.passed, first)
                low, high = span[0].low, span[-1].high
                walk.copy(CopiedRows(files[number], place, rows, low, high), number)
        walk.end()
        return walk.steps

    def _lying(self, copied: Sequence[CopiedRows], key_leaves: Sequence[int]) -> set[str]:
        """Return the names of files whose rows begin or end outside of their bounds."""
        parts: dict[str, list[CopiedRows]] = defaultdict(list)
        for part in copied:
            parts[part.file.file_name].append(part)
        found = set()
        for name, some in parts.items():
            with closing(self.open(some[0].file, key_leaves)) as opened:
                if not all(self._is_true(opened, part) for part in some):
                    found.add(name)
        return found

    def _is_true(self, opened: StoredFile, part: CopiedRows) -> bool:
        """Return whether the first and the last key of these rows are within their bounds."""
        key, ends = self.table.schema.key_type, []
        for row in (part.rows[0], part.rows[-1]):
            (batch,) = opened.decoded(range(row, row + 1), key)
            ends.append(KeyView(batch, key).at(0))
        return part.low <= ends[0] <= ends[1] <= part.high

    def open(self, file: DataFileMeta, with_pages: Collection[int] | None = None) -> StoredFile:
        """Open a file of which rows are copied.  Callers close it."""
        opened = self._opened(file, with_pages)
        assert opened is not None  # for its pages can be copied
        return opened

    def _opened(
        self, file: DataFileMeta, with_pages: Collection[int] | None = None
    ) -> StoredFile | None:
        """Open a file; None if its pages cannot be copied."""
        path = self.table.paths.data_file(self.unit.partition, self.unit.bucket, file)
        try:
            return open_stored_file(
                self.table.io,
                path,
                size=file.file_size,
                rows=file.row_count,
                like=self.like,
                codec=self.codec,
                bounds=dict,
                with_pages=with_pages,
            )
        except FileNotFoundError as e:
            raise missing_data_file(path) from e

    def _groups(self, file: DataFileMeta, key_leaves: Sequence[int]) -> tuple[StoredGroup, ...]:
        """Return the row groups of a file whose pages may be copied; empty for others.

        Only the pages of the key are known: opening a file that overlaps everywhere gains nothing.
        """
        opened = self._opened(file, key_leaves) if self._may_be_copied(file) else None
        if opened is None:
            return ()
        opened.close()
        return opened.groups

    def _may_be_copied(self, file: DataFileMeta) -> bool:
        unit = self.unit
        if (
            file.file_size < _least_size(self.columns)
            or file.delete_row_count != 0
            or format_of(file.file_name) != "parquet"
            or not has_current_columns(self.table, file)
        ):
            return False
        if self.is_plain:
            return True
        # A row of level 0 is new: it is looked up above, and belongs into a changelog.  With a
        # changelog of the top level alone, so are the rows of all levels below it.
        if unit.writes_changelog and changelog_producer_of(self.table.options).top_level_only:
            return file.level == unit.output_level
        return file.level > 0

    def _blocks(
        self,
        number: int,
        file: DataFileMeta,
        groups: Sequence[StoredGroup],
        places: Sequence[int],
    ) -> list[_Block]:
        """Return all rows of a file in blocks whose keys are known as well as possible."""
        key = self.table.schema.key_type
        low, high = stored_key(file.min_key, key), stored_key(file.max_key, key)
        one = [_Block(number, range(file.row_count), low, high)]
        found: list[_Block] = []
        for place, group in enumerate(groups):
            bounds = _bounds([group.columns[p] for p in places], key)
            if bounds is None:
                return one
            first = group.first_row
            found += [
                _Block(number, range(first + r.start, first + r.stop), a, b, place)
                for r, a, b in bounds
            ]
        found = _tightened(found, low, high)
        return [self._limited(file, block) for block in found] or one

    def _divided(self, files: Sequence[DataFileMeta], blocks: list[_Block]) -> list[_Block]:
        """Divide the blocks of smaller files where pages that may be copied begin.

        Otherwise two keys far from each other would stand for all keys between them.
        """
        pages = sorted((b.low, b.high) for b in blocks if b.group is not None)
        rows = sum(len(b.rows) for b in blocks if b.group is not None)
        cuts = [low for low, _ in pages]
        return [
            part
            for block in blocks
            for part in (
                self._divide(files[block.file], block, cuts)
                if block.group is None
                and len(block.rows) == files[block.file].row_count <= rows
                and bisect_right(cuts, block.high) - bisect_right(cuts, block.low) > 1
                else [block]
            )
        ]

    def _divide(self, file: DataFileMeta, block: _Block, cuts: Sequence[Key]) -> list[_Block]:
        """Read the keys of a file and return its rows from cut to cut."""
        table, key = self.table, self.table.schema.key_type
        batches = read_table_file(table, self.unit.partition, self.unit.bucket, file, key)
        parts: list[_Block] = []
        begin = 0
        for batch in batches:
            view, start = KeyView(batch, key), 0
            while start < batch.num_rows:
                following = bisect_right(cuts, view.at(start))
                stop = batch.num_rows
                if following < len(cuts):
                    stop = view.lower_bound(cuts[following], start)
                rows = range(begin + start, begin + stop)
                parts.append(_Block(block.file, rows, view.at(start), view.at(stop - 1)))
                start = stop
            begin += batch.num_rows
        ordered = all(a.high <= b.low for a, b in pairwise(parts))
        return parts if ordered and all(p.low <= p.high for p in parts) else [block]

    def _limited(self, file: DataFileMeta, block: _Block) -> _Block:
        """Return the block; it is not to be copied if it lies partly outside the unit's keys."""
        key_range = self.unit.key_range
        if key_range is None or self._is_within(file, block, key_range):
            return block
        return _Block(block.file, block.rows, block.low, block.high)

    def _is_within(self, file: DataFileMeta, block: _Block, keys: KeyRange) -> bool:
        window, key = keys.rows.get(file.file_name), self.table.schema.key_type
        return (
            (window is None or window.start <= block.rows.start < block.rows.stop <= window.stop)
            and (keys.low is None or block.low >= stored_key(keys.low, key))
            and (keys.high is None or block.high < stored_key(keys.high, key))
        )

    def _worthwhile(
        self, file: DataFileMeta, group: StoredGroup, span: Sequence[_Block]
    ) -> Iterator[range]:
        """Yield the rows of a span to copy: without deleted ones, and not too few or too many."""
        return untouched(
            [span[0].rows.start, *(b.rows.stop for b in span)],
            self.vectors.get(file.file_name, NOTHING_DELETED),
            least=LEAST_BYTES * group.rows // max(1, group.size),
            most=max(1, MOST_BYTES * group.rows // max(1, group.uncompressed)),
        )


class _Walk:
    """Goes through the blocks in key order and notes the steps."""

    def __init__(
        self, group: Rewrite, files: Sequence[DataFileMeta], limits: Mapping[str, range]
    ) -> None:
        self.steps: list[Step] = []
        self.reached = [0] * len(files)
        """The rows of each file whose blocks were passed."""
        self.passed = 0
        self._done = [0] * len(files)
        self._group = group
        self._files = files
        self._limits = limits

    def copy(self, rows: CopiedRows, file: int) -> None:
        self.reached[file] = rows.rows.start
        self._merge()
        self.steps.append(rows)
        self._done[file] = self.reached[file] = rows.rows.stop

    def end(self) -> None:
        self.reached = [f.row_count for f in self._files]
        self._merge()

    def _merge(self) -> None:
        """Add a step for the rows between those that are done and those that are reached."""
        windows: dict[str, range] = {}
        for number, file in enumerate(self._files):
            limit = self._limits.get(file.file_name, range(file.row_count))
            begin = max(self._done[number], limit.start)
            windows[file.file_name] = range(begin, min(self.reached[number], limit.stop))
            self._done[number] = max(self._done[number], self.reached[number])
        sections = [
            tuple(
                SortedRun(kept)
                for run in section
                if (kept := tuple(f for f in run.files if windows[f.file_name]))
            )
            for section in self._group
        ]
        if any(sections):
            partial = {
                f.file_name: windows[f.file_name]
                for f in self._files
                if len(windows[f.file_name]) < f.row_count
            }
            self.steps.append(MergedRange(tuple(filter(None, sections)), partial))


def _least_size(columns: RowType) -> int:
    return max(LEAST_FILE, LEAST_CHUNK * len(columns))


def _has_order(field: DataField) -> bool:
    """Return whether bounds of the column in files are in the order of keys."""
    kind = field.type
    if not isinstance(kind, AtomicType) or kind.nullable:
        return False
    if kind.root in _TIMESTAMPS:
        return (kind.precision or 0) <= _MICROS
    return kind.root in (*_TEXTS, *_INTEGERS, TypeRoot.DECIMAL)


def _bounds(columns: Sequence[StoredColumn], key: RowType) -> list[tuple[range, Key, Key]] | None:
    """Return (rows of the group, least key, greatest key) of pages; None if they are unknown."""
    borders: set[int] | None = None
    for column in columns:
        if column.pages is None:
            return None
        ends = {0, *(p.end_row for p in column.pages)}
        borders = ends if borders is None else borders & ends
    found: list[tuple[range, Key, Key]] = []
    for begin, end in pairwise(sorted(borders or ())):
        lows: list[Value] = []
        highs: list[Value] = []
        for column, field in zip(columns, key.fields, strict=True):
            for page in column.pages or ():
                if not begin <= page.first_row < end:
                    continue
                values = [_element(column, b, field) for b in (page.minimum, page.maximum)]
                low, high = values
                if low is None or high is None:
                    return None
                if page.first_row == begin:
                    lows.append(low)
                    highs.append(high)
                else:
                    lows[-1], highs[-1] = _least(lows[-1], low), _greatest(highs[-1], high)
        found.append((range(begin, end), tuple(lows), tuple(highs)))
    return found


def _element(column: StoredColumn, bound: bytes | None, field: DataField) -> Value | None:
    raw: Raw | None = None if bound is None else value_of_bound(column.physical_type, bound)
    if field.type.root is TypeRoot.DECIMAL and raw is not None:
        return stored_number(raw)
    expected = bytes if field.type.root in _TEXTS else int
    return raw if isinstance(raw, expected) else None


def _least(left: Value, right: Value) -> Value:
    return min(left, right)


def _greatest(left: Value, right: Value) -> Value:
    return max(left, right)


def _tightened(blocks: Sequence[_Block], low: Key, high: Key) -> list[_Block]:
    """Return the blocks with bounds that follow from the file's keys and from their order.

    Empty if the bounds contradict the order, or the file's first and last key.
    """
    lows, highs = [b.low for b in blocks], [b.high for b in blocks]
    if not blocks or lows[0] > low or highs[-1] < high:
        return []
    lows[0], highs[-1] = low, high
    for i in range(1, len(blocks)):
        lows[i] = max(lows[i], lows[i - 1])
    for i in range(len(blocks) - 2, -1, -1):
        highs[i] = min(highs[i], highs[i + 1])
    if any(a > b for a, b in zip(lows, highs, strict=True)):
        return []
    return [
        _Block(b.file, b.rows, a, z, b.group) for b, a, z in zip(blocks, lows, highs, strict=True)
    ]


def _alone(blocks: Sequence[_Block]) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of neighbours of one row group that overlap no block of another file.

    Blocks are sorted by their least keys; so no block of another file lies between neighbours.
    """
    apart = [
        block.group is not None and not before and not after
        for block, before, after in zip(
            blocks, _overlapped_before(blocks), _overlapped_after(blocks), strict=True
        )
    ]
    first: int | None = None
    for i, is_apart in enumerate(apart):
        same = (
            first is not None
            and is_apart
            and (blocks[i].file, blocks[i].group) == (blocks[first].file, blocks[first].group)
        )
        if first is not None and not same:
            yield first, i - 1
            first = None
        if is_apart and first is None:
            first = i
    if first is not None:
        yield first, len(blocks) - 1


def _overlapped_before(blocks: Sequence[_Block]) -> list[bool]:
    """Return, for each block, whether one of another file before it reaches into it."""
    found = []
    best: dict[int, Key] = {}  # of the two files that reach furthest
    for block in blocks:
        found.append(any(f != block.file and high >= block.low for f, high in best.items()))
        best[block.file] = max(best.get(block.file, block.high), block.high)
        if len(best) > 2:
            del best[min(best, key=lambda f: best[f])]
    return found


def _overlapped_after(blocks: Sequence[_Block]) -> list[bool]:
    """Return, for each block, whether the next one of another file begins within it."""
    found = []
    following: list[_Block] = []  # the next block, and the next one of another file
    for block in reversed(blocks):
        found.append(any(b.file != block.file and b.low <= block.high for b in following))
        following = [block, *[b for b in following if b.file != block.file][:1]]
    return found[::-1]
