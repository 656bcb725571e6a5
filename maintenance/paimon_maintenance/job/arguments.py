"""Job arguments: names, kinds and help texts, the source of CLI options and Airflow forms.

Names are those of Paimon's procedures.  An argument converts raw values (text from the command
line, JSON from a form) to one typed value, or raises an InvalidArgument that names the argument.
DAG files import this module, so it imports nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from paimon_core.errors import InvalidArgument
from paimon_core.options import parse_bool, parse_duration_millis, parse_memory_size
from paimon_maintenance.job.text import exact_duration, exact_size

_COMMA: Final = re.compile(r"(?<!\\),")
_SEMICOLON: Final = re.compile(r"(?<!\\);")
_CAPITAL: Final = re.compile(r"(?<=[a-z])[A-Z]")


def with_underscores(name: str) -> str:
    """The argument name in snake_case.

    Paimon's procedures use both consumerId and next_snapshot.
    """
    return _CAPITAL.sub(lambda m: f"_{m.group().lower()}", name.replace("-", "_"))


class Kind(StrEnum):
    """The type of an argument value."""

    TEXT = "text"  # str
    CHOICE = "choice"  # str, one of `choices`
    INTEGER = "integer"  # int
    BOOLEAN = "boolean"  # bool
    DURATION = "duration"  # int, milliseconds; written "1 d", "90 min"
    SIZE = "size"  # int, bytes; written "128 mb"
    PARTITIONS = "partitions"  # tuple of dicts; written "dt=1,hh=2", repeated or joined by ";"
    OPTIONS = "options"  # dict of str; written "key=value", repeated or joined by ","
    TEXTS = "texts"  # tuple of str; repeated or joined by ","


_SCHEMA_TYPES: Final[Mapping[Kind, list[str]]] = {
    Kind.TEXT: ["string", "null"],
    Kind.CHOICE: ["string", "null"],
    Kind.INTEGER: ["integer", "null"],
    Kind.BOOLEAN: ["boolean", "null"],
    Kind.DURATION: ["string", "null"],
    Kind.SIZE: ["string", "null"],
    Kind.PARTITIONS: ["array", "null"],
    Kind.OPTIONS: ["object", "null"],
    Kind.TEXTS: ["array", "null"],
}
REPEATABLE: Final = frozenset({Kind.PARTITIONS, Kind.OPTIONS, Kind.TEXTS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a job.

    `name` is the procedure's name with underscores.  `flag` is the name on the command line,
    without leading dashes, if it differs from `name`.  `aliases` are other names that JSON may use.
    `default` is a typed value; `least` is the minimum of a number.
    """

    name: str
    kind: Kind
    help: str
    default: object = None
    choices: tuple[str, ...] = ()
    flag: str | None = None
    aliases: tuple[str, ...] = ()
    example: str | None = None
    least: int | None = None

    @property
    def option(self) -> str:
        """The command line option, for example "--partition-idle-time"."""
        return f"--{self.flag or self.name.replace('_', '-')}"

    @property
    def other_options(self) -> tuple[str, ...]:
        """Other command line spellings: the procedure's own name, if it differs."""
        words = (f"--{name.replace('_', '-')}" for name in (self.name, *self.aliases))
        return tuple(w for w in dict.fromkeys(words) if w != self.option)

    @property
    def repeatable(self) -> bool:
        """Whether the option may be given more than once."""
        return self.kind in REPEATABLE

    def read(self, raw: object) -> object:
        """The typed value of a raw one; the default for None and for blank text."""
        if raw is None or (isinstance(raw, str) and not raw.strip()):
            return self.default
        try:
            return _READERS[self.kind](self, raw)
        except (ValueError, TypeError) as e:
            reason = e.message if isinstance(e, InvalidArgument) else str(e)
            raise InvalidArgument(f"argument {self.option}: {reason}") from e

    def json_schema(self) -> dict[str, object]:
        """The JSON schema of a form field for Airflow's Params, without the default.

        Every field may be null, which means no value.
        """
        schema: dict[str, object] = {
            "title": self.name.replace("_", " "),
            "description": self.help,
            "type": list(_SCHEMA_TYPES[self.kind]),
        }
        if self.choices and self.kind is Kind.CHOICE:
            schema["enum"] = [*self.choices, None]
        if self.kind in (Kind.PARTITIONS, Kind.TEXTS):
            schema["items"] = {"type": "string"}
            if self.choices:
                schema["items"] = {"type": "string", "enum": [*self.choices]}
        if self.least is not None:
            schema["minimum"] = self.least
        if self.kind is Kind.OPTIONS:
            schema["additionalProperties"] = {"type": "string"}
        if self.example is not None:
            schema["examples"] = [self.example]
        return schema

    def json_default(self) -> object:
        """The default as a JSON value for a form; None without a default."""
        if isinstance(self.default, tuple):
            return list(self.default) or None
        if isinstance(self.default, Mapping):
            return dict(self.default) or None
        if isinstance(self.default, int) and self.kind is Kind.SIZE:
            return exact_size(self.default)
        if isinstance(self.default, int) and self.kind is Kind.DURATION:
            return exact_duration(self.default)
        return self.default


