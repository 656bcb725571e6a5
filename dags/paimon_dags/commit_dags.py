"""The DAGs that commits start: `caretaker_on_commit`; `caretaker_on_partition` for asset events.

They exist only with `[on_commit]` in `caretaker.toml`.  `caretaker_on_commit` is scheduled by an
asset of the whole lake, which has a watcher (`paimon_airflow.commits.trigger`).
`caretaker_on_partition` is scheduled by the assets of the named tables; an event that ingestion
adds with a partition key compacts just that partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from airflow.sdk import DAG, Asset, AssetAny, AssetWatcher, PartitionedAssetTimetable

from paimon_airflow.tasks.assets import MAINTAINED, table_asset
from paimon_dags.form import task_options
from paimon_dags.settings import OnCommitSettings, Settings, SettingsError

_START = datetime(2024, 1, 1, tzinfo=UTC)
_ACTIVE_RUNS: Final = 3
"""A run whose worker was killed stays active until its heartbeat times out;
others go on meanwhile."""
_ON_COMMIT = """\
Compacts just the partitions that commits changed, right after them. A watcher in the triggerer looks
for new snapshots every {poll:g} seconds; what was maintained is in Caretaker's history.

The policy selects the tables (`on_commit: minor` or `full`); without a policy, a minor
compaction of all tables. Plans that need Spark {spark}.

**If it fails**, the report names the table and the reason. The table is tried again after a minute, then
after two, four and so on; other tables go on.
"""
_ON_PARTITION = """\
Compacts one partition of a table after an asset event with the partition as its key, for example
`dt=2024-01-01`. Ingestion adds such events with `outlet_events[table_asset("db.t")].add_partitions(...)`
or through `POST /api/v2/assets/events`.
"""


def commit_dags(settings: Settings) -> Iterator[DAG]:
    """The DAGs of maintenance on commit; an empty list without `[on_commit]`."""
    own = settings.on_commit
    if own is None:
        return
    if settings.warehouse is None:
        message = "[on_commit] needs `warehouse` in [caretaker], or CARETAKER_WAREHOUSE"
        raise SettingsError(message)
    from paimon_airflow.commits.trigger import CommitTrigger  # noqa: PLC0415 - only where it is used

    trigger = CommitTrigger(
        warehouse=settings.warehouse,
        tables=own.tables,
        poll_seconds=own.poll_seconds,
        storage=settings.storage,
        storage_connection=settings.storage_connection,
    )
    lake = Asset(
        name="paimon/lake",
        uri="x-paimon://lake",
        watchers=[AssetWatcher(name="caretaker_commits", trigger=trigger)],
    )
    yield _dag(
        "caretaker_on_commit",
        "Caretaker: on commit",
        settings,
        own,
        schedule=[lake],
        docs=_ON_COMMIT.format(
            poll=own.poll_seconds,
            spark="run on Spark inside the task" if own.spark else "are left to the scheduler",
        ),
    )
    if own.assets:
        tables = AssetAny(*(table_asset(table) for table in own.assets))
        yield _dag(
            "caretaker_on_partition",
            "Caretaker: on partition",
            settings,
            own,
            schedule=PartitionedAssetTimetable(assets=tables),
            docs=_ON_PARTITION,
        )


def _dag(
    dag_id: str, title: str, settings: Settings, own: OnCommitSettings, *, schedule: Any, docs: str
) -> DAG:
    pool: dict[str, Any] = {"pool": settings.pool} if settings.pool else {}
    from paimon_airflow.commits.operator import MaintainCommits  # noqa: PLC0415 - as above

    with DAG(
        dag_id=dag_id,
        dag_display_name=title,
        description="compact the partitions that a commit changed",
        doc_md=docs,
        schedule=schedule,
        start_date=_START,
        catchup=False,
        is_paused_upon_creation=True,
        max_active_runs=_ACTIVE_RUNS,
        tags=["caretaker", "on commit"],
    ) as dag:
        MaintainCommits(
            task_id="maintain",
            task_display_name="Maintain the commits",
            params_of_job={"tables": list(own.tables), "warehouse": settings.warehouse},
            **task_options(settings),
            linger_seconds=own.linger_seconds,
            spark_connection=settings.spark_connection if own.spark else None,
            spark_conf=settings.spark_conf,
            outlets=[MAINTAINED, *(table_asset(table) for table in own.assets)],
            retries=0,
            **pool,
        )
    return dag
