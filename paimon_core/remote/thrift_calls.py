"""The part of Hive's metastore interface that Paimon needs (Hive: `hive_metastore.thrift`).

Field numbers, names and exceptions are those of Hive 2.3; Hive 3 and 4 add fields and keep these
calls.  Undeclared fields are kept (see `thrift_struct`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from paimon_core.remote.thrift_struct import (
    BOOL,
    I16,
    I32,
    I64,
    TEXT,
    ListOf,
    MapOf,
    Struct,
    StructOf,
    Wire,
    thrift,
)

_TEXTS: Final = ListOf(TEXT)
_PROPERTIES: Final = MapOf(TEXT, TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Database(Struct):
    name: str | None = thrift(1, TEXT)
    description: str | None = thrift(2, TEXT)
    location_uri: str | None = thrift(3, TEXT)
    parameters: Mapping[str, str] | None = thrift(4, _PROPERTIES)
    owner_name: str | None = thrift(6, TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSchema(Struct):
    name: str | None = thrift(1, TEXT)
    type: str | None = thrift(2, TEXT)
    comment: str | None = thrift(3, TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class SerDeInfo(Struct):
    name: str | None = thrift(1, TEXT)
    serialization_lib: str | None = thrift(2, TEXT)
    parameters: Mapping[str, str] | None = thrift(3, _PROPERTIES)


_SERDE: Final = StructOf(SerDeInfo)
_COLUMNS: Final = ListOf(StructOf(FieldSchema))


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageDescriptor(Struct):
    cols: tuple[FieldSchema, ...] | None = thrift(1, _COLUMNS)
    location: str | None = thrift(2, TEXT)
    input_format: str | None = thrift(3, TEXT)
    output_format: str | None = thrift(4, TEXT)
    serde_info: SerDeInfo | None = thrift(7, _SERDE)  # noqa: RUF009 - a field
    parameters: Mapping[str, str] | None = thrift(10, _PROPERTIES)


_STORAGE: Final = StructOf(StorageDescriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Struct):
    table_name: str | None = thrift(1, TEXT)
    db_name: str | None = thrift(2, TEXT)
    owner: str | None = thrift(3, TEXT)
    create_time: int | None = thrift(4, I32)
    last_access_time: int | None = thrift(5, I32)
    retention: int | None = thrift(6, I32)
    sd: StorageDescriptor | None = thrift(7, _STORAGE)  # noqa: RUF009 - a field
    partition_keys: tuple[FieldSchema, ...] | None = thrift(8, _COLUMNS)
    parameters: Mapping[str, str] | None = thrift(9, _PROPERTIES)
    view_original_text: str | None = thrift(10, TEXT)
    view_expanded_text: str | None = thrift(11, TEXT)
    table_type: str | None = thrift(12, TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(Struct):
    values: tuple[str, ...] | None = thrift(1, _TEXTS)
    db_name: str | None = thrift(2, TEXT)
    table_name: str | None = thrift(3, TEXT)
    create_time: int | None = thrift(4, I32)
    last_access_time: int | None = thrift(5, I32)
    sd: StorageDescriptor | None = thrift(6, _STORAGE)  # noqa: RUF009 - a field
    parameters: Mapping[str, str] | None = thrift(7, _PROPERTIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsRequest(Struct):
    db_name: str | None = thrift(1, TEXT)
    table_name: str | None = thrift(2, TEXT)
    partitions: tuple[Partition, ...] | None = thrift(3, ListOf(StructOf(Partition)))
    if_not_exists: bool | None = thrift(4, BOOL)
    need_result: bool | None = thrift(5, BOOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsResult(Struct):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentContext(Struct):
    properties: Mapping[str, str] | None = thrift(1, _PROPERTIES)


EXCLUSIVE_LOCK: Final = 3
TABLE_LEVEL: Final = 2
LOCK_ACQUIRED: Final = 1
LOCK_WAITING: Final = 2
LOAD_DONE: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LockComponent(Struct):
    type: int | None = thrift(1, I32)
    level: int | None = thrift(2, I32)
    db_name: str | None = thrift(3, TEXT)
    table_name: str | None = thrift(4, TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest(Struct):
    components: tuple[LockComponent, ...] | None = thrift(1, ListOf(StructOf(LockComponent)))
    user: str | None = thrift(3, TEXT)
    host_name: str | None = thrift(4, TEXT)
    agent_info: str | None = thrift(5, TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockId(Struct):
    """`CheckLockRequest` and `UnlockRequest`."""

    lock_id: int | None = thrift(1, I64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockResponse(Struct):
    lock_id: int | None = thrift(1, I64)
    state: int | None = thrift(2, I32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLocksRequest(Struct):
    db_name: str | None = thrift(1, TEXT)
    table_name: str | None = thrift(2, TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLock(Struct):
    lock_id: int | None = thrift(1, I64)
    state: int | None = thrift(5, I32)
    acquired_at: int | None = thrift(9, I64)
    user: str | None = thrift(10, TEXT)
    host_name: str | None = thrift(11, TEXT)
    agent_info: str | None = thrift(13, TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLocksResponse(Struct):
    locks: tuple[ShownLock, ...] | None = thrift(1, ListOf(StructOf(ShownLock)))


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveFailure(Struct):
    """Any of Hive's exceptions: all have one field."""

    message: str | None = thrift(1, TEXT)


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of a call, its result, and its exceptions by field number."""

    arguments: tuple[Wire, ...]
    result: Wire | None = None
    failures: Mapping[int, str] = field(default_factory=dict)
    reads: bool = False


def _failures(*names: str) -> dict[int, str]:
    return dict(enumerate(names, start=1))


_META: Final = "MetaException"
_MISSING: Final = "NoSuchObjectException"
_EXISTS: Final = "AlreadyExistsException"
_INVALID: Final = "InvalidObjectException"
_OPERATION: Final = "InvalidOperationException"
_NO_LOCK: Final = ("NoSuchTxnException", "TxnAbortedException", "NoSuchLockException")
_EVENT: Final = _failures(
    _META,
    _MISSING,
    "UnknownDBException",
    "UnknownTableException",
    "UnknownPartitionException",
    "InvalidPartitionException",
)
_TABLE: Final = StructOf(Table)
_EVENT_OF: Final = (TEXT, TEXT, _PROPERTIES, I32)

CALLS: Final[Mapping[str, Call]] = {
    "set_ugi": Call((TEXT, _TEXTS), _TEXTS, _failures(_META), reads=True),
    "get_all_databases": Call((), _TEXTS, _failures(_META), reads=True),
    "get_database": Call((TEXT,), StructOf(Database), _failures(_MISSING, _META), reads=True),
    "create_database": Call((StructOf(Database),), None, _failures(_EXISTS, _INVALID, _META)),
    "alter_database": Call((TEXT, StructOf(Database)), None, _failures(_META, _MISSING)),
    "drop_database": Call((TEXT, BOOL, BOOL), None, _failures(_MISSING, _OPERATION, _META)),
    "get_all_tables": Call((TEXT,), _TEXTS, _failures(_META), reads=True),
    "get_table": Call((TEXT, TEXT), _TABLE, _failures(_META, _MISSING), reads=True),
    "get_table_objects_by_name": Call(
        (TEXT, _TEXTS),
        ListOf(_TABLE),
        _failures(_META, "InvalidOperationException", "UnknownDBException"),
        reads=True,
    ),
    "get_schema": Call(
        (TEXT, TEXT),
        _COLUMNS,
        _failures(_META, "UnknownTableException", "UnknownDBException"),
        reads=True,
    ),
    "get_config_value": Call(
        (TEXT, TEXT), TEXT, _failures("ConfigValSecurityException"), reads=True
    ),
    "create_table": Call((_TABLE,), None, _failures(_EXISTS, _INVALID, _META, _MISSING)),
    "alter_table_with_environment_context": Call(
        (TEXT, TEXT, _TABLE, StructOf(EnvironmentContext)), None, _failures(_OPERATION, _META)
    ),
    "drop_table": Call((TEXT, TEXT, BOOL), None, _failures(_MISSING, _META)),
    "add_partitions_req": Call(
        (StructOf(AddPartitionsRequest),),
        StructOf(AddPartitionsResult),
        _failures(_INVALID, _EXISTS, _META),
    ),
    "drop_partition": Call((TEXT, TEXT, _TEXTS, BOOL), BOOL, _failures(_MISSING, _META)),
    "get_partitions": Call(
        (TEXT, TEXT, I16), ListOf(StructOf(Partition)), _failures(_MISSING, _META), reads=True
    ),
    "markPartitionForEvent": Call(_EVENT_OF, None, _EVENT),
    "isPartitionMarkedForEvent": Call(_EVENT_OF, BOOL, _EVENT, reads=True),
    "lock": Call((StructOf(LockRequest),), StructOf(LockResponse), _failures(*_NO_LOCK)),
    "check_lock": Call(
        (StructOf(LockId),), StructOf(LockResponse), _failures(*_NO_LOCK), reads=True
    ),
    "show_locks": Call((StructOf(ShowLocksRequest),), StructOf(ShowLocksResponse), reads=True),
    "unlock": Call((StructOf(LockId),), None, _failures("NoSuchLockException", "TxnOpenException")),
}
"""Arguments are numbered from 1 in their order; `reads` calls can be repeated."""
