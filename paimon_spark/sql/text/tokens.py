"""The words of a statement, read one after another.

Statements that Spark's parser cannot pass on (DDL, DML, CALL) have a small grammar, which is read
here from sqlglot's tokens; expressions and queries inside them stay text, which Spark parses.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn, TypeVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from paimon_spark.sql.errors import SqlSyntaxError
from paimon_spark.sql.text.comments import is_blank

_T = TypeVar("_T")
_OPEN = {TokenType.L_PAREN: 1, TokenType.L_BRACKET: 1, TokenType.L_BRACE: 1}
_CLOSE = {TokenType.R_PAREN: 1, TokenType.R_BRACKET: 1, TokenType.R_BRACE: 1}
_OTHER_DIALECTS = (TokenType.NATIONAL_STRING, TokenType.HEREDOC_STRING, TokenType.BLOCK_START)
_TYPED = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_TEXTS = (TokenType.STRING, TokenType.RAW_STRING, TokenType.HEX_STRING, TokenType.IDENTIFIER)


QUERY_WORDS: Final = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")
"""The words with which a query begins."""
START = "("
"""Put before each text: sqlglot reads some first words, such as CALL, as a command
whose rest is one text."""


@dataclass(frozen=True, slots=True)
class Token:
    """One word, sign or quoted text; `end` is the place of its last character."""

    token_type: TokenType
    text: str
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """The tokens of START and the text.

    SqlSyntaxError for an open quote or comment, and for what sqlglot leaves out although it is no
    comment of Spark, such as `{# WHERE id = 1 #}`.
    """
    try:
        found = list(Spark().tokenize(START + text))
    except SqlglotError as e:
        raise SqlSyntaxError(f"[PARSE_SYNTAX_ERROR] {e}") from e
    tokens: list[Token] = []
    text, done, hints = START + text, 0, False
    for one in found:
        if not is_blank(text[done : one.start], hints=hints) or one.token_type in _OTHER_DIALECTS:
            raise _refused(text[done if text[done : one.start].strip() else one.start :])
        done, hints = one.end + 1, one.token_type is TokenType.HINT
        if one.token_type in _TEXTS or not any(c.isspace() for c in one.text):
            tokens.append(Token(one.token_type, one.text, one.start, one.end))
            continue
        # Some tokens of sqlglot have several words, such as PARTITIONED BY.
        for word in re.finditer(r"\S+", text[one.start : one.end + 1]):
            start = one.start + word.start()
            tokens.append(Token(one.token_type, word.group(), start, one.start + word.end() - 1))
    if not is_blank(text[done:]):
        raise _refused(text[done:])
    return tokens


def _refused(text: str) -> SqlSyntaxError:
    word = text.split(maxsplit=1)[0]
    return SqlSyntaxError(f"[PARSE_SYNTAX_ERROR] Syntax error at or near '{word}'")


def with_quoted_names(text: str) -> str:
    """The text with names such as t$snapshots in backquotes."""
    tokens = tokenize(text)
    text = START + text
    pieces: list[str] = []
    done, at = len(START), 1
    while at < len(tokens):
        last = at
        while _continues(tokens, last):
            last += 2
        first = tokens[at]
        if last > at and first.token_type not in _TEXTS:
            pieces += [text[done : first.start], "`", text[first.start : tokens[last].end + 1], "`"]
            done = tokens[last].end + 1
        at = last + 1
    return "".join([*pieces, text[done:]])


def with_backquoted_names(text: str) -> str:
    """The text with backquotes around the names that stand in double quotes."""
    tokens = tokenize(text)
    text = START + text
    pieces: list[str] = []
    done = len(START)
    for i, token in enumerate(tokens):
        if token.token_type is not TokenType.STRING or text[token.start] != '"':
            continue
        name = text[token.start + 1 : token.end]
        if i and tokens[i - 1].end + 1 == token.start and text[tokens[i - 1].end] == '"':
            # "a""b" is two tokens, and one name.
            pieces[-1] = f'{pieces[-1][:-1]}"{name}`'
        else:
            pieces += [text[done : token.start], f"`{name}`"]
        done = token.end + 1
    return "".join([*pieces, text[done:]])


def _continues(tokens: list[Token], at: int) -> bool:
    """Whether `$name` follows without a space."""
    if at + 2 >= len(tokens):
        return False
    name, dollar, more = tokens[at : at + 3]
    return (
        dollar.text == "$"
        and dollar.token_type not in _TEXTS
        and name.end + 1 == dollar.start
        and dollar.end + 1 == more.start
        and (name.text[:1].isalnum() or name.text[:1] == "_")
    )


class Words:
    """A cursor over the tokens of one statement."""

    def __init__(self, text: str) -> None:
        self.tokens = tokenize(text)
        self.text = START + text
        self.at = 1
        while len(self.tokens) > 1 and self.tokens[-1].token_type is TokenType.SEMICOLON:
            self.text = self.text[: self.tokens.pop().start]

    @property
    def done(self) -> bool:
        """Whether all words were read."""
        return self.at >= len(self.tokens)

    def fail(self, expected: str = "") -> NoReturn:
        """Raise SqlSyntaxError at the current word."""
        near = "end of input" if self.done else f"'{self.tokens[self.at].text}'"
        hint = f": expected {expected}" if expected else ""
        raise SqlSyntaxError(f"[PARSE_SYNTAX_ERROR] Syntax error at or near {near}{hint}")

    def word(self, offset: int = 0) -> str:
        """The word at the cursor in capitals; "" for quoted texts and at the end."""
        if self.at + offset >= len(self.tokens):
            return ""
        token = self.tokens[self.at + offset]
        return "" if token.token_type in _TEXTS else token.text.upper()

    def looks_at(self, *words: str) -> bool:
        return all(self.word(i) == w for i, w in enumerate(words))

    def eat(self, *words: str) -> bool:
        """Skip these words if they come next."""
        if not self.looks_at(*words):
            return False
        self.at += len(words)
        return True

    def eat_any(self, *words: str) -> str | None:
        """Skip the next word if it is one of these, and return it."""
        found = self.word()
        if found and found in words:
            self.at += 1
            return found
        return None

    def need(self, *words: str) -> None:
        if not self.eat(*words):
            self.fail(" ".join(words))

    def end(self) -> None:
        if not self.done:
            self.fail("the end of the statement")

    # --- parts ---

    def identifier(self) -> str:
        """A name, quoted or not; a bare one may hold dashes, `TAG-1`, only if quoted."""
        if self.done:
            self.fail("a name")
        token = self.tokens[self.at]
        if token.token_type is TokenType.IDENTIFIER:
            self.at += 1
            return token.text
        if token.token_type in (*_TEXTS, TokenType.NUMBER):
            self.fail("a name")
        if not (token.text[:1].isalnum() or token.text[:1] == "_"):
            self.fail("a name")
        start = token.start
        self._pass(start)
        return self.text[start : self.tokens[self.at - 1].end + 1]

    def name(self) -> list[str]:
        """The parts of a name with dots."""
        parts = [self.identifier()]
        while True:
            if self.eat("."):
                parts.append(self.identifier())
            else:
                return parts

    def string(self) -> str:
        """A quoted text; several in a row are one, as in Spark."""
        if self.done or not self.is_string():
            self.fail("a text in quotes")
        parts = []
        while self.is_string():
            parts.append(self.one_string())
        return "".join(parts)

    def one_string(self) -> str:
        """A quoted text, without those that follow it."""
        if not self.is_string():
            self.fail("a text in quotes")
        text = self.tokens[self.at].text
        self.at += 1
        while self.is_string() and self.tokens[self.at - 1].end + 1 == self.tokens[self.at].start:
            # 'it''s' is two tokens, and one text with a quote.
            token = self.tokens[self.at]
            text += self.text[token.start] + token.text
            self.at += 1
        return text

    def is_string(self) -> bool:
        return not self.done and self.tokens[self.at].token_type in (
            TokenType.STRING,
            TokenType.RAW_STRING,
        )

    def is_literal(self) -> bool:
        """Whether a quoted text or X'..' comes next, and not a quoted name."""
        if self.done or self.tokens[self.at].token_type is TokenType.IDENTIFIER:
            return False
        token = self.tokens[self.at]
        return token.token_type in _TEXTS and self.text[token.start] != "0"  # 0x1A is a name

    def integer(self) -> int:
        if self.done or not self.tokens[self.at].text.isdecimal():
            self.fail("a whole number")
        number = self.tokens[self.at]
        self._pass(number.start)
        return int(number.text)

    def _pass(self, start: int) -> None:
        """Pass over the tokens at this place: `1d` and `5L` are several at one."""
        while self.at < len(self.tokens) and self.tokens[self.at].start == start:
            self.at += 1

    def constant(self) -> str:
        """The text of one literal: NULL, a truth value, a number, a text, or one of another type.

        Nothing else may stand in a partition or a property, where no query would refuse it.
        """
        first = self.at
        if self.is_string():
            self.string()
        elif self.is_literal() or self.eat_any("NULL", "TRUE", "FALSE"):
            self.at = first + 1
        elif self.eat_any(*_TYPED):
            self.string()
        else:
            self.eat("-")
            if not self.word()[:1].isdecimal() and not self.word()[:2].strip(".").isdecimal():
                self.fail("a literal")
            self._pass(self.tokens[self.at].start)
        return self.text[self.tokens[first].start : self.tokens[self.at - 1].end + 1]

    def items(self, read: Callable[[], _T], *, may_be_empty: bool = False) -> list[_T]:
        """The items in parentheses, separated by commas: at least one, as in Spark's grammar."""
        self.need("(")
        found: list[_T] = []
        if may_be_empty and self.eat(")"):
            return found
        while True:
            found.append(read())
            if self.eat(")"):
                return found
            self.need(",")

    # --- text ---

    def rest(self) -> str:
        """The text from the cursor to the end of the statement."""
        found = "" if self.done else self.text[self.tokens[self.at].start :]
        self.at = len(self.tokens)
        return found

    def expression(self, *stops: str) -> str:
        """The text up to one of these words, outside parentheses and CASE ... END."""
        first, depth, cases = self.at, 0, 0
        while not self.done:
            word, kind = self.word(), self.tokens[self.at].token_type
            if depth == 0 and cases == 0 and word in stops and self.at >= first:
                break
            if kind in _OPEN:
                depth += 1
            elif kind in _CLOSE:
                if depth == 0:
                    break
                depth -= 1
            elif word == "CASE":
                cases += 1
            elif word == "END" and cases:
                cases -= 1
            self.at += 1
        if self.at == first:
            self.fail("an expression")
        return self.text[self.tokens[first].start : self.tokens[self.at - 1].end + 1]

    def parenthesized(self) -> str:
        """The text between the next parentheses."""
        self.need("(")
        if self.eat(")"):
            return ""
        first = self.at
        depth = 0
        while not self.done:
            kind = self.tokens[self.at].token_type
            if kind in _CLOSE:
                if depth == 0:
                    break
                depth -= 1
            elif kind in _OPEN:
                depth += 1
            self.at += 1
        if self.done:
            self.fail(")")
        found = self.text[self.tokens[first].start : self.tokens[self.at - 1].end + 1]
        self.need(")")
        return found


def opens_query(words: Words) -> bool:
    """Whether a query begins at the cursor, in parentheses or not."""
    at = 0
    while words.word(at) == "(":
        at += 1
    return words.word(at) in QUERY_WORDS
