"""Rows from files and standard input: JSON lines, CSV and Parquet, in batches of bounded size.

JSON values have the form in which `caretaker read` prints them, so what it prints can be written
again: an array `[kind, value, ...]`, or an object with the names of columns.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, tzinfo
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from paimon_core.errors import InvalidArgument, PaimonError
from paimon_maintenance.cli.parsers.data import FORMATS

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_core.schema.table_schema import TableSchema
    from paimon_core.types.data_types import DataField, DataType

STANDARD_INPUT: Final = "-"
_SUFFIXES: Final = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".parquet": "parquet",
}
_ROWS_AT_ONCE: Final = 8192
_INTEGERS: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_TRUE_FALSE: Final = {"true": True, "false": False}


def format_of_file(source: str, given: str | None) -> str:
    """The format that was given, or that the file's name says; InvalidArgument without either."""
    found = given or _SUFFIXES.get(Path(source).suffix.lower())
    if found is None:
        raise InvalidArgument(
            "argument --format: the name of the input does not say its format",
            next_step=f"add --format {'|'.join(FORMATS)}",
        )
    return found


def rows_of(
    source: str,
    file_format: str,
    schema: TableSchema,
    *,
    delimiter: str = ",",
    null_text: str = "",
    zone: tzinfo = UTC,
) -> Iterator[pa.Table]:
    """Yield the rows of the file, `-` for standard input, with their kinds as `_row_kind` if given.

    `zone` is the time zone of instants in CSV.

    InvalidArgument names the file, and for JSON the line, of a row that does not fit the table.
    """
    name = "standard input" if source == STANDARD_INPUT else source
    with _opened(source) as file:
        if file_format == "json":
            yield from _json(file, name, schema)
        elif file_format == "csv":
            yield from _csv(file, name, schema, delimiter, null_text, zone)
        else:
            yield from _parquet(file, name)


@contextmanager
def _opened(source: str) -> Iterator[IO[bytes]]:
    if source == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    if not Path(source).exists():
        raise InvalidArgument(f"argument --from: there is no file {source}")
    with Path(source).open("rb") as file:
        yield file


# --- JSON ---------------------------------------------------------------------------------------


def _json(file: IO[bytes], name: str, schema: TableSchema) -> Iterator[pa.Table]:
    kinds: list[str] = []
    held: list[dict[str, Any]] = []
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            kind, row = _row(json.loads(line), schema)
        except (ValueError, PaimonError) as e:
            message = e.message if isinstance(e, PaimonError) else str(e)
            raise InvalidArgument(f"{name}, line {number}: {message}") from e
        kinds.append(kind)
        held.append(row)
        if len(held) == _ROWS_AT_ONCE:
            yield _table(held, kinds, schema)
            kinds, held = [], []
    if held:
        yield _table(held, kinds, schema)


def _row(value: object, schema: TableSchema) -> tuple[str, dict[str, Any]]:
    """The kind of a row, and its values in the core's form by column."""
    from paimon_core.api.rows import KIND_TEXTS  # noqa: PLC0415 - fast start

    fields = {f.name: f for f in schema.fields}
    if isinstance(value, list):
        if len(value) != len(fields) + 1 or value[0] not in KIND_TEXTS:
            raise InvalidArgument(
                f"expected [kind, {', '.join(fields)}], with a kind of {', '.join(KIND_TEXTS)}"
            )
        pairs = zip(fields.values(), value[1:], strict=True)
        return value[0], {f.name: _value(v, f) for f, v in pairs}
    if not isinstance(value, dict):
        raise InvalidArgument("expected an object or an array")
    unknown = [k for k in value if k not in fields]
    if unknown:
        raise InvalidArgument(
            f"the table has no column {unknown[0]!r} (columns: {', '.join(fields)})"
        )
    return KIND_TEXTS[0], {k: _value(v, fields[k]) for k, v in value.items()}


def _value(value: object, field: DataField) -> Any:
    from paimon_core.types.json_values import from_json_value  # noqa: PLC0415 - fast start

    try:
        return from_json_value(_strict(value, field.type), field.type)
    except PaimonError as e:
        raise InvalidArgument(f"column {field.name}: {e.message}") from e


