"""What a terminal sees of the JVM's standard error."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paimon_maintenance.engines.spark.output import StartupOutput

NOISE = "import sys; print('WARN noise', file=sys.stderr)"
LATER = (
    "import sys; print('WARN noise', file=sys.stderr, flush=True); sys.stdin.readline(); "
    "print('later', file=sys.stderr)"
)


def test_a_failed_start_prints_everything(capfd: pytest.CaptureFixture[str]) -> None:
    output = StartupOutput()
    subprocess.run([sys.executable, "-c", NOISE], stderr=output.write_end, check=True)
    assert capfd.readouterr().err == ""
    output.close_write_end()
    output.release()
    assert capfd.readouterr().err == "WARN noise\n"


def test_a_started_session_hides_the_start_and_forwards_the_rest(
    capfd: pytest.CaptureFixture[str],
) -> None:
    output = StartupOutput()
    with subprocess.Popen(
        [sys.executable, "-c", LATER], stdin=subprocess.PIPE, stderr=output.write_end
    ) as child:
        output.close_write_end()
        while b"noise\n" not in output._held:
            assert child.poll() is None
        output.discard()
        child.communicate(b"\n")
    output._pump.join(10)
    assert capfd.readouterr().err == "later\n"
