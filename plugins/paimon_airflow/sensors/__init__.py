"""Sensors that wait for a table: healthy, watermark reached, tag exists, consumer caught up.

::

    table_sensors   the sensors; import them from this package
      |-- trigger     waits in the triggerer, without a worker slot
      `-- conditions  reads the table's metadata and says whether the condition holds
"""

from __future__ import annotations

from paimon_airflow.sensors.table_sensors import (
    ConsumerCaughtUp,
    TableHealthy,
    TagExists,
    WatermarkReached,
)

__all__ = ["ConsumerCaughtUp", "TableHealthy", "TagExists", "WatermarkReached"]
