"""The definition of `compact_manifest`: name, arguments and help.  Imports nothing heavy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paimon_maintenance.job import common_arguments
from paimon_maintenance.job.job import Job, steps_of

OPTIONS: Final = replace(common_arguments.OPTIONS, example="manifest.target-file-size=16 mb")

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