def _text(_: Argument, raw: object) -> str:
    return _scalar(raw)


def _scalar(raw: object) -> str:
    """The text of a JSON string, number or truth value; of nothing else, null included."""
    if isinstance(raw, bool):
        return str(raw).lower()
    if not isinstance(raw, str | int | float):
        raise TypeError(f"expected text, got {raw!r}")
    text = str(raw)
    text.encode()  # UnicodeEncodeError for bytes of the command line that are no UTF-8
    return text


def _choice(argument: Argument, raw: object) -> str:
    text = str(raw).strip().lower()
    if text not in argument.choices:
        raise ValueError(f"{raw!r} is not one of {', '.join(argument.choices)}")
    return text


def _integer(argument: Argument, raw: object) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        raise TypeError(f"{raw!r} is not a whole number")
    try:
        number = int(raw)
    except ValueError as e:
        raise ValueError(f"{raw!r} is not a whole number") from e
    if not -(2**63) <= number < 2**63:
        raise ValueError("a whole number has at most 64 bits")
    if argument.least is not None and number < argument.least:
        raise ValueError(f"{number} is less than {argument.least}")
    return number


def _boolean(_: Argument, raw: object) -> bool:
    return raw if isinstance(raw, bool) else parse_bool(str(raw))


def _duration(_: Argument, raw: object) -> int:
    return parse_duration_millis(str(raw))


def _size(_: Argument, raw: object) -> int:
    return parse_memory_size(str(raw))


def _items(raw: object, separator: str | re.Pattern[str]) -> list[object]:
    if isinstance(raw, str):
        parts = raw.split(separator) if isinstance(separator, str) else separator.split(raw)
        return [part for part in parts if part.strip()]
    if isinstance(raw, Sequence):
        return [
            item
            for each in raw
            for item in (_items(each, separator) if isinstance(each, str) else [each])
        ]
    raise TypeError(f"expected a list of strings, got {raw!r}")


def _key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"expected key=value, got {text.strip()!r}")
    return key.strip(), value.strip()


def _partitions(_: Argument, raw: object) -> tuple[dict[str, str], ...]:
    specs = []
    for item in _items(raw, _SEMICOLON):
        if isinstance(item, Mapping):
            spec = {str(k): _scalar(v) for k, v in item.items()}
        else:
            # A comma or semicolon inside a value is written "\," or "\;".
            parts = _COMMA.split(_scalar(item))
            spec = dict(
                _key_value(part.replace("\\,", ",").replace("\\;", ";"))
                for part in parts
                if part.strip()
            )
        if not spec:
            raise ValueError("empty partition")
        specs.append(spec)
    return tuple(specs)


def _options(_: Argument, raw: object) -> dict[str, str]:
    if isinstance(raw, Mapping):
        return {str(k): _scalar(v) for k, v in raw.items()}
    if isinstance(raw, str):
        # As in the procedures, one value may hold several options: "a=1,b=2".
        return dict(_key_value(part) for part in raw.split(",") if part.strip())
    # A repeated --option holds exactly one option, so its value may contain commas.
    return dict(_key_value(str(part)) for part in _items(raw, "\0"))


def _texts(argument: Argument, raw: object) -> tuple[str, ...]:
    texts = tuple(_scalar(item).strip() for item in _items(raw, ","))
    if argument.choices:
        texts = tuple(t if t in argument.choices else t.replace("-", "_") for t in texts)
    wrong = [t for t in texts if t not in argument.choices]
    if argument.choices and wrong:
        raise ValueError(f"{wrong[0]!r} is not one of {', '.join(argument.choices)}")
    return texts


_READERS: Final = {
    Kind.TEXT: _text,
    Kind.CHOICE: _choice,
    Kind.INTEGER: _integer,
    Kind.BOOLEAN: _boolean,
    Kind.DURATION: _duration,
    Kind.SIZE: _size,
    Kind.PARTITIONS: _partitions,
    Kind.OPTIONS: _options,
    Kind.TEXTS: _texts,
}


def read_arguments(arguments: Iterable[Argument], raw: Mapping[str, object]) -> dict[str, object]:
    """Every argument's typed value, defaults included; InvalidArgument for unknown names."""
    known = {name: a for a in arguments for name in (a.name, *a.aliases)}
    values = {a.name: a.default for a in known.values()}
    given: dict[str, str] = {}
    for name, value in raw.items():
        argument = known.get(with_underscores(name))
        if argument is None:
            names = ", ".join(sorted({a.name for a in known.values()}))
            raise InvalidArgument(f"unknown argument {name!r} (known arguments: {names})")
        if value is None:
            continue
        other = given.setdefault(argument.name, name)
        if other != name:
            raise InvalidArgument(f"{other} and {name} are the same argument: give one of them")
        values[argument.name] = argument.read(value)
    return values


def shown_arguments(arguments: Mapping[str, object]) -> dict[str, object]:
    """The typed values as JSON for plans and reports, without empty ones."""
    shown: dict[str, object] = {}
    for name, value in arguments.items():
        if value is None or value is False or value in ((), {}):
            continue
        shown[name] = list(value) if isinstance(value, tuple) else value
    return shown
