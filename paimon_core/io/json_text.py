"""JSON as Java Paimon prints it (Jackson's default pretty printer).

Objects are indented by two spaces per level, arrays stay on one line, colons have a space on both
sides, empty values are `{ }` and `[ ]`, and only characters that require it are escaped.  Decimal
fractions are read as `Decimal` and keep their digits.

    >>> print(to_pretty_json({"version": 3, "fields": [{"id": 0}], "keys": []}))
    {
      "version" : 3,
      "fields" : [ {
        "id" : 0
      } ],
      "keys" : [ ]
    }
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NoReturn

MOST_NESTED: Final = 200
_LONGEST_NUMBER: Final = 1000
_MOST_EXPONENT: Final = 400
# An unterminated string matches too: restarting at each of its quotes would take quadratic time.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_SURROGATE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]")
_LOWER_ESCAPE: Final = re.compile(r"\\u00([01][0-9a-f])")


def parse_json_object(data: bytes | str) -> dict[str, object]:
    """Parse a JSON object and keep the order of its keys; ValueError for anything else."""
    value = parse_json(data)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {type(value).__name__}")  # noqa: TRY004 - all unreadable text is a ValueError
    return value


def parse_json(data: bytes | str) -> Any:
    """Parse a JSON value.

    Raises ValueError if the text is not JSON, is nested deeper than `MOST_NESTED`, or holds a
    number with too many digits, an exponent beyond the range of a double, or half of a surrogate
    pair, which no file can store as text.
    """
    text = data if isinstance(data, str) else data.decode("utf-8")
    _check_nesting(text)
    value = json.loads(text, parse_float=_decimal, parse_int=_integer, parse_constant=_no_number)
    if _SURROGATE.search(text):
        to_flat_json(value).encode()  # UnicodeEncodeError is a ValueError
    return value


def _check_nesting(text: str) -> None:
    if text.count("{") + text.count("[") <= MOST_NESTED:
        return
    depth = 0
    for token in _TOKEN.finditer(text):
        if token.group() in "{[":
            depth += 1
            if depth > MOST_NESTED:
                raise ValueError(f"JSON that is nested deeper than {MOST_NESTED} levels")
        elif token.group() in "}]":
            depth -= 1


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if len(text) > _LONGEST_NUMBER or not -_MOST_EXPONENT < value.adjusted() < _MOST_EXPONENT:
        raise ValueError(f"the number {text[:40]} is out of range")
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


def to_pretty_json(value: object) -> str:
    """Return the text of a value as Java prints it."""
    parts: list[str] = []
    _print(value, 0, parts)
    return "".join(parts)


def to_flat_json(value: object) -> str:
    """Return the text of a value on one line without spaces; fractions as doubles."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_double)


def _double(value: object) -> float:
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"no JSON form of {type(value).__name__}")


def _print(value: object, depth: int, parts: list[str]) -> None:
    if isinstance(value, Mapping):
        _print_object(value, depth, parts)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            parts.append("[ ]")
            return
        for i, item in enumerate(value):
            parts.append(", " if i else "[ ")
            _print(item, depth, parts)
        parts.append(" ]")
    elif isinstance(value, Decimal):
        parts.append(str(value))
    elif isinstance(value, str):
        parts.append(_quote(value))
    elif value is None or isinstance(value, bool | int | float):
        parts.append(json.dumps(value))
    else:
        raise TypeError(f"no JSON form of {type(value).__name__}")


def _print_object(value: Mapping[str, object], depth: int, parts: list[str]) -> None:
    if not value:
        parts.append("{ }")
        return
    indent = "\n" + "  " * (depth + 1)
    for i, (key, item) in enumerate(value.items()):
        parts.append(("," if i else "{") + indent + _quote(key) + " : ")
        _print(item, depth + 1, parts)
    parts.append("\n" + "  " * depth + "}")


def _quote(text: str) -> str:
    quoted = json.dumps(str(text), ensure_ascii=False)
    if "\\u00" in quoted:
        quoted = _upper_escapes(quoted)
    return quoted


def _upper_escapes(quoted: str) -> str:
    # An escaped backslash before "u00.." is text, not an escape: walk over pairs.
    pieces = quoted.split("\\\\")
    return "\\\\".join(
        _LOWER_ESCAPE.sub(lambda m: "\\u00" + m.group(1).upper(), piece) for piece in pieces
    )
