"""New files of units with some rows changed: their tasks read whole units, in order.

A file of an append table is written again, its rows in the order that they had.  Under data
evolution, a file with the changed columns is added to the group, whose other columns stay.

Units and changes come to a task together, sorted by unit and position, so that a task holds only
batches of them.  Behind them come rows that no unit holds: new ones, and under data evolution those
to delete, whose places alone count.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from paimon_core.commit.message import CommitMessage
from paimon_core.environment import Environment
from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.merge_engine import DELETE
from paimon_core.options import ROW_TRACKING_ENABLED
from paimon_core.read.data_evolution import has_data_evolution, read_group
from paimon_core.schema.table_schema import SEQUENCE_NUMBER
from paimon_core.schema.tracked import ROW_ID
from paimon_core.table.source.placed_rows import (
    GroupUnit,
    Numbers,
    PlacedRows,
    Unit,
    with_new_values,
)
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import RowType
from paimon_core.write.column_file import write_columns
from paimon_core.write.incoming_rows import Mask, fit_to_schema, without_defaults
from paimon_core.write.row_writer import delete_new_files
from paimon_spark.source.changes.placed_frames import PLACE, POSITION_BITS
from paimon_spark.source.changes.places import Changed, ChangedByTask, Noted
from paimon_spark.source.rows import converted
from paimon_spark.source.writes.distribution import counted_batches
from paimon_spark.source.writes.task_writer import ROW_KIND, TaskMessage, TaskWriter
from paimon_spark.source.writes.write_jobs import written_by_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_UNIT: Final = "__paimon_unit"
_PACKED: Final = "__paimon_packed"
_OWN: Final = (_UNIT, _PACKED, PLACE, ROW_KIND)
_NO_UNIT: Final = 1 << 40
"""Greater than the number of any unit."""
_KEPT_ROWS: Final = 1 << 14
"""The number of the first writer of rows that are in units."""
_MOST_TASKS: Final = 2000


def patch_units(
    rows: DataFrame,
    table: FileStoreTable,
    units: Sequence[Unit],
    columns: Sequence[str],
    *,
    env: Environment,
    user: str,
) -> Changed:
    """Write the units that have changed rows again, and new rows; their files.

    `rows` have the columns of the table, `PLACE`, null for new rows, and `ROW_KIND`.  `columns` are
    those whose values count in changed rows; the others stay.
    """
    patcher = _Patcher(table=table, columns=tuple(columns), env=env, user=user)
    with counted_batches(rows.sparkSession):
        joined = _with_units(rows, table, units)
        return Changed.by(written_by_tasks(joined, patcher, table))


def _with_units(rows: DataFrame, table: FileStoreTable, units: Sequence[Unit]) -> DataFrame:
    """Units and rows, those of a unit in one partition behind it, sorted by their places."""
    from pyspark.sql.functions import (  # noqa: PLC0415 - on the driver
        col,
        lit,
        shiftright,
        spark_partition_id,
        when,
    )

    context = rows.sparkSession.sparkContext
    packed: Any = [(n, bytearray(pickle.dumps(unit))) for n, unit in enumerate(units)]
    slices = max(1, min(len(packed), 4 * context.defaultParallelism))
    of_units = rows.sparkSession.createDataFrame(
        context.parallelize(packed, slices), f"{_UNIT} LONG, {_PACKED} BINARY", verifySchema=False
    )
    nowhere = col(PLACE).isNull()
    if has_data_evolution(table):
        nowhere |= col(ROW_KIND) == DELETE
    number = when(nowhere, lit(_NO_UNIT) + spark_partition_id()).otherwise(
        shiftright(col(PLACE), POSITION_BITS)
    )
    joined = rows.withColumn(_UNIT, number).unionByName(of_units, allowMissingColumns=True)
    tasks = min(max(len(units), context.defaultParallelism), _MOST_TASKS)
    return joined.repartition(tasks, _UNIT).sortWithinPartitions(
        _UNIT, col(_PACKED).desc_nulls_last(), PLACE
    )


# --- on executors -------------------------------------------------------------------------------


@dataclass(slots=True)
class _Changes:
    """The changes of a unit, by their positions."""

    batches: Iterator[pa.RecordBatch]
    waiting: pa.RecordBatch | None = None

    def below(self, end: int) -> pa.Table | None:
        """The next changes of rows before this position; None if there are none."""
        found = []
        while (batch := self.waiting or next(self.batches, None)) is not None:
            self.waiting = None
            cut = int(np.searchsorted(_positions(batch), end))
            if cut:
                found.append(batch.slice(0, cut))
            if cut < batch.num_rows:
                self.waiting = batch.slice(cut)
                break
        return pa.Table.from_batches(found) if found else None


def _positions(rows: pa.RecordBatch | pa.Table) -> Numbers:
    places: Numbers = np.asarray(rows.column(PLACE)).astype(np.int64)
    return places & ((1 << POSITION_BITS) - 1)


class _Sorted:
    """The rows of a task: units, each with its changes, then rows that are in none."""

    def __init__(self, batches: Iterable[pa.RecordBatch], noted: Noted) -> None:
        self._runs = _runs(batches, noted)
        self._next = next(self._runs, None)

    def units(self) -> Iterator[tuple[Unit, _Changes]]:
        """Yield the units that have changes."""
        while self._next is not None and self._next[0] < _NO_UNIT:
            number, run = self._next
            unit: Unit = pickle.loads(run.column(_PACKED)[0].as_py())  # noqa: S301 - the driver's
            self._next = (number, run.slice(1))
            rest = (batch for batch in self._of(number) if batch.num_rows)
            first = next(rest, None)
            if first is not None:
                yield unit, _Changes(chain([first], rest))
            if next(rest, None) is not None:
                raise CorruptTable(
                    "a data file has fewer rows than when the statement read it",
                    file=unit.entry.file.file_name,
                    next_step="run `caretaker verify` on the table",
                )

    def _of(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the runs of a unit."""
        while self._next is not None and self._next[0] == number:
            batch = self._next[1]
            self._next = next(self._runs, None)
            yield batch

    def tail(self) -> Iterator[pa.RecordBatch]:
        """Yield the new rows."""
        while self._next is not None:
            batch = self._next[1]
            self._next = next(self._runs, None)
            stays = np.asarray(batch.column(ROW_KIND)) != DELETE
            if stays.any():
                yield batch.drop_columns(list(_OWN)).filter(pa.array(stays))


