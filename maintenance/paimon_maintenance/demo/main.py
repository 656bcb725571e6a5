"""`./caretaker demo`: creates a lake in bad shape, and maintains it with Airflow and Spark."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from paimon_core.errors import InvalidArgument, NotFound, PaimonError
from paimon_maintenance.demo.airflow import (
    USER,
    VIEWER,
    AirflowFailed,
    AirflowHome,
    Client,
    report_of,
    start_airflow,
    trigger,
    wait_for_run,
    wait_until_ready,
)
from paimon_maintenance.demo.child_process import ChildProcess
from paimon_maintenance.demo.cores import demo_cores
from paimon_maintenance.demo.lake import WriteVolume
from paimon_maintenance.demo.measure import Measure, measure
from paimon_maintenance.demo.policy import write_policy
from paimon_maintenance.demo.screen import Screen
from paimon_maintenance.job.exit_codes import ExitCode, exit_code_of
from paimon_maintenance.job.text import human_bytes

if TYPE_CHECKING:
    from paimon_maintenance.demo.story import Story

ROOT: Final = Path(__file__).resolve().parents[3]
DAG_ID: Final = "caretaker_compact"
INTERRUPTED: Final = 130
_LOOK_SECONDS: Final = 2.0
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """The user interrupts the demo."""


def run(argv: Sequence[str]) -> int:
    """Run the demo and return its exit code: 0 on success, 130 if it was interrupted early."""
    args = _parser().parse_args(argv)
    screen = Screen()
    _on_signals(_interrupt)
    try:
        return int(_demo(args, screen))
    except Interrupted:
        screen.say("Interrupted. All processes of the demo have ended.")
        return INTERRUPTED
    except (PaimonError, OSError) as e:
        screen.warn(f"demo: {e}")
        return int(exit_code_of(e))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="caretaker demo",
        description="Creates a lake of unhealthy tables, starts Airflow, and triggers the DAG "
        f"{DAG_ID} to compact the two largest on Spark. The scheduler heals the others, except for "
        "what only people may do: the demo does that, too, and one rescale waits in Airflow for your "
        "approval. Tag, expiry, rescale and orphan file jobs run. The page in Airflow shows all of it. "
        "Airflow keeps running until Ctrl-C. Takes two to six minutes and about 2 GB of memory.",
    )
    parser.add_argument(
        "--exit", action="store_true", help="approve the rescale, and exit when the demo is done"
    )
    parser.add_argument(
        "--warehouse", metavar="PATH", help="use an existing warehouse instead of a new one"
    )
    parser.add_argument(
        "--table",
        metavar="DB.TABLE",
        help="the table in --warehouse to compact; replaces its files but keeps its rows",
    )
    parser.add_argument("--port", type=int, help="Airflow's port (default: 8080, or a free one)")
    parser.add_argument(
        "--strategy", choices=("full", "minor"), default="full", help="(default: full)"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the lake and the logs of Airflow on disk"
    )
    return parser


def _demo(args: argparse.Namespace, screen: Screen) -> ExitCode:
    if (args.warehouse is None) != (args.table is None):
        raise InvalidArgument("--warehouse and --table must be set together")
    if not (ROOT / "dags" / "caretaker.py").is_file():
        raise InvalidArgument(
            "the demo needs the DAG file of a checkout",
            next_step="run ./caretaker demo in a checkout",
        )
    with _folder(screen, keep=args.keep) as folder, ExitStack() as running:
        own = args.warehouse is None
        warehouse = str(folder / "lake") if own else _absolute(args.warehouse)
        before = {} if own else _measured(warehouse, [args.table])
        policy = write_policy(folder) if own else None
        airflow, place = start_airflow(
            folder / "airflow",
            root=ROOT,
            warehouse=warehouse,
            policy=policy,
            port=args.port,
            cores=demo_cores(),
        )
        running.callback(_uninterrupted, airflow.stop)
        screen.say(f"Airflow starts in the background (log: {airflow.log}).")
        if own:
            before = _make_lake(warehouse, folder, screen)
        client = Client(place)
        with screen.step("Starting Airflow: scheduler, DAG processor, API server") as step:
            wait_until_ready(airflow, client, DAG_ID, step.update)
            step.done("Airflow is running")
        story = None
        if policy is not None:
            from paimon_maintenance.demo.story import Story  # noqa: PLC0415 - pyarrow, SQLAlchemy

            story = Story(
                screen=screen,
                airflow=airflow,
                client=client,
                place=place,
                warehouse=warehouse,
                policy=policy,
            )
            story.measure()
        with screen.step(f"Running DAG {DAG_ID}") as step:
            conf = {
                "warehouse": warehouse,
                "tables": list(before),
                "strategy": args.strategy,
            }
            run_id = trigger(client, DAG_ID, conf)
            state = wait_for_run(airflow, client, DAG_ID, run_id, step.update)
            step.done(f"DAG {DAG_ID} ended with {state}")
        after = _measured(warehouse, list(before))
        code = _tell(screen, before, after, state, report_of(client, DAG_ID, run_id))
        if story is not None and code is ExitCode.SUCCESS:
            code = story.go_on()
            if args.exit:
                story.approve()
            found = story.finish()
            code = code or (found if args.exit else ExitCode.SUCCESS)
        if not args.exit:
            _stay(screen, airflow, place, run_id, story)
        with screen.step("Stopping Airflow") as step:
            _uninterrupted(airflow.stop)
            step.done("Airflow has stopped")
        return code


def _make_lake(warehouse: str, folder: Path, screen: Screen) -> dict[str, Measure]:
    from paimon_maintenance.demo import lake, story  # noqa: PLC0415 - pyarrow, after the arguments are checked

    made = WriteVolume()
    with screen.step(
        f"Creating a lake: {made.writers} writers commit to {' and '.join(lake.TABLES)}"
    ) as step:
        lake.create_tables(warehouse)
        _write(warehouse, folder, made, step.update)
        before = _measured(warehouse, lake.TABLES)
        files = sum(m.files for m in before.values())
        step.done(f"Created a lake of {files} files in {made.all_commits} commits: {warehouse}")
    story.make_tables(warehouse, screen)
    return before


def _write(warehouse: str, folder: Path, made: WriteVolume, tell: Callable[[str], None]) -> None:
    """Run all writers concurrently and wait for them."""
    env = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'maintenance'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    with ExitStack() as running:
        writers: list[ChildProcess] = []
        for number in range(made.writers):
            command = [sys.executable, "-m", "paimon_maintenance.demo.lake", warehouse]
            command += [str(number), str(made.commits)]
            writer = ChildProcess(command, env=env, log=folder / f"writer-{number}.log")
            running.callback(_uninterrupted, writer.stop)
            writers.append(writer)
        while any(writer.exit_code is None for writer in writers):
            done = sum(writer.log.read_bytes().count(b"\n") for writer in writers)
            tell(f"{done} of {made.all_commits} commits")
            time.sleep(0.5)
    for writer in writers:
        if writer.exit_code != 0:
            raise AirflowFailed(f"a writer of the demo failed:\n{writer.tail()}", next_step="")


def _measured(warehouse: str, tables: Sequence[str]) -> dict[str, Measure]:
    return {table: measure(warehouse, table) for table in tables}


def _tell(
    screen: Screen,
    before: Mapping[str, Measure],
    after: Mapping[str, Measure],
    state: str,
    report: Mapping[str, Any],
) -> ExitCode:
    """Show the results before and after; FAILURE if the run failed or a row changed."""
    code = ExitCode.SUCCESS if state == "success" else ExitCode.FAILURE
    for table, reason in {**(report.get("failed") or {}), **(report.get("refused") or {})}.items():
        screen.warn(f"{table}: {reason}")
    for table, old in before.items():
        new = after[table]
        rows = [
            ["snapshot", str(old.snapshot), str(new.snapshot)],
            ["files", f"{old.files:,}", f"{new.files:,}"],
            ["bytes", human_bytes(old.bytes), human_bytes(new.bytes)],
            ["full read", f"{old.seconds:.2f} s", f"{new.seconds:.2f} s"],
            ["rows", f"{old.rows:,}", f"{new.rows:,}"],
            ["row checksum", old.checksum, new.checksum],
        ]
        if old.sorted_runs is not None and new.sorted_runs is not None:
            runs = [f"{old.sorted_runs:.1f}", f"{new.sorted_runs:.1f}"]
            rows.insert(2, ["sorted runs per bucket", *runs])
        screen.table(table, ["", "before", "after"], rows)
        if not old.same_rows(new):
            # Other writers may write to an existing table.
            screen.warn(f"{table}: the rows differ (expected only with concurrent writers)")
            code = ExitCode.FAILURE
    if code is ExitCode.SUCCESS:
        fewer = any(after[table].files < old.files for table, old in before.items())
        screen.say("The same rows, in fewer files." if fewer else "Nothing to do: no change.")
    return code


def _stay(
    screen: Screen, airflow: ChildProcess, place: AirflowHome, run_id: str, story: Story | None
) -> None:
    """Print the links and what a person has to decide, and wait for Ctrl-C."""
    screen.say("")
    run_page = f"{place.url}/dags/{DAG_ID}/runs/{run_id}"
    screen.say(f"Page:     {place.url}/plugin/caretaker")
    screen.say(f"Airflow:  {run_page}")
    screen.say(f"Report:   {run_page}/tasks/report/rendered_templates")
    screen.say(f"Login:    {USER} / {place.password}")
    screen.say(f"          {VIEWER} / {place.viewer_password} (read-only)")
    if story is not None:
        story.say_what_waits()
    screen.say("Press Ctrl-C to stop everything.")
    waits = story
    try:
        while airflow.exit_code is None:
            time.sleep(_LOOK_SECONDS)
            if waits is not None and waits.is_answered():
                waits.finish()
                waits = None
    except Interrupted:
        screen.say("")
        return
    raise AirflowFailed(f"Airflow ended unexpectedly:\n{airflow.tail()}")


@contextmanager
def _folder(screen: Screen, *, keep: bool) -> Iterator[Path]:
    """A folder for lake, Airflow and logs; deleted at the end unless `keep` is set."""
    folder = Path(tempfile.mkdtemp(prefix="caretaker-demo-"))
    try:
        yield folder
    except (InvalidArgument, NotFound):
        raise  # invalid arguments: the folder is empty
    except (PaimonError, OSError):
        keep = True
        raise
    finally:
        if keep:
            screen.say(f"Lake and logs remain in {folder}.")
        else:
            _uninterrupted(lambda: shutil.rmtree(folder, ignore_errors=True))


def _absolute(warehouse: str) -> str:
    """The warehouse for other processes: makes a path absolute, keeps a URL."""
    return warehouse if "://" in warehouse else str(Path(warehouse).resolve())


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise Interrupted


def _on_signals(handler: Any) -> None:
    for number in _ENDING:
        signal.signal(number, handler)


def _uninterrupted(do: Callable[[], object]) -> None:
    """Run a function without interruption: the demo is already ending."""
    _on_signals(signal.SIG_IGN)
    try:
        do()
    finally:
        _on_signals(_interrupt)
