"""The source of a MERGE: what follows USING.

A query without an alias keeps the names of its tables, as in Spark: `USING (SELECT s.id, r.v FROM
s JOIN r ...) ON t.id = s.id`.  Here every query has an alias, which takes the place of these names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from paimon_spark.sql.dml.row_level import read_alias
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.parsed import parsed
from paimon_spark.sql.text.tokens import START, Words

_SOURCE: Final = "__source"
"""The alias of a source that has no name."""


@dataclass(frozen=True, slots=True)
class MergeSource:
    """The source as SQL, its alias, and the names of tables that the alias stands for."""

    text: str
    alias: str
    replaced: frozenset[str] = frozenset()
    parts: tuple[str, ...] = ()
    """The name of a table or view, none of a query."""

    def requalified(self, expression: str) -> str:
        """The expression with the alias in place of the names of the source's tables."""
        if not self.replaced:
            return expression
        tokens = Words(expression).tokens
        pieces, done = [], 0
        for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
            if token.text.lower() in self.replaced and after.text == "." and before.text != ".":
                start, end = token.start - len(START), token.end + 1 - len(START)
                pieces += [expression[done:start], quoted(self.alias)]
                done = end
        return "".join([*pieces, expression[done:]])


def read_source(words: Words, target_alias: str) -> MergeSource:
    """The source, up to ON."""
    if words.looks_at("("):
        query = words.parenthesized()
        alias = read_alias(words, "ON")
        if alias is not None:
            return MergeSource(f"({query})", alias)
        return _without_alias(query, target_alias)
    parts = words.name()
    text = ".".join(quoted(p) for p in parts)
    alias = read_alias(words, "ON") or parts[-1]
    return MergeSource(text, alias, parts=tuple(parts))


def _without_alias(query: str, target_alias: str) -> MergeSource:
    names = {n for n in _tables(query) if n.lower() != target_alias.lower()}
    if len(names) == 1:
        return MergeSource(f"({query})", next(iter(names)))
    return MergeSource(f"({query})", _SOURCE, frozenset(n.lower() for n in names))


def _tables(query: str) -> set[str]:
    """The names that qualify the columns of a query, whose first part names those of a union."""
    try:
        tree: exp.Expr | None = parsed(query)
    except SqlglotError:
        return set()
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    if not isinstance(tree, exp.Select):
        return set()
    from_ = tree.args.get("from_") or tree.args.get("from")
    sources = [from_, *(tree.args.get("joins") or ())]
    return {s.this.alias_or_name for s in sources if s is not None and s.this.alias_or_name}
