"""`caretaker verify TABLE`: checks that all files exist and are consistent."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from paimon_core.errors import InvalidArgument
from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.progress import progress_for
from paimon_maintenance.cli.target import look_at_tables
from paimon_maintenance.job.error_json import error_json
from paimon_maintenance.job.exit_codes import ExitCode, combined, exit_code_of
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.rules.tables import is_pattern

_MOST_FINDINGS = 50

if TYPE_CHECKING:
    from paimon_core.file_store_table import FileStoreTable
    from paimon_maintenance.verify.check import Scope, Verification


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print the findings; CORRUPT_TABLE if one of them is an error."""
    from paimon_maintenance.verify.check import check_table  # noqa: PLC0415 - fast start

    scope = _scope(args)

    def check(table: FileStoreTable) -> Verification:
        with progress_for(table.name, wanted=scope.deep) as bars:
            return check_table(table, scope, bars)

    shown: list[dict[str, object]] = []
    lines: list[str] = []
    codes: list[ExitCode] = []
    for name, verification in look_at_tables(args, output, check):
        if isinstance(verification, Exception):
            shown.append({"table": name, "error": error_json(verification)})
            codes.append(exit_code_of(verification))
            continue
        shown.append({"table": name, **verification.to_json()})
        lines += _lines(name, verification)
        codes.append(ExitCode.SUCCESS if verification.clean else ExitCode.CORRUPT_TABLE)
    code = combined(codes)
    many = is_pattern(args.table)
    output.result({"exit_code": int(code), "tables": shown} if many else shown[0], lines)
    return code


def _scope(args: argparse.Namespace) -> Scope:
    """The scope that the options select; InvalidArgument for contradicting options."""
    from paimon_maintenance.verify.check import Scope  # noqa: PLC0415 - fast start
    from paimon_maintenance.verify.deep import default_parallelism  # noqa: PLC0415 - fast start

    if args.deep and args.no_rows:
        raise InvalidArgument("--deep and --no-rows contradict each other: pass only one of them")
    if args.parallelism is not None and not args.deep:
        raise InvalidArgument("argument --parallelism: it requires --deep")
    return Scope(
        rows=not args.no_rows,
        keys=args.keys or args.deep,
        deep=args.deep,
        parallelism=args.parallelism or default_parallelism(),
    )


def _lines(name: str, verification: Verification) -> Iterator[str]:
    counts = ", ".join(
        f"{human_bytes(n) if what == 'bytes' else counted(n, 'records' if what == 'rows' else what)}"
        for what, n in verification.checked.items()
    )
    verdict = "clean" if verification.clean else "BROKEN"
    yield f"{name}: {verdict}; checked {counts}"
    for finding in verification.findings[:_MOST_FINDINGS]:
        yield f"  {finding.line()}"
    if len(verification.findings) > _MOST_FINDINGS:
        yield f"  ... and {len(verification.findings) - _MOST_FINDINGS:,} more (use --json for all)"
