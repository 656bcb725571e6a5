"""Text as statements."""

from __future__ import annotations

import pytest

from paimon_spark.sql.errors import SqlSyntaxError
from paimon_spark.sql.text.splitter import split_statements
from paimon_spark.sql.text.tokens import Words, with_quoted_names


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        (" ;; -- nothing\n /* ; */ ;", []),
        ("a; b", ["a", "b"]),
        ("a;\n-- c ; d\nb;", ["a", "-- c ; d\nb"]),
        ("select ';' , \";\", `;`; b", ["select ';' , \";\", `;`", "b"]),
        (r"select 'it\'s;' ; b", [r"select 'it\'s;'", "b"]),
        ("select 'a'';' ; b", ["select 'a'';'", "b"]),
        ("a /* x /* ; */ ; */ b; c", ["a /* x /* ; */ ; */ b", "c"]),
        ("select 'open ; b", ["select 'open ; b"]),
    ],
)
def test_statements_end_outside_of_quotes_and_comments(text: str, statements: list[str]) -> None:
    assert split_statements(text) == statements


def test_names_of_system_tables_get_their_quotes() -> None:
    text = "select '$a$b', t$snapshots.x from db.t$branch_b$snapshots where a = '$'"
    assert with_quoted_names(text) == (
        "select '$a$b', `t$snapshots`.x from db.`t$branch_b$snapshots` where a = '$'"
    )


def test_an_expression_ends_outside_of_parentheses_and_cases() -> None:
    words = Words("f(a, then) + CASE WHEN a THEN b END THEN x")
    assert words.expression("THEN") == "f(a, then) + CASE WHEN a THEN b END"
    assert words.eat("THEN")
    assert words.rest() == "x"


def test_an_open_quote_is_a_syntax_error() -> None:
    with pytest.raises(SqlSyntaxError, match="PARSE_SYNTAX_ERROR"):
        Words("select 'x")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (r"VALUES (r'\'), ('a; DELETE FROM t --')", [r"VALUES (r'\'), ('a; DELETE FROM t --')"]),
        (r'SELECT R"\"; SELECT 2', [r'SELECT R"\"', "SELECT 2"]),
        (r"SELECT br'\'; x'", [r"SELECT br'\'; x'"]),
        ("a -- x \\\n; b", ["a -- x \\\n; b"]),
        ("a -- x\r; b", ["a -- x", "b"]),
    ],
)
def test_texts_and_comments_end_where_they_do_in_spark(text: str, parts: list[str]):
    assert split_statements(text) == parts
