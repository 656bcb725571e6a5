"""Row predicates: parsed from SQL or JSON, evaluated on columns, single rows and statistics.

::

    nodes     Leaf | And | Or          where     SQL text -> predicate
      |                                sql_text  predicate -> SQL text
      |                                columns   evaluate over Arrow columns
      `-- rows, may_match, ...         pruning   may a file with these statistics match?

All comparisons follow Java: strings by their UTF-8 bytes, binary unsigned, -0.0 < 0.0 < ... < NaN,
and a null makes every comparison false.
"""

from paimon_core.predicate.columns import evaluate, to_arrow_expression
from paimon_core.predicate.nodes import (
    FALSE,
    TRUE,
    And,
    Leaf,
    Op,
    Or,
    Predicate,
    conjunction,
    disjunction,
    fields_of,
    from_oracle_filter,
    matches_row,
    negate,
    renamed,
    split_conjuncts,
)
from paimon_core.predicate.pruning import may_match
from paimon_core.predicate.sql_text import to_sql
from paimon_core.predicate.where import parse_where

__all__ = [
    "FALSE",
    "TRUE",
    "And",
    "Leaf",
    "Op",
    "Or",
    "Predicate",
    "conjunction",
    "disjunction",
    "evaluate",
    "fields_of",
    "from_oracle_filter",
    "matches_row",
    "may_match",
    "negate",
    "parse_where",
    "renamed",
    "split_conjuncts",
    "to_arrow_expression",
    "to_sql",
]
