"""The definition of `compact_manifest`: name, arguments and help.  Imports nothing heavy."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.job import Job, steps_of

OPTIONS = Argument(
    name="options",
    flag="option",
    aliases=("option",),
    kind=Kind.OPTIONS,
    default={},
    help="table options for this run only: key=value; repeatable",
    example="manifest.target-file-size=16 mb",
)

COMPACT_MANIFEST: Final = Job(
    name="compact_manifest",
    summary="merge manifests and drop entries of deleted files",
    changes="Commits one COMPACT snapshot with the same files in fewer manifests.",
    protects="Does not change data files.",
    undo="Not needed: the table content is the same.",
    arguments=(OPTIONS,),
    examples=("caretaker run compact_manifest db.orders -w /lake",),
    load=steps_of("paimon_maintenance.jobs.compact_manifest.steps:STEPS"),
    rewrites=False,
    retry_safe=True,
)
