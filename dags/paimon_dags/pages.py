"""Which jobs have a DAG, and what their pages say beyond what the job itself knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One job's DAG.

    `schedule` is a cron expression, "" for a job that only runs by hand.  `defaults` are the form's
    where a schedule wants others than the procedure has.  `notes` is Markdown for the operator.
    """

    job: str
    schedule: str
    defaults: Mapping[str, object] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    """The arguments that the form opens with; the others wait in a section of their own."""
    notes: str = ""

    @property
    def dag_id(self) -> str:
        """The DAG's id: "caretaker_compact"."""
        return f"caretaker_{self.job}"


COMPACT = Page(
    job="compact",
    schedule="*/30 * * * *",
    # Paimon's procedure means full where nothing is said; every half hour that would rewrite
    # whole tables again and again.
    defaults={"strategy": "minor"},
    first=("strategy",),
    notes="""\
**Minor or full?** `minor` merges only what Paimon's own rules pick (many sorted runs, many small
files): cheap, for every half hour. `full` rewrites each bucket into its top level: dearer, drops
deleted rows, makes reading fastest; for a quiet hour, or limited by *partitions*, *where* or
*partition idle time*.
""",
)

PAGES = (COMPACT,)
