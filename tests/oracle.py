"""The live Java oracle and its Flink, for tests of both directions.

One process per version of Paimon stays open for the whole test session; the fixtures are in
`conftest.py`.  Steps, answers and values are described in the oracle's README.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
VERSIONS = ("1.4.2", "2.0.0")
OPTIONS = "-Xmx2g -Xmn32m"
"""A small young generation: fresh memory costs more than its collections."""
STEP_SECONDS = 600.0
FLINK_SECONDS = 600.0

Step = Mapping[str, Any]
Answer = dict[str, Any]


class OracleError(AssertionError):
    """A step failed in Java; `answer` is all it said."""

    def __init__(self, step: Step, answer: Answer) -> None:
        super().__init__(
            f"{step.get('op')}: {answer.get('type')}: {answer.get('error')}"
            f" (cause: {answer.get('cause')})"
        )
        self.answer = answer


def folder() -> Path:
    """Where the oracle lives, there or not: beside the checkout, or where CARETAKER_ORACLE says."""
    return Path(os.environ.get("CARETAKER_ORACLE") or CHECKOUT.parent / "shared" / "oracle")


def skip_without() -> None:
    """Skip the test, with the reason, where there is no oracle."""
    reason = _why_absent()
    if reason is not None:
        pytest.skip(reason)


def _why_absent() -> str | None:
    """Why there is no oracle here; None if there is one.

    Where the oracle is laid out but its tools are missing, tests fail rather than skip on CI, so
    that a green run never hides that the comparison with Java did not take place.
    """
    if not (folder() / "oracle").exists():
        return f"no oracle in {folder()}"
    missing = [tool for tool in ("java", "javac", "flock", "mvn") if shutil.which(tool) is None]
    if missing and not os.environ.get("CI"):
        return f"the oracle needs {', '.join(missing)}"
    return None


def end_jvm(process: subprocess.Popen[bytes]) -> None:
    """Ends a JVM by SIGTERM: some libraries leave threads that outlive the end of its input."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