def _strict(value: object, data_type: DataType) -> object:
    """The value, unless it would be cut off or guessed."""
    root = str(data_type.root)
    if root in _INTEGERS and (
        isinstance(value, bool) or (isinstance(value, float) and not value.is_integer())
    ):
        raise InvalidArgument(f"{json.dumps(value)} is not a whole number")
    if root == "BOOLEAN" and value is not None and not isinstance(value, bool):
        found = _TRUE_FALSE.get(str(value).strip().lower())
        if found is None:
            raise InvalidArgument(f"{json.dumps(value)} is neither true nor false")
        return found
    if root.startswith("TIMESTAMP") and isinstance(value, str):
        return value.strip().replace(" ", "T", 1)
    return value


def _table(rows: Sequence[dict[str, Any]], kinds: Sequence[str], schema: TableSchema) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415 - fast start

    from paimon_core.api.rows import KIND_TEXTS, ROW_KIND  # noqa: PLC0415 - fast start
    from paimon_core.types.arrow import column_from_internal  # noqa: PLC0415 - fast start

    present = {name for row in rows for name in row}
    columns = {
        f.name: column_from_internal([row.get(f.name) for row in rows], f.type)
        for f in schema.fields
        if f.name in present
    }
    if any(kind != KIND_TEXTS[0] for kind in kinds):
        columns[ROW_KIND] = pa.array(kinds)
    return pa.table(columns)


# --- CSV and Parquet ----------------------------------------------------------------------------


def _csv(
    file: IO[bytes],
    name: str,
    schema: TableSchema,
    delimiter: str,
    null_text: str,
    zone: tzinfo,
) -> Iterator[pa.Table]:
    """Yield rows whose text is cast as in SQL; the first line holds the names of the columns."""
    import pyarrow as pa  # noqa: PLC0415 - fast start
    from pyarrow import csv  # noqa: PLC0415 - fast start

    fields = {f.name: f for f in schema.fields}
    options = csv.ConvertOptions(
        column_types=dict.fromkeys(fields, pa.string()),
        null_values=[null_text],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        reader = csv.open_csv(
            file,
            parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=options,
        )
        repeated = [n for n in reader.schema.names if reader.schema.names.count(n) > 1]
        if repeated:
            raise InvalidArgument(f"{name}: column {repeated[0]} appears more than once")
        unknown = [n for n in reader.schema.names if n not in fields]
        if unknown:
            raise InvalidArgument(
                f"{name}: the table has no column {unknown[0]!r} (columns: {', '.join(fields)})"
            )
        for batch in reader:
            columns = zip(batch.schema.names, batch.columns, strict=True)
            yield pa.table({c: _cast(v, fields[c], name, zone) for c, v in columns})
    except pa.ArrowInvalid as e:
        if "Empty CSV" not in str(e):
            raise InvalidArgument(f"{name}: {e}") from e


def _cast(texts: pa.Array, field: DataField, name: str, zone: tzinfo) -> pa.Array:
    """The column cast from text; InvalidArgument names the file `name` and the column."""
    from paimon_core.types.casts.cast import cast_column  # noqa: PLC0415 - fast start
    from paimon_core.types.sql import parse_type  # noqa: PLC0415 - fast start

    target = field.type.with_nullable(True)
    try:
        if str(target.root) in _INTEGERS:
            _check_whole(texts)
        return cast_column(texts, parse_type("STRING"), target, zone)
    except PaimonError as e:
        raise InvalidArgument(f"{name}, column {field.name}: {e.message}") from e


def _check_whole(texts: pa.Array) -> None:
    """InvalidArgument for a number with a fraction, which SQL's cast would cut off."""
    import pyarrow.compute as pc  # noqa: PLC0415 - fast start

    wrong = texts.filter(pc.match_substring_regex(texts, "[.eE]"))
    if len(wrong):
        raise InvalidArgument(f"{wrong[0].as_py()!r} is not a whole number")


def _parquet(file: IO[bytes], name: str) -> Iterator[pa.Table]:
    import pyarrow as pa  # noqa: PLC0415 - fast start
    from pyarrow import parquet  # noqa: PLC0415 - fast start

    with tempfile.TemporaryFile() as copy:
        if not file.seekable():
            # The footer is at the end, so what comes through a pipe goes to disk first.
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            file = copy
        try:
            for batch in parquet.ParquetFile(file).iter_batches(batch_size=_ROWS_AT_ONCE):
                yield pa.Table.from_batches([batch])
        except pa.ArrowException as e:
            raise InvalidArgument(f"{name} is not a readable Parquet file: {e}") from e
