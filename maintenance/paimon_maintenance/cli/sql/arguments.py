"""The arguments of `CALL`: bound to those of the jobs, and refused as Java's procedures do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import DATA_EVOLUTION_ENABLED
from paimon_maintenance.cli.sql.procedures import Procedure
from paimon_maintenance.job.arguments import with_underscores
from paimon_spark.sql.errors import WrongArguments
from paimon_spark.sql.procedures import Given


def bound_values(name: str, procedure: Procedure, given: Given) -> dict[str, object]:
    """The values under the jobs' names; those that mean nothing here are left out.

    Java: `PaimonProcedureResolver`.
    """
    if len({word is None for word, _ in given}) == 2:
        raise WrongArguments("Cannot mix named and positional arguments.")
    parameters = {with_underscores(p.name).lower(): p for p in procedure.parameters}
    bound: dict[str, object] = {}
    filled: set[str] = set()
    seen: set[str] = set()
    for i, (word, value) in enumerate(given):
        if word is None:
            if i >= len(procedure.parameters):
                raise WrongArguments(
                    f"Too many arguments for procedure: sys.{name} has {len(parameters)}"
                )
            parameter = procedure.parameters[i]
        else:
            found = parameters.get(with_underscores(word).lower())
            if found is None:
                raise WrongArguments(
                    f"Builds name to argument map Argument {word.lower()} is unknown. error. "
                    f"Procedure sys.{name} has {', '.join(p.name for p in procedure.parameters)}"
                )
            parameter = found
        if parameter.name in seen:
            raise WrongArguments(
                f"Builds name to argument map Procedure argument {parameter.name} is duplicated. "
                "error."
            )
        seen.add(parameter.name)
        if value is not None:
            filled.add(parameter.name)
        _check_type(parameter.name, value)
        if parameter.name == "mode" and str(value or "local").lower() not in _MODES:
            raise WrongArguments(
                f"Unknown mode: {value}. Only 'DISTRIBUTED' and 'LOCAL' are supported."
            )
        key = parameter.as_ or parameter.name
        applies = parameter.as_ is not None or procedure.job == "compact"
        if value is not None and (applies or parameter.name == "table"):
            # Its values may hold commas.
            raw = value if key == "options_map" else _raw(value)
            bound[key] = _condition(key, raw) if key in ("where", "partitions") else raw
    if "where" in bound and "partitions" in bound:
        raise InvalidArgument("partitions and where cannot be used together.")
    missing = [p.name for p in procedure.parameters if p.required and p.name not in filled]
    if missing:
        raise WrongArguments(f"Required parameters [{','.join(missing)}] is missed.")
    return bound


_MODES: Final = ("local", "distributed")
_INTEGERS: Final = frozenset(
    {"bucket_num", "max_deletes", "max_expires", "parallelism", "retain_max", "retain_min"}
)
_LONGS: Final = frozenset({"nextSnapshotId", "snapshot", "snapshot_id", "timestamp", "watermark"})
_BOOLEANS: Final = frozenset(
    {"all_columns", "delete_all", "delete_origin", "deterministic", "dry_run", "ignoreIfExists"}
    | {"overwrite"}
)


def _check_type(name: str, value: object) -> None:
    """WrongArguments for a value that Spark does not cast up to the type of the argument.

    Texts take everything but maps.
    """
    match value:
        case None:
            return
        case bool():
            given = "BooleanType"
        case int():
            given = "IntegerType" if -(2**31) <= value < 2**31 else "LongType"
        case float():
            given = "DecimalType"
        case str():
            given = "StringType"
        case _:
            given = "MapType"
    if name in _BOOLEANS:
        wanted, fits = "BooleanType", given == "BooleanType"
    elif name in _INTEGERS:
        wanted, fits = "IntegerType", given == "IntegerType"
    elif name in _LONGS:
        wanted, fits = "LongType", given in ("IntegerType", "LongType")
    else:
        return
    if not fits:
        raise WrongArguments(f"Cannot cast {given} to {wanted} of {name}.")


def _condition(key: str, value: object) -> object:
    """`where` with texts in single quotes, `partitions` with bare ones: Spark's literals may have
    single or double quotes in both.
    """
    if not isinstance(value, str):
        return value
    if key == "partitions":
        return re.sub(r"""=\s*(["'])(.*?)\1""", r"=\2", value)
    return re.sub(r"""'[^']*'|"([^"]*)\"""", lambda m: m[0] if m[1] is None else f"'{m[1]}'", value)


def _raw(value: object) -> object:
    if isinstance(value, Mapping):
        return ",".join(f"{k}={v}" for k, v in value.items())
    return value


def check_order(table: FileStoreTable, columns: str) -> None:
    given = [c.strip() for c in columns.split(",")]
    keys = table.schema.partition_keys
    if any(c in keys for c in given):
        raise InvalidArgument(
            "order_by should not contain partition cols, because it is meaningless, your order_by "
            f"cols are [{', '.join(given)}], and partition cols are [{', '.join(keys)}]",
            table=table.name,
        )
    if table.options.value(DATA_EVOLUTION_ENABLED):
        raise UnsupportedFeature(
            "data-evolution.enabled", "Data Evolution table cannot be sorted!", table=table.name
        )


def check_compact(values: Mapping[str, object]) -> None:
    """InvalidArgument for arguments that Java's `CompactProcedure` does not combine."""
    order = str(values.get("order_strategy") or "none").lower()
    strategy = values.get("strategy")
    if order == "none" and values.get("order_by"):
        raise InvalidArgument('order_strategy "none" cannot work with order_by columns.')
    if order != "none" and values.get("partition_idle_time"):
        raise InvalidArgument("sort compact do not support 'partition_idle_time'.")
    if strategy is not None and str(strategy).lower() not in ("full", "minor"):
        raise InvalidArgument(
            f"The compact strategy only supports 'full' or 'minor', but '{strategy}' is configured."
        )
