"""`caretaker health TABLE`: the health score of tables, with reasons."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Final

from paimon_core.errors import NotFound
from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.policy import policy_of
from paimon_maintenance.cli.target import look_at_tables, storage_of, warehouse_of
from paimon_maintenance.health.score import Health, colors, health_of
from paimon_maintenance.job.error_json import error_json
from paimon_maintenance.job.exit_codes import ExitCode, combined, exit_code_of
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.policy.model import TablePolicy
from paimon_maintenance.policy.needs import TableFacts
from paimon_maintenance.policy.resolve import under
from paimon_maintenance.rules.tables import dropped_tables, is_pattern
from paimon_maintenance.storage.catalogs import open_table_of

if TYPE_CHECKING:
    from paimon_core.file_store_table import FileStoreTable
    from paimon_maintenance.health.measurement import Measurement
    from paimon_maintenance.history.store import SqlHistory

_MOST_PARTITIONS: Final = 5


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Measure each table and print its score, the least healthy first."""
    from paimon_core.environment import system_environment  # noqa: PLC0415 - fast start
    from paimon_maintenance.health.measure import measure_table  # noqa: PLC0415 - fast start
    from paimon_maintenance.history.past_runs import last_orphans  # noqa: PLC0415 - SQLAlchemy
    from paimon_maintenance.history.store import needed_history, open_history  # noqa: PLC0415

    env = system_environment()
    policy = policy_of(args)
    saving = needed_history("caretaker health --save") if args.save else None
    history = saving or open_history()
    owners: dict[str, str | None] = {}

    def look(table: FileStoreTable) -> tuple[Measurement, Health]:
        facts = TableFacts(dict(table.schema.options), table.schema.comment)
        wanted = TablePolicy(table=table.name)
        if policy is not None:
            wanted = policy.for_table(table.name, lambda: facts)
        needs = wanted.needs.of_table(facts)
        owners[table.name] = needs.owner
        orphans = last_orphans(history, table=table.name, warehouse=warehouse_of(args))
        measured = measure_table(under(wanted, table), env, orphans=orphans)
        return measured, health_of(measured, needs.thresholds(), env.now_millis())

    found: list[tuple[Measurement, Health]] = []
    failed: list[dict[str, object]] = []
    errors: dict[str, Exception] = {}
    codes: list[ExitCode] = []
    for name, health in look_at_tables(args, output, look):
        if isinstance(health, Exception):
            failed.append({"table": name, "error": error_json(health)})
            errors[name] = health
            codes.append(exit_code_of(health))
        else:
            found.append(health)
            codes.append(ExitCode.SUCCESS)
    if saving is not None:
        _save(args, saving, found, owners, errors, env.now_millis())
    found.sort(key=lambda pair: (pair[1].score, pair[1].name))
    code = combined(codes)
    tables = [
        {**health.to_json(), "files": m.files, "bytes": m.bytes, "snapshot": m.snapshot}
        for m, health in found
    ]
    many = is_pattern(args.table)
    shown = {"exit_code": int(code), "tables": [*tables, *failed]} if many else tables[0]
    output.result(shown, _lines(found, detailed=not many))
    return code


def _save(
    args: argparse.Namespace,
    history: SqlHistory,
    found: Sequence[tuple[Measurement, Health]],
    owners: Mapping[str, str | None],
    errors: Mapping[str, Exception],
    now: int,
) -> None:
    """Store status, scores and totals in the history, for the page; also why tables have no score.

    Dropped tables that the pattern selects are removed from it.
    """
    from paimon_maintenance.history.need_store import NeedStore, StoredScore  # noqa: PLC0415
    from paimon_maintenance.history.status import (  # noqa: PLC0415 - SQLAlchemy
        StatusStore,
        TableStatus,
        status_of,
    )

    place = (history, warehouse_of(args), args.branch or "main")
    status = StatusStore(*place)
    before = status.owners()
    status.put([status_of(m, health, owner=owners.get(m.table)) for m, health in found])
    status.put(
        [
            TableStatus(
                table=name,
                at_millis=now,
                owner=owners.get(name, before.get(name)),
                error=str(error),
                health={},
            )
            for name, error in errors.items()
            if not isinstance(error, NotFound)  # dropped since the listing
        ]
    )
    known = {m.table for m, _ in found}
    known |= {name for name, error in errors.items() if not isinstance(error, NotFound)}
    others = [n for n in before if n not in known and fnmatchcase(n, args.table)]
    open_table = partial(
        open_table_of, warehouse_of(args), branch=args.branch, file_io_options=storage_of(args)
    )
    status.forget(dropped_tables(others, open_table))
    NeedStore(*place).put({}, {m.table: StoredScore.of(m, health) for m, health in found})
    status.add_totals(now)


def _lines(found: list[tuple[Measurement, Health]], *, detailed: bool) -> Iterator[str]:
    width = max((len(health.name) for _, health in found), default=0)
    for measured, health in found:
        size = f"{counted(measured.files, 'files')}, {human_bytes(measured.bytes)}"
        yield f"{health.score:>4}  {health.color:6}  {health.name:{width}}  {size}"
        for reason in health.reasons if detailed else health.reasons[:1]:
            job = "" if reason.job is None else f" -> {reason.job}"
            yield f"      -{reason.points:.0f} {reason.text}{job}"
        unhealthy = [p for p in health.partitions if p.reasons and p.name]
        for partition in unhealthy[:_MOST_PARTITIONS] if detailed else ():
            yield f"      {partition.score:>4}  {partition.color:6}  {partition.name}"
        if detailed and len(unhealthy) > _MOST_PARTITIONS:
            yield f"      and {counted(len(unhealthy) - _MOST_PARTITIONS, 'more partitions')}"
    if not detailed:
        counts = colors(health for _, health in found)
        yield ", ".join(f"{number} {color}" for color, number in counts.items())
