"""Sensors that wait for a table: healthy, watermark reached, tag exists, consumer caught up.

They are deferrable by default: a waiting sensor runs in the triggerer and takes no worker slot::

    TableHealthy(task_id="healthy", table="sales.orders", warehouse="s3://lake/warehouse")
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from paimon_airflow.sensors.conditions import ask
from paimon_airflow.sensors.trigger import ConditionTrigger
from paimon_airflow.tasks.credentials import storage_of_connection
from paimon_airflow.tasks.job_task import without_retry
from paimon_airflow.tasks.links import CaretakerPageLink
from paimon_maintenance.storage.options import refuse_secrets
from paimon_maintenance.storage.variables import POLICY_VARIABLE, WAREHOUSE_VARIABLE

if TYPE_CHECKING:
    from airflow.sdk import Context


class TableSensor(BaseSensorOperator):
    """The base class of the sensors.

    - `table`: "database.table".
    - `warehouse`: a path, a URL or `catalog:NAME`; None: CARETAKER_WAREHOUSE of the worker.
    - `branch`: the branch of the table; None: main.
    - `storage`: options of the store; InvalidArgument for secrets, which Airflow
      would store with the trigger.
    - `storage_connection`: the Airflow connection with the credentials of the store.
    - `deferrable`: wait in the triggerer instead of a worker.
    - `poke_interval`: seconds between two checks (default: 30).

    Raises AirflowFailException, which is not retried, without a warehouse, for a wrong argument,
    and for a table that does not exist: a misspelled name could not be told from a table to come.
    """

    condition: ClassVar[str]
    """The name of the condition in `paimon_airflow.sensors.conditions`."""
    argument_names: ClassVar[tuple[str, ...]] = ()
    """The attributes that are the arguments of the condition."""
    template_fields: Sequence[str] = ("table", "warehouse", "branch", "storage_connection")
    operator_extra_links = (CaretakerPageLink(),)
    ui_color = "#fff7d6"

    def __init__(
        self,
        *,
        table: str,
        warehouse: str | None = None,
        branch: str | None = None,
        storage: Mapping[str, str] | None = None,
        storage_connection: str | None = None,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("poke_interval", 30.0)
        super().__init__(**kwargs)
        self.table = table
        self.warehouse = warehouse
        self.branch = branch
        refuse_secrets(storage or {}, "parameter storage")
        self.storage = dict(storage or {})
        self.storage_connection = storage_connection
        self.deferrable = deferrable

    def arguments(self) -> dict[str, Any]:
        """The arguments of the condition, after templates are rendered."""
        return {name: getattr(self, name) for name in self.argument_names}

    def place(self) -> str:
        """The warehouse; AirflowFailException if none is given."""
        found = self.warehouse or os.environ.get(WAREHOUSE_VARIABLE)
        if not found:
            message = f"no warehouse is given: set `warehouse` or {WAREHOUSE_VARIABLE}"
            raise AirflowFailException(message)
        return found

    def poke(self, context: Context) -> bool:  # noqa: ARG002 - Airflow's signature
        """Whether the condition holds now; AirflowFailException for an error that stays."""
        with without_retry():
            answer = ask(
                self.condition,
                warehouse=self.place(),
                table=self.table,
                branch=self.branch,
                storage={**self.storage, **storage_of_connection(self.storage_connection)},
                arguments=self.arguments(),
            )
        self.log.info("%s", answer.why)
        return answer.holds

    def execute(self, context: Context) -> None:
        """Check the condition once, then defer until it holds."""
        if not self.deferrable:
            super().execute(context)
            return
        try:
            if self.poke(context):
                return
        except AirflowException:
            raise
        except Exception as e:  # noqa: BLE001 - the store may be back soon: the trigger asks again
            self.log.warning("cannot ask for %s of %s: %s", self.condition, self.table, e)
        self.defer(
            trigger=ConditionTrigger(
                condition=self.condition,
                warehouse=self.place(),
                table=self.table,
                poke_interval=self.poke_interval,
                branch=self.branch,
                storage=self.storage,
                storage_connection=self.storage_connection,
                arguments=self.arguments(),
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> None:  # noqa: ARG002
        """End the task with the event of the trigger; AirflowFailException for an error."""
        if "error" in event:
            raise AirflowFailException(event["error"])
        self.log.info("%s", event["why"])


class TableHealthy(TableSensor):
    """Waits until a table, or one of its partitions, has at least a health score (docs/health.md).

    - `score`: the score to wait for, from 0 to 100.
    - `partition`: the values of the partition columns; None: the whole table.
    - `policy`: the policy file with thresholds and goals; None: CARETAKER_POLICY of the worker; "":
      the default thresholds.
    """

    condition = "healthy"
    template_fields = (*TableSensor.template_fields, "partition", "policy")

    def __init__(
        self,
        *,
        score: int = 80,
        partition: Mapping[str, str] | None = None,
        policy: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.score = score
        self.partition = None if partition is None else dict(partition)
        self.policy = policy

    def arguments(self) -> dict[str, Any]:
        """The score, the partition, and the policy that applies."""
        policy = os.environ.get(POLICY_VARIABLE) if self.policy is None else self.policy
        return {"score": self.score, "partition": self.partition, "policy": policy or None}


class WatermarkReached(TableSensor):
    """Waits until the newest snapshot has this watermark or a later one.

    `watermark` is a datetime with a time zone, milliseconds since the epoch, or text: a number of
    milliseconds, or ISO 8601 with an offset.
    """

    condition = "watermark_reached"
    template_fields = (*TableSensor.template_fields, "watermark")

    def __init__(self, *, watermark: datetime | int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.watermark = watermark

    def arguments(self) -> dict[str, Any]:
        """The watermark in milliseconds; AirflowFailException for a time without a time zone."""
        mark = self.watermark
        if isinstance(mark, str):
            mark = int(mark) if mark.lstrip("-").isdigit() else datetime.fromisoformat(mark)
        if isinstance(mark, datetime):
            if mark.tzinfo is None:
                message = (
                    f"the watermark {mark} for table {self.table} has no time zone: add an offset, "
                    "for example +00:00"
                )
                raise AirflowFailException(message)
            mark = int(mark.timestamp() * 1000)
        return {"millis": mark}


class TagExists(TableSensor):
    """Waits until a table has the tag `tag`."""

    condition = "tag_exists"
    argument_names = ("tag",)
    template_fields = (*TableSensor.template_fields, "tag")

    def __init__(self, *, tag: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tag = tag


class ConsumerCaughtUp(TableSensor):
    """Waits until the consumer `consumer` has at most `snapshots` unread snapshots."""

    condition = "consumer_caught_up"
    argument_names = ("consumer", "snapshots")
    template_fields = (*TableSensor.template_fields, "consumer")

    def __init__(self, *, consumer: str, snapshots: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.consumer = consumer
        self.snapshots = snapshots
