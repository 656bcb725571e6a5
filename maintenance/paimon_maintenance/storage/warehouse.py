"""One spelling for one warehouse.

The history finds measurements, alerts, approvals and claims by the text of the warehouse, so
`/lake`, `/lake/` and a relative path must be one of it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from paimon_maintenance.storage.catalogs import catalog_name

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def canonical_warehouse(text: str) -> str:
    """The warehouse without slashes at its end; a folder of this machine with its full path.

    Symbolic links stay as they are: they may lead elsewhere tomorrow.
    """
    if not text or catalog_name(text) is not None:
        return text
    if _SCHEME.match(text):
        short = text.rstrip("/")
        return text if short.endswith(":") else short
    return str(Path(text).absolute())
