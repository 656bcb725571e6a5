"""Caretaker's DAGs: the one file that Airflow parses.  `caretaker.toml` beside it configures them.

Airflow looks for the words "airflow" and "dag" in a file before it parses it; here they are.
"""

from __future__ import annotations

from pathlib import Path

from paimon_dags.alert_dag import alert_dags
from paimon_dags.commit_dags import commit_dags
from paimon_dags.job_dags import job_dags
from paimon_dags.scheduler_dag import scheduler_dags
from paimon_dags.settings import load_settings, use_catalogs_of

file = Path(__file__).with_name("caretaker.toml")
settings = load_settings(file)
use_catalogs_of(file)

makers = (job_dags, commit_dags, scheduler_dags, alert_dags)
dags = [dag for make in makers for dag in make(settings)]
globals().update({dag.dag_id: dag for dag in dags})
