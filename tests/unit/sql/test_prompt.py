"""The prompt of `caretaker sql`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sql_sessions import Sql

from paimon_maintenance.cli.sql.prompt import (
    HISTORY_VARIABLE,
    MORE,
    PROMPT,
    candidates,
    read_statements,
    table_text,
)
from paimon_spark.sql.result import NOTHING, Result


@pytest.fixture
def sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sql:
    monkeypatch.setenv(HISTORY_VARIABLE, str(tmp_path / "history"))
    return Sql(tmp_path / "lake")


def typing(*lines: str | type[BaseException]) -> tuple[Callable[[str], str], list[str]]:
    prompts: list[str] = []
    left = list(lines)

    def read_line(prompt: str) -> str:
        prompts.append(prompt)
        line = left.pop(0) if left else EOFError
        if isinstance(line, str):
            return line
        raise line

    return read_line, prompts


def test_statements_end_with_a_semicolon(sql: Sql) -> None:
    read_line, prompts = typing(
        "SELECT 'a;", "b' -- no; end", "; SELECT 2; SELECT", "3;", "", "quit"
    )
    assert list(read_statements(sql.session, read_line)) == [
        "SELECT 'a;\nb' -- no; end",
        "SELECT 2",
        "SELECT\n3",
    ]
    assert prompts == [PROMPT, MORE, MORE, MORE, PROMPT, PROMPT]


def test_an_interrupt_drops_the_statement(sql: Sql) -> None:
    read_line, _ = typing("DROP TABLE", KeyboardInterrupt, "SHOW TABLES;")
    assert list(read_statements(sql.session, read_line)) == ["SHOW TABLES"]


def test_completion(sql: Sql) -> None:
    sql("CREATE TABLE orders (order_id INT, amount INT); CREATE DATABASE shop")
    sql("CREATE TABLE shop.items (a INT)")
    assert candidates(sql.session, "ord", "SELECT * FROM ord") == ["order", "orders"]
    assert candidates(sql.session, "am", "SELECT a FROM orders WHERE am") == ["amount"]
    assert candidates(sql.session, "shop.", "SELECT * FROM shop.") == ["shop.items"]
    assert "SHOW" in candidates(sql.session, "SH", "SH")
    assert candidates(sql.session, "nowhere.", "nowhere.") == []


def test_answers_are_aligned() -> None:
    text = table_text(Result(("id", "name"), [[1, "ada"], [20, None]]))
    assert text == "id  name\n--  ----\n1   ada\n20  null\n(2 rows)\n"
    assert table_text(NOTHING) == "OK\n"
