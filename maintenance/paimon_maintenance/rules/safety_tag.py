"""Tags with a time to live that a job makes before it changes what cannot be changed back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from paimon_core.environment import Environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import WRITE_ONLY
from paimon_core.reachability.files import Metadata
from paimon_core.reachability.keep import create_kept
from paimon_core.reachability.references import Reference, RefKind
from paimon_core.refs.tags import Tag
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.job.plan import Retained

_NANOS_OF_MILLI = 1_000_000
BEFORE_ROLLBACK: Final = "before-rollback-"
BEFORE_RESCALE: Final = "before-rescale-"
BEFORE_FAST_FORWARD: Final = "before-fast-forward-"
_PREFIXES: Final = (BEFORE_ROLLBACK, BEFORE_RESCALE, BEFORE_FAST_FORWARD)


def is_safety_tag(name: str) -> bool:
    """Whether a job made this tag, to keep what it was about to change."""
    return name.startswith(_PREFIXES)


def make_safety_tag(table: FileStoreTable, tag: Tag) -> None:
    """Make the tag, unless an interrupted run has made it; NotFound if its snapshot is gone."""
    there = table.tags.get_or_none(tag.name)
    if there is None or there.snapshot.identity != tag.snapshot.identity:
        create_kept(table, tag)
    else:
        Metadata(table).prove_readable(tag.snapshot)


def safety_tag(
    table: FileStoreTable,
    latest: Snapshot,
    *,
    prefix: str,
    name: str,
    retained_millis: int | None,
    env: Environment,
    kept: list[Retained],
    interrupted: Iterable[Reference] = (),
) -> Tag | None:
    """The tag to make, or the one of an interrupted run; None (and why, in `kept`) for no tag.

    `prefix` is the job's; `name` follows it.  `interrupted`: what interrupted runs let go.  If
    `latest` is among it, the tag is one of what was newest before.
    """
    if not retained_millis:
        return None
    if not table.options.value(WRITE_ONLY):
        why = "the table is not write-only: expiry by its writers could misread such a tag"
        kept.append(Retained(what="no safety tag", why=why, count=0))
        return None
    begun = {r.snapshot.identity for r in interrupted if r.kind is RefKind.SNAPSHOT}
    same = begun if latest.identity in begun else {latest.identity}
    for tag in table.tags.all():
        mine = tag.name.startswith(prefix) and tag.snapshot.identity in same
        if mine and tag.snapshot.id >= latest.id:
            return tag
    made = env.local_millis()
    return Tag(
        f"{prefix}{name}-{made // 1000}",
        latest,
        made * _NANOS_OF_MILLI,
        retained_millis * _NANOS_OF_MILLI,
    )
