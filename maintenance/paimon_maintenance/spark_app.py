"""The Spark application that maintains a batch of tables: `spark-submit maintenance/paimon_maintenance/spark_app.py`.

    --batch     the batch: a JSON file, local or in an object store
    --results   a folder that receives one JSON report per table
    --lifeline  a pipe that the supervisor holds (`paimon_maintenance.engines.lifeline`): this process
                ends with the supervisor, and deletes the batch file, which may hold secrets, after
                reading it

The batch is a file, not an argument, because every user of the machine can read arguments.

The batch::

    {"warehouse": "s3://lake", "storage": {"s3.endpoint": "..."}, "job": "compact",
     "arguments": {"strategy": "full"}, "force": false, "timezone": null,
     "tables": ["db.a", "db.b"],
     "runs": [{"table": "db.c", "arguments": {"strategy": "minor"}}]}

"tables" are runs without settings of their own.  The other fields are defaults for all runs; a run
can override them and can set its "run_id".  A failed table does not stop the others.  The report of
a table is `DB.TABLE.json` (`DB.TABLE.N.json` for the Nth run in one batch, from the second on).  It
has the format of `caretaker run --json` (docs/cli.md).  The exit code covers all tables.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if __name__ == "__main__":
    # spark-submit puts the folder of this file first on the path; its module names would shadow others.
    _here = Path(__file__).resolve().parent
    sys.path[:] = [p for p in sys.path if not p or Path(p).resolve() != _here]
    # In a checkout, the two packages are in different folders.
    for _folder in (_here.parents[1], _here.parent):
        found = any((_folder / name).is_dir() for name in ("paimon_core", "paimon_maintenance"))
        if found and str(_folder) not in sys.path:
            sys.path.insert(0, str(_folder))

from paimon_core.errors import InvalidArgument
from paimon_maintenance.engines.lifeline import Supervised
from paimon_maintenance.job.exit_codes import ExitCode, combined, exit_code_of
from paimon_maintenance.job.job import DEFAULT_MAX_ATTEMPTS, unsupervised
from paimon_maintenance.storage.options import options_of_environment

if TYPE_CHECKING:
    from paimon_maintenance.job.report import Report
    from paimon_maintenance.run.runner import RunRequest, RunServices

logger = logging.getLogger("paimon_maintenance.spark_app")

_SHARED = (
    "warehouse",
    "storage",
    "job",
    "arguments",
    "branch",
    "force",
    "dry_run",
    "verify",
    "max_attempts",
    "guards",
    "default_options",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the application and return its exit code."""
    parser = argparse.ArgumentParser(prog="spark_app.py", description=__doc__)
    parser.add_argument("--batch", required=True)
    parser.add_argument("--results", required=True)
    parser.add_argument("--lifeline", help="end when the process that holds this pipe ends")
    parser.add_argument(
        "--master", help="Spark master, if spark-submit does not start this process"
    )
    args = parser.parse_args(argv)
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    supervised = None if args.lifeline is None else Supervised(args.lifeline)
    if supervised is not None:
        supervised.watch()
    try:
        batch = read_batch(args.batch)
        if supervised is not None:
            Path(args.batch).unlink()
        check = unsupervised if supervised is None else supervised.check
        return int(run_batch(batch, args.results, master=args.master, check_supervised=check))
    except Exception as e:
        logger.exception("the batch failed")
        return int(exit_code_of(e))


