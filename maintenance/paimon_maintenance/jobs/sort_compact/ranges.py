"""Sorts partitions that are too large for one task: rows go to ranges of their sort codes.

::

    sample (task: a group of files) -> cuts -> split (task: group of files) -> join (task: a range)
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from paimon_core.clustering.rewrite import (
    SortUnit,
    code_width,
    join_range,
    range_cuts,
    sample_codes,
    split_rows,
)
from paimon_core.environment import Environment
from paimon_core.file_store_table import FileStoreTable
from paimon_maintenance.job.engine import Engine, ShuffleEngine, UnitResult, WorkUnit
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.job.rewrite_job import batches_of, error_of
from paimon_maintenance.jobs.sort_compact.group import SortGroup
from paimon_maintenance.jobs.sort_compact.plan import SortPlan

SHARE_BYTES: Final = 256 * 1024**2
"""Files that one task samples or splits."""

Share = tuple[SortGroup, SortUnit]
"""Some of the files of a group, the work of one task."""


# --- on executors -------------------------------------------------------------------------------


def run_sample(table: FileStoreTable, most: int, payload: bytes) -> bytes:
    """Sort codes of at most `most` rows of a share."""
    return sample_codes(table, SortUnit.from_bytes(payload), most=most)


@dataclass(frozen=True, slots=True)
class Split:
    """Cuts the rows of a share into ranges.

    The payload holds the share, the cuts of its group, and the number of the group's first range.
    """

    table: FileStoreTable
    width: int

    def __call__(self, payload: bytes) -> Iterator[tuple[int, bytes]]:
        """Pairs of a range's number, over all groups, and a chunk of its rows."""
        obj = json.loads(payload)
        unit = SortUnit.from_bytes(base64.b64decode(obj["unit"]))
        cuts = [base64.b64decode(c) for c in obj["cuts"]]
        for number, chunk in split_rows(self.table, unit, cuts, self.width):
            yield obj["first"] + number, chunk


@dataclass(frozen=True, slots=True)
class Join:
    """Sorts and writes one range; `units` are those of the groups, without their files."""

    table: FileStoreTable
    env: Environment
    units: Mapping[int, bytes]
    expected_bytes: int

    def __call__(self, number: int, chunks: Iterator[bytes]) -> bytes:
        """The new files of the range of this number."""
        result = join_range(
            self.table,
            SortUnit.from_bytes(self.units[number]),
            chunks,
            expected_bytes=self.expected_bytes,
            env=self.env,
        )
        return result.to_bytes()


# --- on the driver ------------------------------------------------------------------------------


def sort_by_ranges(
    table: FileStoreTable,
    plan: SortPlan,
    groups: Sequence[SortGroup],
    engine: ShuffleEngine,
    context: RunContext,
) -> list[tuple[SortGroup, UnitResult]]:
    """One result a range that got any row, with the range's group."""
    width = code_width(table, plan.clustering)
    shares = [(group, unit) for group in groups for unit in _shares(plan, group)]
    cuts = _cuts(table, plan, groups, shares, engine, width)
    first: dict[bytes, int] = {}
    owners: list[SortGroup] = []
    for group in groups:
        first[group.row] = len(owners)
        owners += [group] * (len(cuts[group.row]) + 1)
    units = [
        WorkUnit(
            payload=json.dumps(
                {
                    "unit": base64.b64encode(unit.to_bytes()).decode("ascii"),
                    "cuts": [base64.b64encode(c).decode("ascii") for c in cuts[group.row]],
                    "first": first[group.row],
                }
            ).encode(),
            expected_bytes=unit.read_bytes,
            label=group.label,
        )
        for group, unit in shares
    ]
    bare = {group.row: _without_files(plan.unit(group)).to_bytes() for group in groups}
    join = Join(
        table=table,
        env=context.env,
        units={number: bare[group.row] for number, group in enumerate(owners)},
        expected_bytes=4 * plan.range_bytes,
    )
    results = engine.run_shuffle(units, Split(table, width), join, ranges=len(owners))
    for group in groups:
        context.progress.advance(1, group.bytes)
    return [(owners[result.index], result) for result in results]


def _shares(plan: SortPlan, group: SortGroup) -> Iterator[SortUnit]:
    unit = plan.unit(group)
    for files in batches_of(group.files, lambda f: f.file_size, most=SHARE_BYTES):
        yield replace(unit, source=replace(unit.source, append_files=files))


def _without_files(unit: SortUnit) -> SortUnit:
    return replace(unit, source=replace(unit.source, append_files=()))


def _cuts(
    table: FileStoreTable,
    plan: SortPlan,
    groups: Sequence[SortGroup],
    shares: Sequence[Share],
    engine: Engine,
    width: int,
) -> dict[bytes, list[bytes]]:
    """For each group the codes between its ranges, from a sample of its rows.

    With sort-compaction.range-strategy `size`, shares count by their bytes, else by their rows.
    """
    ranges = {g.row: -(-g.bytes // plan.range_bytes) for g in groups}
    units = [
        WorkUnit(payload=unit.to_bytes(), expected_bytes=unit.read_bytes, label=group.label)
        for group, unit in shares
    ]
    most = plan.sample * max(ranges.values())
    results = engine.run_units(units, partial(run_sample, table, most))
    weights = [u.read_bytes if plan.by_size else u.source.rewritten_rows for _, u in shares]
    heaviest: dict[bytes, int] = defaultdict(int)
    for (group, _), weight in zip(shares, weights, strict=True):
        heaviest[group.row] = max(heaviest[group.row], weight, 1)
    samples: dict[bytes, list[bytes]] = defaultdict(list)
    for (group, _), weight, result in zip(shares, weights, results, strict=True):
        if result.payload is None:
            raise error_of(result, f"a sample of {group.label}")
        samples[group.row].append(_thinned(result.payload, width, weight / heaviest[group.row]))
    return {g.row: range_cuts(samples[g.row], width, ranges[g.row]) for g in groups}


def _thinned(codes: bytes, width: int, share: float) -> bytes:
    """This share (0 to 1) of the codes, taken at even distances."""
    count = len(codes) // width
    wanted = round(count * share)
    places = (i * count // wanted for i in range(wanted)) if wanted else ()
    return b"".join(codes[p * width : (p + 1) * width] for p in places)
