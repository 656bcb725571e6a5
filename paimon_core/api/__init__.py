"""The public Python API: catalog -> table -> read, write, stream, alter, maintain.

::

    catalog                       open_catalog, databases, tables
    table                         one table: short forms of everything below
    read          stream_read     builders, scans, splits, rows | the same, snapshot by snapshot
    write                         batch and stream writers, commits
    predicates    schema          filters | new tables and changes of their schema
    rows          context         Arrow, pandas and dicts | clock and time zone

Where pypaimon has the same function, names and signatures follow it.  This package only wraps the
packages below it and adds no rules of its own.  docs/library.md has examples.
"""

from paimon_core.api.catalog import Catalog, open_catalog
from paimon_core.api.predicates import PredicateBuilder
from paimon_core.api.read import Plan, ReadBuilder, Split, TableRead, TableScan
from paimon_core.api.schema import Schema, SchemaChange
from paimon_core.api.stream_read import StreamReadBuilder, StreamTableScan
from paimon_core.api.table import Table
from paimon_core.api.write import (
    BatchTableCommit,
    BatchWriteBuilder,
    CommitResult,
    StreamTableCommit,
    StreamWriteBuilder,
    TableWrite,
)

__all__ = [
    "BatchTableCommit",
    "BatchWriteBuilder",
    "Catalog",
    "CommitResult",
    "Plan",
    "PredicateBuilder",
    "ReadBuilder",
    "Schema",
    "SchemaChange",
    "Split",
    "StreamReadBuilder",
    "StreamTableCommit",
    "StreamTableScan",
    "StreamWriteBuilder",
    "Table",
    "TableRead",
    "TableScan",
    "TableWrite",
    "open_catalog",
]
