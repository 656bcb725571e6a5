"""Checks that the packs exist that hold the BLOBs of primary-key tables."""

from __future__ import annotations

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.blob.pack_references import pack_paths
from paimon_core.io.file_io import FileIO
from paimon_core.io.read_retry import read_whole
from paimon_core.names import Boundary
from paimon_maintenance.verify.inventory import Inventory


def wrong_packs(io: FileIO, sidecar: str, boundary: Boundary, inventory: Inventory) -> list[str]:
    """What is wrong with the packs in this list: missing ones, or the list itself is damaged.

    Packs outside the table's folders are not looked for; reading them is refused.
    """
    try:
        packs = pack_paths(read_whole(io, sidecar))
    except FileNotFoundError:
        return []  # gone since it was listed: its reference has expired
    except (CorruptTable, UnsupportedFeature) as e:
        return [f"{sidecar}: {e.message}"]
    missing = (p for p in packs if boundary.holds(p) and inventory.size(p) is None)
    return [f"the pack of BLOBs {p} is missing" for p in missing]
