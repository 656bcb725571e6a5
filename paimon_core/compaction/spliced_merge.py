"""Merges what overlaps and passes on what is copied, in key order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from paimon_core.compaction.copyable_pages import CopiedRows, CopyablePages, MergedRange, Step
from paimon_core.compaction.merge import UnitMerge, holds_new
from paimon_core.compaction.unit import Rewrite
from paimon_core.format.stored_file import StoredFile
from paimon_core.lsm.changelog import MergeResult
from paimon_core.read.cursor import RowCursor
from paimon_core.read.section import fan_in
from paimon_core.write.page_splice import StoredRange


@dataclass(frozen=True, slots=True)
class SplicedMerge:
    """The merge of a group of sections, and the files whose pages are copied."""

    merge: UnitMerge
    pages: CopyablePages
    group: Rewrite

    def results(self, steps: Sequence[Step]) -> Iterator[MergeResult | StoredRange]:
        """Yield merged rows, and stored rows, whose file is open until the next result."""
        cursors = self._cursors(steps)
        merge = replace(self.merge, cursors=cursors, footers={})
        opened: StoredFile | None = None
        name = ""
        try:
            for step in steps:
                if isinstance(step, MergedRange):
                    yield from self._merged(merge, step)
                    continue
                if step.file.file_name != name or opened is None:
                    if opened is not None:
                        opened.close()
                    opened, name = self.pages.open(step.file), step.file.file_name
                yield step.of(opened)
        finally:
            if opened is not None:
                opened.close()
            for cursor in cursors.values():
                cursor.close()

    def _merged(self, merge: UnitMerge, step: MergedRange) -> Iterator[MergeResult]:
        merge = replace(merge, windows=step.windows)
        if merge.is_plain:
            for batch in merge.plain_rows(step.sections):
                yield MergeResult(batch)
        else:
            yield from merge.sections(step.sections, has_new=holds_new(self.group))

    def _cursors(self, steps: Sequence[Step]) -> dict[str, RowCursor]:
        """Return cursors for files that are merged window by window, with nothing copied between.

        They stay open from window to window, so there are none if the runs of a section are too
        many to be open at once.
        """
        columns = self.pages.table.schema.row_type
        if any(len(section) > fan_in(section, columns) for section in self.group):
            return {}
        copied = {s.file.file_name for s in steps if isinstance(s, CopiedRows)}
        windows: dict[str, list[range]] = defaultdict(list)
        for step in steps:
            if isinstance(step, MergedRange):
                for name, rows in step.windows.items():
                    windows[name] += [rows] if rows else []
        return {
            name: RowCursor(range(found[0].start, found[-1].stop))
            for name, found in windows.items()
            if len(found) > 1 and name not in copied
        }
