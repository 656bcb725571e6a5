"""What `read` and `read --follow` share: scan options, columns, and rows as JSON lines."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from paimon_core.errors import InvalidArgument
from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.target import check_known_options, timestamp_of

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_core.types.data_types import RowType

ROW_KINDS = ("+I", "-U", "+U", "-D")
_ROWS_AT_ONCE = 4096


def scan_options(args: argparse.Namespace) -> dict[str, str | None]:
    """Dynamic table options for this read; they override the options of the table."""
    given = {
        "scan.snapshot-id": args.snapshot,
        "scan.tag-name": args.tag,
        "scan.timestamp-millis": timestamp_of(args),
        "scan.watermark": args.watermark,
        "incremental-between": args.incremental,
        "incremental-between-scan-mode": args.incremental_mode,
    }
    options: dict[str, str | None] = {}
    if any(v is not None for v in given.values()):
        from paimon_core.schema.scan_options import SCAN_OPTIONS  # noqa: PLC0415 - fast start

        options.update(dict.fromkeys(SCAN_OPTIONS))
    options.update({k: str(v) for k, v in given.items() if v is not None})
    for text in args.option:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InvalidArgument(f"argument --option: expected key=value, got {text!r}")
        options[key.strip()] = value
    check_known_options({k: v for k, v in options.items() if v is not None})
    return options


def print_rows(batches: Iterator[pa.RecordBatch], row_type: RowType, output: Output) -> None:
    """Print batches of `_VALUE_KIND` and these columns as JSON lines, and flush."""
    from paimon_core.schema.table_schema import VALUE_KIND  # noqa: PLC0415 - fast start
    from paimon_core.types.json_columns import batch_to_json_rows  # noqa: PLC0415 - fast start

    for batch in batches:
        # In slices: a whole batch as Python values takes hundreds of megabytes.
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            part = batch.slice(start, _ROWS_AT_ONCE)
            kinds = part.column(VALUE_KIND).to_pylist()
            rows = batch_to_json_rows(part.select(list(row_type.names)), row_type)
            output.out.writelines(
                _line(ROW_KINDS[kind], row) for kind, row in zip(kinds, rows, strict=True)
            )
    output.out.flush()


def columns_of(text: str | None) -> list[str] | None:
    """The names of --columns; None without it, InvalidArgument for an empty or repeated one."""
    if text is None:
        return None
    names = [name.strip().strip("`") for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidArgument("argument --columns: the list is empty")
    if len(set(names)) != len(names):
        raise InvalidArgument("argument --columns: a column appears twice")
    return names


def _line(kind: str, row: list[object]) -> str:
    return json.dumps([kind, *row], ensure_ascii=False, separators=(",", ":")) + "\n"
