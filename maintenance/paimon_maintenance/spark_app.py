"""The Spark application that maintains a batch of tables: `spark-submit ... spark_app.py`.

    --batch     the batch: a JSON file, local or in an object store
    --results   a folder that receives one JSON report per table, each as soon as it is there
    --lifeline  a pipe that the supervisor holds (`paimon_maintenance.engines.lifeline`): this
                process ends with it, and the batch, which may hold secrets, is deleted as soon as
                it was read
    --timezone  of the tables' writers (an IANA name), where it is not the machine's

The batch is never an argument, because every user of the machine can read those.  It is a list of
run requests (`paimon_maintenance.run.request.RunRequest`)::

    [{"job": "compact", "warehouse": "s3://lake", "table": "db.a",
      "arguments": {"strategy": "full"},
      "storage": {"s3.endpoint": "..."}, "guards": {"max_rewrite": "10 gb"}},
     {"job": "compact", "warehouse": "s3://lake", "table": "db.b"}]

Several tables run at the same time (`paimon_maintenance.run.many`); one that fails does not stop
the others.  The report on a table is `DB.TABLE.json` (`DB.TABLE.N.json` for its Nth run in one
batch, from the second on), written with the options of its request's "storage".  Its shape is that
of `caretaker run --json` (docs/cli.md), and so is the exit code, over all tables.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

if __name__ == "__main__":
    # spark-submit puts the folder of this file first on the path; its module
    # names would shadow others.
    _here = Path(__file__).resolve().parent
    sys.path[:] = [p for p in sys.path if not p or Path(p).resolve() != _here]
    # In a checkout, the two packages are in different folders.
    for _folder in (_here.parents[1], _here.parent):
        found = any((_folder / name).is_dir() for name in ("paimon_core", "paimon_maintenance"))
        if found and str(_folder) not in sys.path:
            sys.path.insert(0, str(_folder))

from paimon_core.errors import InvalidArgument
from paimon_maintenance.engines.lifeline import Supervised
from paimon_maintenance.engines.process import prepare_process
from paimon_maintenance.job.exit_codes import ExitCode, combined, exit_code_of
from paimon_maintenance.job.job import unsupervised
from paimon_maintenance.run.logs import set_up_logging
from paimon_maintenance.storage.options import options_of_environment

if TYPE_CHECKING:
    from paimon_maintenance.job.report import Report
    from paimon_maintenance.run.request import RunRequest
    from paimon_maintenance.run.runner import RunServices

logger = logging.getLogger("paimon_maintenance.spark_app")

_TABLES_AT_ONCE = 16
"""More than in other processes: most wait for Spark, and those that are small share its jobs."""

Batch = Sequence[Mapping[str, object]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the application and return its exit code."""
    parser = argparse.ArgumentParser(prog="spark_app.py", description=__doc__)
    parser.add_argument("--batch", required=True)
    parser.add_argument("--results", required=True)
    parser.add_argument("--lifeline", help="end with the process that holds this pipe")
    parser.add_argument("--timezone", help="of the tables' writers, as in Europe/Berlin")
    parser.add_argument("--master", help="when not started by spark-submit")
    args = parser.parse_args(argv)
    prepare_process()
    set_up_logging(logging.INFO, text_format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    supervised = None if args.lifeline is None else Supervised(args.lifeline)
    if supervised is not None:
        supervised.watch()
    try:
        batch = read_batch(args.batch)
        if supervised is not None:
            Path(args.batch).unlink()
        check = unsupervised if supervised is None else supervised.check
        return int(
            run_batch(
                batch,
                args.results,
                timezone=args.timezone,
                master=args.master,
                check_supervised=check,
            )
        )
    except Exception as e:
        logger.exception("the batch failed")
        return int(exit_code_of(e))


def read_batch(file: str) -> Batch:
    """The requests in this file, as JSON objects; InvalidArgument if it holds anything else.

    Messages never quote the content of the file, which may hold secrets.
    """
    from paimon_core.io.open import open_file_io  # noqa: PLC0415 - pyarrow

    try:
        io, path = open_file_io(file, options_of_environment())
        batch = json.loads(io.read_bytes(path))
    except json.JSONDecodeError as e:
        place = f"line {e.lineno}, column {e.colno}"
        raise InvalidArgument(f"the batch {file} is not JSON ({place}: {e.msg})") from None
    except FileNotFoundError as e:
        raise InvalidArgument(
            f"batch file {file} does not exist",
            next_step="pass a file that the driver can read; in cluster mode, ship it with --files",
        ) from e
    if not isinstance(batch, list) or not batch or not all(isinstance(r, dict) for r in batch):
        raise InvalidArgument("the batch must be a list of run requests, each a JSON object")
    return cast("Batch", batch)


def run_batch(
    batch: Batch,
    results: str,
    *,
    timezone: str | None = None,
    master: str | None = None,
    check_supervised: Callable[[], None] = unsupervised,
) -> ExitCode:
    """Run the whole batch and return the exit code over its tables."""
    from paimon_core.environment import system_environment  # noqa: PLC0415 - needs the path
    from paimon_maintenance.engines.combine import Combiner  # noqa: PLC0415 - needs the path
    from paimon_maintenance.engines.spark.engine import SparkEngine  # noqa: PLC0415 - needs the path
    from paimon_maintenance.run.many import run_tables  # noqa: PLC0415 - needs the path
    from paimon_maintenance.run.runner import RunServices  # noqa: PLC0415 - needs the path

    codes: list[ExitCode] = []
    spark = SparkEngine(master=master, combiner=Combiner())
    services = RunServices(
        engine=spark,
        spark=spark,
        env=system_environment(timezone),
        check_supervised=check_supervised,
    )
    seen: Counter[str] = Counter()
    numbers: dict[int, int] = {}
    requests: list[RunRequest] = []

    def done(report: Report, number: int, storage: Mapping[str, str]) -> None:
        _write(results, report, number, storage)
        codes.append(report.exit_code)
        logger.info("%s", "\n".join(report.lines()))

    try:
        for parts in batch:
            table = str(parts.get("table"))
            seen[table] += 1
            request = _request(parts)
            if isinstance(request, Exception):
                done(_refused(parts, request, services), seen[table], _storage(parts))
            else:
                numbers[id(request)] = seen[table]
                requests.append(request)
        for request, report in run_tables(requests, services, at_once=_TABLES_AT_ONCE):
            done(report, numbers[id(request)], request.file_io_options or {})
    finally:
        spark.close()
    return combined(codes)


def _request(parts: Mapping[str, object]) -> RunRequest | Exception:
    """One request of the batch, or why it cannot be read; the other requests still run."""
    from paimon_maintenance.registry import job_named  # noqa: PLC0415 - needs the path
    from paimon_maintenance.run.request import RunRequest  # noqa: PLC0415 - as above

    try:
        request = RunRequest.from_json(parts, job_named)
    except InvalidArgument as e:
        return e
    return replace(request, file_io_options=_storage(parts))


def _storage(parts: Mapping[str, object]) -> dict[str, str]:
    """The options of the environment, then those of the request."""
    storage = parts.get("storage")
    own = {str(k): str(v) for k, v in storage.items()} if isinstance(storage, Mapping) else {}
    return {**options_of_environment(), **own}


def _refused(parts: Mapping[str, object], error: Exception, services: RunServices) -> Report:
    from paimon_maintenance.job.report import Report, Status  # noqa: PLC0415 - needs the path

    return Report(
        job=str(parts.get("job")),
        table=str(parts.get("table")),
        warehouse=str(parts.get("warehouse")),
        run_id=str(parts.get("run_id") or services.env.new_uuid()),
        status=Status.FAILED,
        error=error,
    )


def _write(results: str, report: Report, nth: int, storage: Mapping[str, str]) -> None:
    """Write the report atomically."""
    from paimon_core.io.open import open_file_io  # noqa: PLC0415 - needs the path

    io, root = open_file_io(results, storage)
    name = f"{report.table.replace('/', '_')}{'' if nth == 1 else f'.{nth}'}.json"
    text = json.dumps(report.to_json(), default=str)  # in ASCII: a name need not be UTF-8
    io.overwrite(f"{root}/{name}", text.encode())


if __name__ == "__main__":
    sys.exit(main())
