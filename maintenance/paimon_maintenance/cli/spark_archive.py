"""`caretaker spark-archive`: lets Spark start sooner."""

from __future__ import annotations

import argparse

from paimon_maintenance.cli.output import Output
from paimon_maintenance.engines.spark.class_archive import archive_folder, make_archive
from paimon_maintenance.engines.spark.jvm import driver_environment, in_environment
from paimon_maintenance.engines.spark.session import find_java
from paimon_maintenance.job.exit_codes import ExitCode


def run(args: argparse.Namespace, output: Output) -> ExitCode:  # noqa: ARG001 - as every command
    """Make the archive; ArchiveFailed if that is not possible here."""
    find_java()
    output.note("starting Spark once; this takes half a minute")
    with in_environment(driver_environment()):
        archive = make_archive(archive_folder())
    size = archive.stat().st_size
    output.result(
        {"exit_code": int(ExitCode.SUCCESS), "archive": str(archive), "bytes": size},
        [f"{archive}  {size / 1024**2:.0f} MB"],
    )
    return ExitCode.SUCCESS
