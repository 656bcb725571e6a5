"""References as text for plans: "snapshots 3 to 7, tag nightly"."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from paimon_core.reachability.references import Reference, RefKind
from paimon_maintenance.job.text import counted

_MOST_TAGS = 5


def describe_references(references: Iterable[Reference]) -> str:
    """The snapshots and changelogs by id and the first tags by name.

    "nothing" without references.
    """
    by_kind: dict[RefKind, list[Reference]] = {kind: [] for kind in RefKind}
    for reference in references:
        by_kind[reference.kind].append(reference)
    parts = [
        _numbers(kind, sorted({r.snapshot.id for r in by_kind[kind]}))
        for kind in (RefKind.SNAPSHOT, RefKind.CHANGELOG)
        if by_kind[kind]
    ]
    tags = sorted(r.name for r in by_kind[RefKind.TAG])
    if tags:
        names = ", ".join(map(repr, tags[:_MOST_TAGS]))
        more = f" and {counted(len(tags) - _MOST_TAGS, 'more tags')}" if tags[_MOST_TAGS:] else ""
        parts.append(f"tag {names}" if len(tags) == 1 else f"tags {names}{more}")
    return ", ".join(parts) or "nothing"


def _numbers(kind: RefKind, ids: list[int]) -> str:
    if len(ids) == 1:
        return f"{kind} {ids[0]}"
    between = "" if all(b == a + 1 for a, b in pairwise(ids)) else f" ({len(ids)} of them)"
    return f"{kind}s {ids[0]} to {ids[-1]}{between}"
