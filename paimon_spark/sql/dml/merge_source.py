"""The source of a MERGE: what follows USING.

A query without an alias keeps the names of its tables, as in Spark: `USING (SELECT s.id, r.v FROM
s JOIN r ...) ON t.id = s.id`.  Here every query has an alias, which takes the place of these names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from paimon_spark.sql.dml.merge_clauses import Case
from paimon_spark.sql.dml.row_level import read_alias
from paimon_spark.sql.errors import AnalysisError
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
    namesake: tuple[str, ...] = ()
    """Catalog, database and table in lower case if the target has this name too."""

    def beside(self, database: str, target_alias: str, catalog: str) -> MergeSource:
        """The source with an alias of its own if the target has its name in another database.

        `catalog` is the current one.
        """
        names = [p.lower() for p in self.parts]
        same = self.alias.lower() == target_alias.lower() and names[-1:] == [self.alias.lower()]
        if not same or len(names) < 2 or names[-2] == database.lower():
            return self
        namesake = (*[catalog.lower()][: 3 - len(names)], *names)
        return replace(self, alias=_SOURCE, namesake=namesake)

    def requalified(self, expression: str, case: Case | None = None) -> str:
        """The expression with the alias in place of the names of the source's tables.

        `case` is that of the clause, None for the condition of the MERGE.
        """
        if self.namesake:
            return self._distinguished(expression, case)
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

    def _distinguished(self, expression: str, case: Case | None) -> str:
        """AnalysisError for the name alone where it may be that of the target too."""
        names = list(self.namesake)
        tokens = Words(expression).tokens
        pieces, done = [], 0
        for i, token in enumerate(tokens[:-2]):
            if token.text.lower() != names[-1] or tokens[i + 1].text != ".":
                continue
            first, width = i, 1
            while first > 1 and tokens[first - 1].text == ".":
                first, width = first - 2, width + 1
            if width == 1 and case in (None, Case.MATCHED):
                raise AnalysisError(
                    f"[AMBIGUOUS_REFERENCE] Reference {token.text}.{tokens[i + 2].text} is ambiguous: "
                    "the target and the source have this name",
                    next_step="give them aliases",
                )
            given = [t.text.lower() for t in tokens[first : i + 1 : 2]]
            if given == names[-width:] and (width > 1 or case is Case.NOT_MATCHED):
                pieces += [expression[done : tokens[first].start - len(START)], quoted(self.alias)]
                done = token.end + 1 - len(START)
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