class OracleProcess:
    """One open oracle.  Write a line, read a line; dies with the session.

    With `hive`, Hive's client is on its class path.
    """

    def __init__(self, version: str, *, hive: bool = False) -> None:
        self.version = version
        # A file and not a pipe: nobody reads it unless something goes wrong.
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        options = os.environ.get("PAIMON_ORACLE_OPTS", OPTIONS)
        self._process = subprocess.Popen(
            [str(folder() / "oracle"), "-k", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ
            | {
                "PAIMON_ORACLE_VERSION": version,
                "PAIMON_ORACLE_OPTS": options,
                "PAIMON_ORACLE_HIVE": "1" if hive else "",
            },
        )
        self._rest = b""

    def ask(self, step: Step, *, seconds: float = STEP_SECONDS) -> Answer:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(step).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._fail("the oracle has ended")
        answer: Answer = json.loads(self._read_line(seconds))
        return answer

    def _read_line(self, seconds: float) -> bytes:
        assert self._process.stdout is not None
        parts, self._rest = [self._rest], b""
        until = time.monotonic() + seconds
        while b"\n" not in parts[-1]:
            ready, _, _ = select.select(
                [self._process.stdout], [], [], max(0.0, until - time.monotonic())
            )
            if not ready:
                self._fail(f"the oracle gave no answer within {seconds:.0f} s")
            part = os.read(self._process.stdout.fileno(), 1 << 20)
            if not part:
                self._fail("the oracle has ended")
            parts.append(part)
        line, self._rest = b"".join(parts).split(b"\n", 1)
        return line

    def _fail(self, reason: str) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.seek(0)
        tail = self._errors.read()[-4000:].decode(errors="replace")
        raise AssertionError(f"{reason} (exit {self._process.returncode})\n{tail}")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        end_jvm(self._process)
        self._errors.close()


class Oracle:
    """One test's view of an open oracle: ``oracle([{"op": "read", ...}, ...])``.

    Defaults are this test's own; the process behind never learns them.
    """

    def __init__(self, process: OracleProcess) -> None:
        self._process = process
        self._defaults: dict[str, Any] = {}

    @property
    def version(self) -> str:
        return self._process.version

    def defaults(self, **fields: Any) -> Oracle:
        """Adds fields to every later step of this test: warehouse, database, table, ..."""
        self._defaults |= {
            name: str(value) if isinstance(value, Path) else value for name, value in fields.items()
        }
        return self

    def copy(self, **fields: Any) -> Oracle:
        """Another view of the same process, with these defaults on top of this one's."""
        return Oracle(self._process).defaults(**self._defaults).defaults(**fields)

    def __call__(self, steps: Sequence[Step], *, check: bool = True) -> list[Answer]:
        """Runs the steps and gives an answer for each; OracleError at the first failed one.

        With `check=False` failed steps answer ``{"op", "error", "type", ...}`` and the rest goes on.
        """
        answers = []
        for step in steps:
            answer = self._process.ask(self._defaults | dict(step))
            if check and "error" in answer:
                raise OracleError(step, answer)
            answers.append(answer)
        return answers

    def one(self, op: str, **fields: Any) -> Answer:
        """Runs a single step."""
        (answer,) = self([{"op": op, **fields}])
        return answer

    def rows(self, **fields: Any) -> list[list[Any]]:
        """The rows ``[kind, value, ...]`` of a read, sorted by their text unless asked otherwise."""
        rows: list[list[Any]] = self.one("read", **fields)["rows"]
        return rows


class RestServer:
    """The REST catalog server of Paimon's own tests; it forgets everything at its end.

    `options` open a catalog of it, for us and for the oracle.  `arguments` are those of the
    script `rest-server`.
    """

    def __init__(self, place: Path, *arguments: str) -> None:
        self._log = place / "requests.jsonl"
        (place / "lake").mkdir(parents=True)
        self._errors = (place / "errors.txt").open("wb")
        self._process = subprocess.Popen(
            [
                str(folder() / "rest-server"),
                str(place / "lake"),
                "--log",
                str(self._log),
                *arguments,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | {"PAIMON_ORACLE_OPTS": "-Xmx512m"},
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, (place / "errors.txt").read_text(errors="replace")[-4000:]
        self.ready: dict[str, str] = json.loads(line)

    @property
    def options(self) -> dict[str, str]:
        return {
            "metastore": "rest",
            "uri": self.ready["uri"],
            "warehouse": self.ready["warehouse"],
            "token.provider": "bear",
            "token": self.ready["token"],
        }

    def requests(self) -> list[dict[str, Any]]:
        """All requests so far, with their answers."""
        lines = self._log.read_text(encoding="utf-8").splitlines() if self._log.exists() else []
        return [json.loads(line) for line in lines]

    def end(self) -> None:
        end_jvm(self._process)
        self._errors.close()


class FlinkSql:
    """Runs SQL scripts in a local Flink with the official connector; a start costs some 8 s."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch

    def __call__(
        self, script: str, *, streaming: bool = False, seconds: float = FLINK_SECONDS
    ) -> list[str]:
        """Runs the script to its end; the lines it printed.  AssertionError if a statement failed."""
        with self.start(script, streaming=streaming) as job:
            job.wait(seconds)
            lines = job.lines()
        assert job.returncode == 0, "\n".join([*lines[-20:], job.errors()])
        return lines

    @contextmanager
    def start(self, script: str, *, streaming: bool = True) -> Iterator[FlinkJob]:
        """Starts the script and goes on; it is ended with the block.  For writers beside ours."""
        folder_ = Path(tempfile.mkdtemp(dir=self._scratch))
        job = FlinkJob(folder_, script, streaming=streaming)
        try:
            yield job
        finally:
            job.end()


class FlinkJob:
    """A running Flink with its script."""

    def __init__(self, place: Path, script: str, *, streaming: bool) -> None:
        self._output, self._errors = place / "out.txt", place / "err.txt"
        (place / "script.sql").write_text(script, encoding="utf-8")
        with self._output.open("wb") as out, self._errors.open("wb") as err:
            self._process = subprocess.Popen(
                [
                    str(folder() / "flink-sql"),
                    *(["--streaming"] if streaming else []),
                    str(place / "script.sql"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=os.environ
                | {"PAIMON_ORACLE_OPTS": os.environ.get("PAIMON_ORACLE_OPTS", OPTIONS)},
            )

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    def lines(self) -> list[str]:
        return self._output.read_text(encoding="utf-8", errors="replace").splitlines()

    def errors(self) -> str:
        return self._errors.read_text(encoding="utf-8", errors="replace")[-4000:]

    def wait(self, seconds: float = FLINK_SECONDS) -> int:
        """Waits for the script's end and gives its exit code."""
        try:
            return self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.end()
            raise AssertionError(
                f"Flink did not end within {seconds:.0f} s\n{self.errors()}"
            ) from None

    def wait_for(self, text: str, seconds: float = FLINK_SECONDS) -> None:
        """Waits until a printed line holds the text; AssertionError if it ends or fails before."""
        until = time.monotonic() + seconds
        while not any(text in line for line in self.lines()):
            assert self.returncode is None, "\n".join([*self.lines()[-20:], self.errors()])
            assert time.monotonic() < until, f"no {text!r} within {seconds:.0f} s\n{self.errors()}"
            time.sleep(0.2)

    def end(self) -> None:
        end_jvm(self._process)
