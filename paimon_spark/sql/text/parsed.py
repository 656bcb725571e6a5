"""sqlglot's trees of Spark's SQL."""

from __future__ import annotations

from sqlglot import exp, parse_one
from sqlglot.errors import ParseError, SqlglotError


def parsed(text: str) -> exp.Expr:
    """The tree of a statement or expression.  SqlglotError if sqlglot cannot read it.

    Its parser fails with other exceptions where it takes for granted what the text does not have.
    """
    try:
        tree: exp.Expr = parse_one(text, dialect="spark")
    except SqlglotError:
        raise
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError) as e:
        raise ParseError(f"cannot read {text!r}") from e
    except ValueError as e:
        raise ParseError(f"cannot read {text!r}: {e}") from e
    except RecursionError as e:
        raise ParseError("the text is nested too deeply") from e
    return tree


def is_expression(text: str) -> bool:
    """Whether the text is one expression, without a name or a clause behind it."""
    try:
        tree = parsed(f"SELECT {text}")
        parsed(f"SELECT ({text})")  # not: AS 'x'
    except SqlglotError:
        return False
    parts = {name for name, part in tree.args.items() if part}
    if not isinstance(tree, exp.Select) or parts != {"expressions"} or len(tree.expressions) != 1:
        return False
    (found,) = tree.expressions
    while isinstance(found, exp.Paren):
        found = found.this
    is_default = isinstance(found, exp.Column | exp.Var) and found.name.upper() == "DEFAULT"
    return not isinstance(found, exp.Alias | exp.Aliases | exp.Star) and not is_default
