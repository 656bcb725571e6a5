"""The traits of each merge engine: one row per engine.

Reading, compaction, validation, repair and feature checks use these rows; none of them compares
engine names.  A new engine is a file in this package and a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.lsm.java_rules import JavaRules
from paimon_core.options import (
    AGGREGATION_REMOVE_RECORD_ON_DELETE,
    MERGE_ENGINE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
    SEQUENCE_FIELD,
    Options,
)
from paimon_core.schema.table_schema import TableSchema

if TYPE_CHECKING:
    from paimon_core.lsm.merge_engine import MergeEngine


class ExistingKey(Enum):
    """The effect of a row whose key exists in another partition (Java: `ExistingProcessor`)."""

    DELETE_OLD = "DeleteExistingProcessor"
    """The old row gets a delete; the new row goes to its own partition."""
    USE_OLD = "UseOldExistingProcessor"
    """The new row goes to the partition of the old one."""
    SKIP_NEW = "SkipNewExistingProcessor"
    """The new row is dropped."""


def _no_columns(_: TableSchema) -> Sequence[str]:
    return ()


def _no_check(_: TableSchema) -> None:
    pass


# Commands that only look at metadata start faster without the engines.


def _deduplicate(schema: TableSchema, rules: JavaRules) -> MergeEngine:
    from paimon_core.lsm.engines.deduplicate import deduplicate_of  # noqa: PLC0415 - fast start

    return deduplicate_of(schema, rules)


def _first_row(schema: TableSchema, rules: JavaRules) -> MergeEngine:
    from paimon_core.lsm.engines.first_row import first_row_of  # noqa: PLC0415 - fast start

    return first_row_of(schema, rules)


def _aggregation(schema: TableSchema, rules: JavaRules) -> MergeEngine:
    from paimon_core.lsm.engines.aggregation import aggregation_of  # noqa: PLC0415 - fast start

    return aggregation_of(schema, rules)


def _check_aggregation(schema: TableSchema) -> None:
    from paimon_core.lsm.aggregates.options import (  # noqa: PLC0415 - fast start
        check_aggregate_functions,
    )

    check_aggregate_functions(schema)


def _partial_update(schema: TableSchema, rules: JavaRules) -> MergeEngine:
    from paimon_core.lsm.engines.partial_update import partial_update_of  # noqa: PLC0415 - fast start

    return partial_update_of(schema, rules)


def _check_partial_update(schema: TableSchema) -> None:
    from paimon_core.lsm.engines.sequence_groups import (  # noqa: PLC0415 - fast start
        check_partial_update,
    )

    check_partial_update(schema)


def _group_sequence_fields(schema: TableSchema) -> Sequence[str]:
    from paimon_core.lsm.engines.partial_update import (  # noqa: PLC0415 - fast start
        group_sequence_fields,
    )

    return group_sequence_fields(schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTraits:
    """A value of `merge-engine` and its traits.

    `build` creates the engine of a table; it raises InvalidArgument for conflicting options.
    `existing_key` is the effect of a row whose key exists in another partition.  `needed_columns`
    returns the columns that a merge reads even if the query does not select them.  `check` raises
    SchemaError for options that do not fit the engine.

    `combines_versions`: a merged row takes values from several versions, so no single version shows
    whether the row matches a predicate.  `newest_wins`: without a sequence field, the newest
    version is the result, whatever the older ones hold.  `keeps_first`: the oldest version is the
    result, so a lookup only checks whether a key exists.  `differs_by_java`: Java versions merge
    the same rows differently.

    `needs_lookup`: compactions look keys up on higher levels, whatever other options say.
    `skips_level_0`: batch reads skip level 0 until the next compaction.

    `removes_deleted`: a delete removes the row of its key; otherwise only under one of the
    `removing_options`.  `updatable`: UPDATE and MERGE write the new values of a row as a newer
    version of it (Java: `RowLevelOp`).

    `changelog_producers` holds the names of the producers that the engine allows; None for all.
    """

    name: str
    build: Callable[[TableSchema, JavaRules], MergeEngine]
    existing_key: ExistingKey
    needed_columns: Callable[[TableSchema], Sequence[str]] = _no_columns
    check: Callable[[TableSchema], None] = _no_check

    combines_versions: bool = False
    newest_wins: bool = False
    keeps_first: bool = False
    differs_by_java: bool = False

    needs_lookup: bool = False
    skips_level_0: bool = False

    allows_sequence_field: bool = True
    allows_deletion_vectors: bool = True
    removes_deleted: bool = False
    removing_options: tuple[str, ...] = ()
    updatable: bool = False
    changelog_producers: frozenset[str] | None = None


MERGE_ENGINES: Final = {
    row.name: row
    for row in (
        EngineTraits(
            name="deduplicate",
            build=_deduplicate,
            existing_key=ExistingKey.DELETE_OLD,
            newest_wins=True,
            removes_deleted=True,
            updatable=True,
        ),
        EngineTraits(
            name="partial-update",
            build=_partial_update,
            existing_key=ExistingKey.USE_OLD,
            needed_columns=_group_sequence_fields,
            check=_check_partial_update,
            combines_versions=True,
            differs_by_java=True,
            updatable=True,
            removing_options=(
                PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE.key,
                PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP.key,
            ),
        ),
        EngineTraits(
            name="aggregation",
            build=_aggregation,
            existing_key=ExistingKey.USE_OLD,
            check=_check_aggregation,
            combines_versions=True,
            differs_by_java=True,
            removing_options=(AGGREGATION_REMOVE_RECORD_ON_DELETE.key,),
        ),
        EngineTraits(
            name="first-row",
            build=_first_row,
            existing_key=ExistingKey.SKIP_NEW,
            keeps_first=True,
            needs_lookup=True,
            skips_level_0=True,
            allows_sequence_field=False,
            allows_deletion_vectors=False,
            changelog_producers=frozenset({"none", "lookup"}),
        ),
    )
}


def traits_of(options: Options) -> EngineTraits:
    """Return the traits of a table's engine; UnsupportedFeature for an unknown one."""
    name = options.value(MERGE_ENGINE)
    if (traits := MERGE_ENGINES.get(name)) is None:
        raise UnsupportedFeature(f"merge-engine={name}")
    return traits


def newest_file_wins(options: Options) -> bool:
    """Return whether a row of a newer file is the result, whatever older files hold for its key."""
    return traits_of(options).newest_wins and not options.value(SEQUENCE_FIELD)


def removes_deleted_keys(options: Options) -> bool:
    """Return whether a delete removes the row of its key.

    Java: `TableUtils.validatePKUpsertDeletable`.
    """
    traits = traits_of(options)
    return traits.removes_deleted or any(
        options.get(o, "false") not in ("false", "") for o in traits.removing_options
    )
