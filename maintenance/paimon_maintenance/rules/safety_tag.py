"""Tags with a time to live that a job creates before it makes irreversible changes."""

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
    """Whether a job created this tag for safety."""
    return name.startswith(_PREFIXES)


def make_safety_tag(table: FileStoreTable, tag: Tag) -> None:
    """Create the tag unless an interrupted run created it; NotFound if its snapshot is gone."""
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
    """The tag to create, or the tag of an interrupted run.

    None without one, with the reason in `kept`.  `prefix` identifies the job; `name` follows it.
    `interrupted` are the references that interrupted runs removed.  If `latest` is one of them,
    their tag protects the snapshot that was newest before.
    """
    if not retained_millis:
        return None
    if not table.options.value(WRITE_ONLY):
        why = "the table is not write-only: expiry by its writers can misinterpret the tag"
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