def _runs(batches: Iterable[pa.RecordBatch], noted: Noted) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a unit that follow each other in one batch, with its number."""
    for batch in batches:
        noted.add(batch.select([PLACE, ROW_KIND]).filter(batch.column(_PACKED).is_null()))
        numbers = np.asarray(batch.column(_UNIT))
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1)).tolist()
        for start, end in pairwise([*starts, len(numbers)]):
            yield int(numbers[start]), batch.slice(start, end - start)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Patcher:
    """Writes the patched units of a task, and its new rows; sent to the executor."""

    table: FileStoreTable
    columns: tuple[str, ...]
    env: Environment
    user: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> TaskMessage:
        noted = Noted()
        rows = _Sorted(batches, noted)
        patched: list[CommitMessage] = []
        try:
            if has_data_evolution(self.table):
                for unit, changes in rows.units():
                    assert isinstance(unit, GroupUnit)
                    values = self._values(unit, changes)
                    message = write_columns(
                        self.table, unit.group, values, self.columns, env=self.env
                    )
                    patched.append(message)
            else:
                patched += self._writer_of_units().write(self._rewritten(rows)).messages
            made = self._writer_of_new_rows().write(rows.tail())
        except BaseException:
            for message in patched:
                delete_new_files(self.table, message)
            raise
        messages = (*patched, *made.messages)
        return ChangedByTask.of(TaskMessage(made.task, messages, made.query), noted)

    def _writer_of_new_rows(self) -> TaskWriter:
        return TaskWriter(
            table=self.table, env=self.env, user=self.user, overwrite=False, shuffled=False
        )

    def _writer_of_units(self) -> TaskWriter:
        return TaskWriter(
            table=without_defaults(self.table),
            env=self.env,
            user=self.user,
            overwrite=False,
            shuffled=False,
            first_task=_KEPT_ROWS,
            tracked=self.table.options.value(ROW_TRACKING_ENABLED),
        )

    # --- whole rows ---

    def _rewritten(self, rows: _Sorted) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the units with changes, in their order."""
        for unit, changes in rows.units():
            for placed in unit.batches(self.table, self.table.schema.names):
                if not placed.rows.num_rows:
                    continue
                changed = changes.below(int(placed.positions[-1]) + 1)
                yield from self._patched(placed, changed)

    def _patched(self, placed: PlacedRows, changed: pa.Table | None) -> Iterator[pa.RecordBatch]:
        source, stays = np.arange(placed.rows.num_rows), np.ones(placed.rows.num_rows, np.bool_)
        updated = None
        if changed is not None:
            at = np.searchsorted(placed.positions, _positions(changed))
            deletes = np.asarray(changed.column(ROW_KIND)) == DELETE
            stays[at[deletes]] = False
            updated = self._updated(placed.rows.take(pa.array(at[~deletes])), changed, deletes)
            source[at[~deletes]] = len(source) + np.arange(updated.num_rows)
        rows = placed.rows
        if updated is not None and updated.num_rows:
            rows = with_new_values(rows, updated, source)
        if placed.row_ids is not None and placed.sequences is not None:
            is_new = pa.array(source >= len(source))
            rows = rows.append_column(ROW_ID, pa.array(placed.row_ids))
            numbers = pa.array(placed.sequences, mask=np.asarray(is_new))
            rows = rows.append_column(SEQUENCE_NUMBER, numbers)
        yield from rows.filter(pa.array(stays)).combine_chunks().to_batches()

    def _updated(self, old: pa.Table, changed: pa.Table, deletes: Mask) -> pa.Table:
        """The columns of updated rows that may differ from those of the old ones.

        A changed row gets default values in place of all of its nulls, as a new one does.
        """
        new = self._new_values(changed.filter(pa.array(~deletes)))
        filled = [
            f
            for f in self.table.schema.fields
            if f.default_value is not None and f.name not in self.columns
        ]
        if not filled:
            return new
        others = RowType(fields=tuple(filled))
        for column, field in zip(
            fit_to_schema(self.table, old.select(others.names), others).columns,
            arrow_schema(others),
            strict=True,
        ):
            new = new.append_column(field, column)
        return new

    # --- columns ---

    def _values(self, unit: GroupUnit, changes: _Changes) -> Iterator[pa.RecordBatch]:
        """Yield the changed columns of all rows of a group, also of deleted ones."""
        schema = arrow_schema(self.table.schema.row_type.project(self.columns))
        schema = pa.schema([f.with_nullable(True) for f in schema])
        first = 0
        for batch in read_group(self.table, unit.group, self.columns, {}):
            rows = pa.Table.from_batches([batch.select(schema.names).cast(schema)])
            changed = changes.below(first + rows.num_rows)
            if changed is not None:
                source = np.arange(rows.num_rows)
                source[_positions(changed) - first] = rows.num_rows + np.arange(changed.num_rows)
                rows = with_new_values(rows, self._new_values(changed), source)
            first += rows.num_rows
            yield from rows.combine_chunks().to_batches()

    def _new_values(self, changed: pa.Table) -> pa.Table:
        """The changed columns in the types of the table.

        Nulls in whole rows become default values.
        """
        table = self.table
        if has_data_evolution(table):
            table = without_defaults(table)
        row_type = table.schema.row_type.project(self.columns)
        columns = [
            converted(changed.column(f.name).combine_chunks(), f.type)
            for f in arrow_schema(row_type)
        ]
        return fit_to_schema(table, pa.table(columns, names=row_type.names), row_type)
