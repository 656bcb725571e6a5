"""Merges what overlaps and passes on what is copied, in key order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from paimon_core.compaction.alone import MergedRange, PageKeys, Step
from paimon_core.compaction.merge import UnitMerge, holds_new
from paimon_core.compaction.unit import Rewrite
from paimon_core.format.stored_file import StoredFile
from paimon_core.lsm.changelog import MergeResult
from paimon_core.write.page_splice import StoredRange


@dataclass(frozen=True, slots=True)
class SplicedMerge:
    """The merge of a group of sections, and the files whose pages are copied."""

    merge: UnitMerge
    pages: PageKeys
    group: Rewrite

    def results(self, steps: Sequence[Step]) -> Iterator[MergeResult | StoredRange]:
        """Yield merged rows, and stored rows, whose file is open until the next result."""
        opened: StoredFile | None = None
        name = ""
        try:
            for step in steps:
                if isinstance(step, MergedRange):
                    yield from self._merged(step)
                    continue
                if step.file.file_name != name or opened is None:
                    if opened is not None:
                        opened.close()
                    opened, name = self.pages.open(step.file), step.file.file_name
                yield step.of(opened)
        finally:
            if opened is not None:
                opened.close()

    def _merged(self, step: MergedRange) -> Iterator[MergeResult]:
        merge = replace(self.merge, windows=step.windows)
        if merge.is_plain:
            for batch in merge.plain_rows(step.sections):
                yield MergeResult(batch)
        else:
            yield from merge.sections(step.sections, has_new=holds_new(self.group))
