"""Caretaker's DAGs: the one file that Airflow parses.  `caretaker.toml` beside it configures them.

Airflow looks for the words "airflow" and "dag" in a file before it parses it; here they are.
"""

from __future__ import annotations

from pathlib import Path

from paimon_dags.airflow_dag import airflow_dag
from paimon_dags.job_shape import job_shapes
from paimon_dags.settings import load_settings

settings = load_settings(Path(__file__).with_name("caretaker.toml"))

for shape in job_shapes(settings):
    globals()[shape.dag_id] = airflow_dag(shape, settings)
