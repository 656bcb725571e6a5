"""The definitions of the jobs for global indexes: names, arguments and help."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paimon_maintenance.job import common_arguments
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.common_arguments import PARTITIONS, WHERE
from paimon_maintenance.job.job import Job, steps_of

INDEX_COLUMN: Final = Argument(
    name="index_column", kind=Kind.TEXT, help="the indexed column", example="customer"
)
INDEX_TYPE: Final = Argument(
    name="index_type",
    kind=Kind.TEXT,
    default="btree",
    help="the type of the index; only btree can be built, all types can be dropped",
    example="btree",
)
OPTIONS: Final = replace(common_arguments.OPTIONS, example="sorted-index.records-per-range=1000000")

CREATE_GLOBAL_INDEX: Final = Job(
    name="create_global_index",
    summary="build or extend the global index of a column, by which queries find rows",
    changes=(
        "Reads the column of all rows that the index does not cover yet, writes index files, and "
        "adds them in one APPEND snapshot. Needs data-evolution.enabled. Run it again after writes: "
        "queries of Java leave out rows that an index does not cover, unless "
        "scalar-index.search-mode is full (Paimon 2.0)."
    ),
    protects=(
        "No data changes. The index is not added if another commit changed or moved the rows "
        "meanwhile: the job plans again. SQL updates of an indexed column are refused, unless "
        "global-index.column-update-action lets them drop the index."
    ),
    undo="drop_global_index.",
    arguments=(INDEX_COLUMN, INDEX_TYPE, PARTITIONS, WHERE, OPTIONS),
    examples=("caretaker run create_global_index db.orders -w /lake --index-column customer",),
    load=steps_of("paimon_maintenance.jobs.global_index.create:STEPS"),
    replans=True,
    retry_safe=True,
    required=("index_column",),
    at_most_one=(("partitions", "where"),),
)
DROP_GLOBAL_INDEX: Final = Job(
    name="drop_global_index",
    summary="drop the global index of a column",
    changes=(
        "Removes the entries of the index from the table in one APPEND snapshot. The index files "
        "stay until the snapshots that need them expire."
    ),
    protects="No data changes. Queries read the rows without the index.",
    undo="create_global_index, which builds it again.",
    arguments=(INDEX_COLUMN, INDEX_TYPE, PARTITIONS, WHERE),
    examples=("caretaker run drop_global_index db.orders -w /lake --index-column customer",),
    load=steps_of("paimon_maintenance.jobs.global_index.drop:STEPS"),
    rewrites=False,
    retry_safe=True,
    required=("index_column",),
    at_most_one=(("partitions", "where"),),
)
GLOBAL_INDEX_JOBS: Final = (CREATE_GLOBAL_INDEX, DROP_GLOBAL_INDEX)
