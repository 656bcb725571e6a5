"""The changelog producers (Java: `CoreOptions.ChangelogProducer`): one row each.

::

    none              there is no changelog
    input             writers write the incoming rows
    full-compaction   a compaction into the top level writes what it changes there
    lookup            every compaction looks up the old rows and writes what it changes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_core.options import CHANGELOG_PRODUCER, Options


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogProducer:
    """A value of `changelog-producer` and its traits.

    `has_changelog`: changes are in changelog files; without them, the rows that writers append are
    the changes.  `by_writer`: writers write the changelog.  `by_compaction`: compactions write it,
    with `top_level_only` only those into the top level.  `needs_lookup`: compactions look up old
    rows for it.
    """

    name: str
    needs_primary_key: bool = True
    has_changelog: bool = True
    by_writer: bool = False
    by_compaction: bool = False
    top_level_only: bool = False
    needs_lookup: bool = False
    allows_deletion_vectors: bool = True

    def is_written_at(self, level: int, *, top_level: int) -> bool:
        """Return whether a compaction into this level writes a changelog."""
        return self.by_compaction and (level == top_level or not self.top_level_only)

    def complete_from(self, *, top_level: int) -> int:
        """Return the lowest level whose rows are all in the changelog.

        A later compaction writes the changelog of rows on lower levels.
        """
        if not self.by_compaction:
            return 0
        return top_level if self.top_level_only else 1


CHANGELOG_PRODUCERS: Final = {
    row.name: row
    for row in (
        ChangelogProducer(name="none", needs_primary_key=False, has_changelog=False),
        ChangelogProducer(name="input", by_writer=True),
        ChangelogProducer(
            name="full-compaction",
            by_compaction=True,
            top_level_only=True,
            allows_deletion_vectors=False,
        ),
        ChangelogProducer(name="lookup", by_compaction=True, needs_lookup=True),
    )
}


def changelog_producer_of(options: Options) -> ChangelogProducer:
    """Return the producer of a table.

    An unknown producer has a changelog and no other trait: its table can be read, but not written.
    """
    name = options.value(CHANGELOG_PRODUCER)
    return CHANGELOG_PRODUCERS.get(name) or ChangelogProducer(name=name)
