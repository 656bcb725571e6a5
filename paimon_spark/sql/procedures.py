"""The procedures that `CALL` runs: a protocol that `maintenance` implements with its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from paimon_spark.sql.result import Result

Given = Sequence[tuple[str | None, object]]
"""Arguments in their order: the name, None for a positional one, and the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSite:
    """Where a procedure is called: names without a database lie in `database`.

    `storage` are the session's dynamic options of the store and the tables, `parallelism` what the
    session has set as `spark.default.parallelism`.
    """

    warehouse: str
    database: str
    storage: Mapping[str, str] = field(default_factory=dict)
    parallelism: str | None = None


class Procedures(Protocol):
    """Procedures by Paimon's names."""

    def names(self) -> Sequence[str]:
        """All procedures, sorted."""

    def call(self, name: str, given: Given, site: CallSite) -> Result:
        """Run the procedure.  AnalysisError for an unknown name, or an unknown argument; also
        raises the errors of the job.
        """
