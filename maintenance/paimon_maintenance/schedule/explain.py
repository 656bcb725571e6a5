"""The recorded decisions about one table, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from paimon_maintenance.history.need_store import StoredDecision
from paimon_maintenance.history.predictions import prediction_error
from paimon_maintenance.job.text import age_text, human_bytes

_EFFECTS: Final[Mapping[str, tuple[str, Callable[[float], str]]]] = {
    "excess_gain": ("runs or files fewer in a read", lambda n: f"{n:.1f}"),
    "files_fewer": ("files fewer", lambda n: f"{n:.0f}"),
    "bytes": ("rewritten", lambda n: human_bytes(int(n))),
    "bytes_freed": ("freed", lambda n: human_bytes(int(n))),
    "snapshots_fewer": ("snapshots fewer", lambda n: f"{n:.0f}"),
    "indexed_share": ("rows indexed", lambda n: f"{n:.1%}"),
    "level_0_hours": ("level 0 younger by", age_text),
}


def lines_of(decisions: Sequence[StoredDecision]) -> Iterator[str]:
    """Each decision on a line, newest first, with prediction and result below."""
    for one in decisions:
        at = datetime.fromtimestamp(one.at_millis / 1000, UTC).astimezone()
        job = "" if one.job is None else f" {one.job}"
        yield f"{at:%Y-%m-%d %H:%M:%S}  {one.action}{job}: {one.reason}"
        if one.job is not None and one.action != "no":
            source = ", by no past run of the job" if one.is_estimated else ""
            yield (
                f"    predicted {one.predicted_seconds:.1f} s{source}, benefit {one.benefit:.2f} excess "
                f"hours, rank {one.rank:.4g}"
            )
        if one.status is not None:
            yield f"    {_result(one)}"
        effects = list(_effects(one))
        if effects:
            yield f"    predicted -> measured: {', '.join(effects)}"


def _effects(one: StoredDecision) -> Iterator[str]:
    """What the job was predicted to gain beside what it gained."""
    for name, (what, shown) in _EFFECTS.items():
        predicted, measured = one.predicted.get(name), (one.result or {}).get(name)
        if predicted and measured is not None:
            yield f"{what} {shown(predicted)} -> {shown(measured)}"


def _result(one: StoredDecision) -> str:
    parts = [str(one.status)]
    if one.seconds:
        parts.append(f"{one.seconds:.1f} s")
        error = prediction_error(one.predicted_seconds, one.seconds)
        parts.append(f"prediction off by {error:.0%}")
    found = one.result or {}
    if "score_after" in found:
        parts.append(f"score {found['score_before']} -> {found['score_after']}")
    parts += [str(found[key]) for key in ("why", "error") if found.get(key)]
    return ", ".join(parts)
