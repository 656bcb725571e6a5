"""The policy of the demo's lake: thresholds of its size, a goal, and which tables go to Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Final

POLICY: Final = """\
version: 1
rules:
  - name: a small lake
    tables: "shop.*"
    engine: auto                     # a few megabytes are rewritten faster without Spark
    health:
      # By default, some problems alone leave a table green.  In this lake, each of them shows.
      level_0_age: { weight: 0.4 }
      delete_rows: { weight: 0.4 }
      held_bytes: { weight: 0.4 }
      partitions_due: { weight: 0.4 }
      stuck_partitions: { weight: 0.4 }
      small_buckets: { weight: 0.4 }
      orphans: { weight: 0.4 }
      unknown_options: { weight: 0.4 }
      # And what is many for a lake of a few megabytes is not many for others.
      expired_snapshots: { bad: 200, weight: 0.4 }
      manifests: { good: 30, bad: 90, weight: 0.4 }
      bucket_count: { good: 100, bad: 150 }

  - name: the largest tables
    tables: [shop.order_detail, shop.page_view]
    engine: spark

  - name: alarms must be readable soon
    tables: shop.alarm
    freshness: 10 min
"""


def write_policy(folder: Path) -> Path:
    """Write the policy into this folder; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "policy.yaml"
    file.write_text(POLICY, encoding="utf-8")
    return file
