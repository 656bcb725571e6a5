"""`caretaker sql`: run SQL statements, one answer each; at a terminal, a prompt."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from paimon_core.errors import InvalidArgument
from paimon_maintenance.cli.options import MASTER_VARIABLE
from paimon_maintenance.cli.output import Output, to_json_text
from paimon_maintenance.cli.policy import policy_of
from paimon_maintenance.cli.target import storage_of, warehouse_of
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.storage.catalogs import catalog_of, defined_catalogs

if TYPE_CHECKING:
    from paimon_spark.sql.result import Result

_SETTINGS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.ansi.enabled": "true",
}


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Run the statements in order; after an error, continue only with -k."""
    from paimon_maintenance.cli.sql.call import JobProcedures  # noqa: PLC0415 - fast start
    from paimon_maintenance.engines.spark.engine import SparkEngine  # noqa: PLC0415 - fast start
    from paimon_spark.sql.errors import error_text, error_type  # noqa: PLC0415 - fast start
    from paimon_spark.sql.run import execute  # noqa: PLC0415 - fast start
    from paimon_spark.sql.session import SqlSession  # noqa: PLC0415 - fast start
    from paimon_spark.sql.text.splitter import split_statements  # noqa: PLC0415 - fast start

    interactive = args.execute is None and args.file is None and sys.stdin.isatty()
    # PySpark logs each refused query with the trace of the JVM; the answer says what is wrong.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # what it cannot parse, Spark judges
    spark = SparkEngine(
        master=args.master or os.environ.get(MASTER_VARIABLE),
        conf=dict(_SETTINGS),
        verbose=args.verbose > 0,
        queries=True,
    )
    session = SqlSession(
        warehouse=warehouse_of(args),
        start_spark=spark.session,
        storage=storage_of(args),
        procedures=JobProcedures(policy=policy_of(args)),
        defined=defined_catalogs(),
        open_catalog=catalog_of,
    )
    if interactive:
        from paimon_maintenance.cli.sql.prompt import read_statements  # noqa: PLC0415 - fast start

        statements: Iterable[str] = read_statements(session)
    else:
        statements = split_statements(_text(args))
    failed = False
    try:
        for i, statement in enumerate(statements):
            try:
                result = execute(session, statement)
            except Exception as e:  # noqa: BLE001 - the answer of this statement
                failed = True
                if output.json:
                    answer = {"statement": i, "error": error_text(e), "type": error_type(e)}
                    output.out.write(to_json_text(answer) + "\n")
                    output.out.flush()
                else:
                    output.note(f"error in statement {i + 1}: {error_type(e)}: {error_text(e)}")
                if not (args.keep_going or interactive):
                    break
            else:
                _print(i, result, output, aligned=interactive)
    finally:
        spark.close()
    return ExitCode.FAILURE if failed and not interactive else ExitCode.SUCCESS


def _text(args: argparse.Namespace) -> str:
    if args.execute is not None:
        return str(args.execute)
    if args.file is not None and args.file != "-":
        try:
            return Path(args.file).read_text("utf-8")
        except OSError as e:
            raise InvalidArgument(f"argument -f: cannot read {args.file}: {e.strerror}") from e
    return sys.stdin.read()


def _print(i: int, result: Result, output: Output, *, aligned: bool = False) -> None:
    if output.json:
        answer = {"statement": i, "columns": list(result.columns), "rows": list(result.rows)}
        output.out.write(to_json_text(answer) + "\n")
    elif aligned:
        from paimon_maintenance.cli.sql.prompt import table_text  # noqa: PLC0415 - fast start

        output.out.write(table_text(result))
    elif result.columns:
        output.out.write("\t".join(result.columns) + "\n")
        for row in result.rows:
            cells = (v if isinstance(v, str) else to_json_text(v) for v in row)
            output.out.write("\t".join(cells) + "\n")
    output.out.flush()
