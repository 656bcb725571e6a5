"""Which maintenance the catalog's own service does.

Paimon's API has no field for it: such services (managed REST catalogs) compact and expire on their
own schedule and do not announce it.  So the catalog's definition says it, in the option
`caretaker.maintained-jobs`: names of jobs, separated by commas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MAINTAINED_JOBS: Final = "caretaker.maintained-jobs"


def maintained_jobs(options: Mapping[str, str]) -> frozenset[str]:
    """The jobs that the option names; empty without it."""
    names = options.get(MAINTAINED_JOBS, "").replace("-", "_").split(",")
    return frozenset(name.strip() for name in names if name.strip())
