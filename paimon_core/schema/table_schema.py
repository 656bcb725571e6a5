"""A version of a table's schema (Java: `schema/TableSchema`; on disk `schema/schema-N`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from paimon_core.options import Options
from paimon_core.types.data_types import DataField, RowType

KEY_FIELD_ID_START = (2**31 - 1) // 2
"""Field id of `_KEY_x` is this plus the id of `x` (Java: `SpecialFields`)."""
SEQUENCE_NUMBER_ID = 2**31 - 1 - 1
VALUE_KIND_ID = 2**31 - 1 - 2
KEY_PREFIX = "_KEY_"
SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
VALUE_KIND = "_VALUE_KIND"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyType(RowType):
    """The type of keys, and the order of FLOAT and DOUBLE in keys and sequence fields.

    `signed_zeros`: -0.0 sorts before 0.0, as in Java from 2.0 on; in earlier versions they are
    equal.
    """

    signed_zeros: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """Fields, keys and options of a table as of one schema id.

    `options` are the table's own, as stored; dynamic options are merged with `with_options`.
    `time_millis` is the creation time.  Unknown JSON fields are kept in `extra`.  `signed_zeros` is
    not part of the schema: the table handle sets it, see `KeyType`.
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)
    comment: str | None = None
    time_millis: int | None = None
    version: int = 3
    extra: Mapping[str, object] = field(default_factory=dict)
    signed_zeros: bool = field(default=False, compare=False)

    @property
    def row_type(self) -> RowType:
        return RowType(nullable=False, fields=self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @property
    def partition_type(self) -> RowType:
        return self.row_type.project(self.partition_keys)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Return the primary keys without partition keys, or all if none would be left.

        Java refuses to create a table whose primary keys are all partition keys, so the latter only
        happens for tables created by other programs.
        """
        trimmed = tuple(k for k in self.primary_keys if k not in self.partition_keys)
        return trimmed or self.primary_keys

    @property
    def key_type(self) -> KeyType:
        """Return the trimmed primary key, fields with their own names and ids."""
        key = self.row_type.project(self.trimmed_primary_keys)
        return KeyType(nullable=False, fields=key.fields, signed_zeros=self.signed_zeros)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """Return `bucket-key`, or the trimmed primary keys (Java: `TableSchema.bucketKeys`)."""
        explicit = self.options.get("bucket-key")
        if explicit and explicit.strip():
            return tuple(k.strip() for k in explicit.split(","))
        return self.trimmed_primary_keys if self.primary_keys else ()

    def with_options(self, dynamic: Mapping[str, str | None]) -> TableSchema:
        """Return the schema with dynamic options; a value of None removes the key."""
        merged = dict(self.options)
        for key, value in dynamic.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = value
        return replace(self, options=Options(merged))
