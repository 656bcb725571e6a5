"""The time that a partition of a table stands for, read by the options of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import PARTITION_TIMESTAMP_FORMATTER, PARTITION_TIMESTAMP_PATTERN
from paimon_core.types.binary_row import decode_row
from paimon_core.types.data_types import DataType, TypeRoot
from paimon_core.types.text import partition_text
from paimon_maintenance.rules.date_time_format import DateTimeFormat
from paimon_maintenance.rules.partition_time import DEFAULT_FORMAT, put_together

_DAY: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class PartitionClock:
    """Reads partition values as times; `formatter` parses what `pattern` makes of the values."""

    pattern: str | None
    formatter: DateTimeFormat

    @classmethod
    def of(cls, table: FileStoreTable, arguments: Mapping[str, object]) -> PartitionClock:
        """The clock for the table; `timestamp_pattern` and `timestamp_formatter` override options."""
        pattern, formatter = (
            cast("str | None", value if arguments.get(name) is None else arguments[name])
            for name, value in (
                ("timestamp_pattern", table.options.value(PARTITION_TIMESTAMP_PATTERN)),
                ("timestamp_formatter", table.options.value(PARTITION_TIMESTAMP_FORMATTER)),
            )
        )
        return cls(pattern, DEFAULT_FORMAT if formatter is None else DateTimeFormat.of(formatter))

    def time_of(self, table: FileStoreTable, row: bytes) -> int | str:
        """The time that the values represent, or the reason why there is none."""
        fields = table.schema.partition_type.fields
        values = dict(
            zip((f.name for f in fields), decode_row(row, [f.type for f in fields]), strict=True)
        )
        if self.pattern is None:
            first = fields[0]
            direct = _direct_millis(values[first.name], first.type)
            if direct is not None:
                return direct
        texts = {}
        for field in fields:
            value = values[field.name]
            if value is None and (self.pattern is not None or field is fields[0]):
                return f"{field.name} is null"
            text = "" if value is None else partition_text(value, field.type, legacy_name=False)
            texts[field.name] = text or ""
        text = put_together(self.pattern, texts)
        if text is None:
            return f"timestamp_pattern {self.pattern!r} does not accept its values"
        time = self.formatter.millis(text)
        return f"cannot parse {text!r} as a time" if time is None else time


def _direct_millis(value: object, data_type: DataType) -> int | None:
    """The time of a DATE or TIMESTAMP column.

    Java treats their internal numbers as text, so such partitions never expire (decision 0008).
    """
    if value is None:
        return None
    if data_type.root is TypeRoot.DATE:
        return cast("int", value) * _DAY
    if data_type.root is TypeRoot.TIMESTAMP:
        return cast("int", value) // 1_000_000
    return None