def read_batch(file: str) -> Mapping[str, object]:
    """The batch in this file; InvalidArgument for an invalid file.

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
    if not isinstance(batch, dict) or not runs_of(batch):
        raise InvalidArgument('the batch must be an object with a list of "tables" or "runs"')
    return cast("Mapping[str, object]", batch)


def runs_of(batch: Mapping[str, object]) -> list[Mapping[str, object]]:
    """All runs of the batch, starting with "tables"."""
    tables = cast("Sequence[str]", batch.get("tables") or ())
    runs = cast("Sequence[Mapping[str, object]]", batch.get("runs") or ())
    return [*({"table": table} for table in tables), *runs]


def run_batch(
    batch: Mapping[str, object],
    results: str,
    *,
    master: str | None = None,
    check_supervised: Callable[[], None] = unsupervised,
) -> ExitCode:
    """Run the whole batch and return the exit code over its tables."""
    from paimon_maintenance.engines.spark import SparkEngine  # noqa: PLC0415 - needs the path
    from paimon_maintenance.run.environment import system_environment  # noqa: PLC0415 - needs the path
    from paimon_maintenance.run.runner import RunServices, run_table  # noqa: PLC0415 - needs the path

    zone = batch.get("timezone")
    env = system_environment(str(zone) if zone else None)
    codes = []
    written: Counter[str] = Counter()
    engine = SparkEngine(master=master)
    services = RunServices(engine=engine, env=env, check_supervised=check_supervised)
    try:
        for run in runs_of(batch):
            request = _request(batch, run)
            if isinstance(request, Exception):
                report = _refused(batch, run, request, services)
            else:
                engine.parallelism = cast("int | None", request.arguments.get("parallelism"))
                report = run_table(request, services)
            written[report.table] += 1
            _write(results, report, written[report.table], _text_map(batch.get("result_storage")))
            codes.append(report.exit_code)
            logger.info("%s", "\n".join(report.lines()))
    finally:
        engine.close()
    return combined(codes)


def _request(batch: Mapping[str, object], run: Mapping[str, object]) -> RunRequest | Exception:
    """The request of one run, or the error in it."""
    from paimon_maintenance.policy.limits import guards_of  # noqa: PLC0415 - needs the path
    from paimon_maintenance.policy.model import GuardPolicy  # noqa: PLC0415 - as above
    from paimon_maintenance.registry import job_named  # noqa: PLC0415 - as above
    from paimon_maintenance.run.runner import RunRequest  # noqa: PLC0415 - as above

    settings = {name: run.get(name, batch.get(name)) for name in _SHARED}
    try:
        job = job_named(str(settings["job"]))
        arguments = {
            **cast("Mapping[str, object]", batch.get("arguments") or {}),
            **cast("Mapping[str, object]", run.get("arguments") or {}),
        }
        return RunRequest(
            job=job,
            warehouse=str(settings["warehouse"]),
            table=str(run["table"]),
            arguments=job.read_arguments(arguments),
            branch=cast("str | None", settings["branch"]),
            file_io_options={**options_of_environment(), **_text_map(settings["storage"])},
            dry_run=bool(settings["dry_run"]),
            force=bool(settings["force"]),
            verify=settings["verify"] is not False,
            default_options=_text_map(settings["default_options"]),
            guards=guards_of(GuardPolicy(**cast("dict[str, Any]", settings["guards"] or {}))),
            max_attempts=int(cast("int", settings["max_attempts"] or DEFAULT_MAX_ATTEMPTS)),
            run_id=cast("str | None", run.get("run_id")),
        )
    except (InvalidArgument, KeyError) as e:
        return e
    except (TypeError, ValueError) as e:  # the runs beside it are not to blame
        return InvalidArgument(f"a run of the batch has an invalid value: {e}")


def _refused(
    batch: Mapping[str, object],
    run: Mapping[str, object],
    error: Exception,
    services: RunServices,
) -> Report:
    from paimon_maintenance.job.report import Report, Status  # noqa: PLC0415 - needs the path

    return Report(
        job=str(run.get("job", batch.get("job"))),
        table=str(run.get("table")),
        warehouse=str(run.get("warehouse", batch.get("warehouse"))),
        run_id=str(run.get("run_id") or services.env.new_uuid()),
        status=Status.FAILED,
        error=error,
    )


def _text_map(value: object) -> dict[str, str]:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else {}


def _write(results: str, report: Report, nth: int, storage: Mapping[str, str]) -> None:
    """Write the report atomically."""
    from paimon_core.io.open import open_file_io  # noqa: PLC0415 - needs the path

    io, root = open_file_io(results, {**options_of_environment(), **storage})
    name = f"{report.table.replace('/', '_')}{'' if nth == 1 else f'.{nth}'}.json"
    text = json.dumps(report.to_json(), ensure_ascii=False, default=str)
    io.overwrite(f"{root}/{name}", text.encode())


if __name__ == "__main__":
    sys.exit(main())
