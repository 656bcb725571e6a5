"""The options of Paimon, the types of their values, and what Caretaker does with them.

Java reads an option only when it is needed.  A misspelled key is never read, and an invalid value
fails a job days after the table was created.  So both are checked when a table is created, and by
`caretaker inspect`.

`paimon_options.tsv` lists the options of tables in 1.4.2, 2.0.0 and the development version: those
of Java's `CoreOptions`, of file formats, indexes, Iceberg metadata, lookup, and of the connectors
for Flink, Spark and Hive.  `tools/paimon_options.py` makes it from the Java sources.  Lists and
texts are not checked here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from importlib.resources import files
from typing import Final

from paimon_core.errors import InvalidArgument, SchemaError
from paimon_core.options import (
    all_options,
    check_option,
    parse_bool,
    parse_duration_millis,
    parse_float,
    parse_int,
    parse_memory_size,
)

_FILE: Final = files("paimon_core").joinpath("paimon_options.tsv")


class Treatment(StrEnum):
    """What Caretaker does with an option."""

    HONOURED = "honoured"
    NO_EFFECT = "no effect"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownOption:
    """An option of Paimon: the Java class and the versions that declare it, and its treatment.

    `values` are the words of an enumeration, in lower case; empty for other types.
    """

    key: str
    type: str
    values: tuple[str, ...]
    declared_in: str
    versions: tuple[str, ...]
    treatment: Treatment


def _read() -> dict[str, KnownOption]:
    found: dict[str, KnownOption] = {}
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        key, kind, values, declared_in, versions, treatment = line.split("\t")
        found[key] = KnownOption(
            key=key,
            type=kind,
            values=tuple(v for v in values.split(",") if v),
            declared_in=declared_in,
            versions=tuple(versions.split(",")),
            treatment=Treatment(treatment),
        )
    return found


KNOWN_OPTIONS: Final[Mapping[str, KnownOption]] = _read()
_FAMILIES: Final = (
    *("fields.", "orc.", "parquet.", "avro.", "csv.", "json.", "text.", "file-index."),
    *("metadata.iceberg.", "rocksdb.", "btree-index.", "bitmap-index.", "lumina.", "pk-"),
    *("blob-descriptor.", "log.", "kafka.", "hadoop.", "fs.", "s3.", "hive."),
)
"""Prefixes of keys that columns, file formats and other systems complete."""
_VECTOR_LENGTH: Final = re.compile(r"field\..+\.vector-dim")
_OTHERS: Final = frozenset(
    {
        *("connector", "provider", "owner", "comment", "collation", "location", "external"),
        "transient_lastDdlTime",
    }
)
"""Keys that engines and metastores store in the options."""
_LIKE: Final = 0.85
"""The minimum similarity of two keys for a suggestion."""

_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    "boolean": parse_bool,
    "integer": parse_int,
    "fraction": parse_float,
    "size": parse_memory_size,
    "duration": parse_duration_millis,
}
_OWN: Final[Mapping[str, tuple[str, ...]]] = {
    "caretaker.maintenance": ("on", "off", "true", "false", "yes", "no", "none"),
    "caretaker.owner": (),
    "caretaker.maintained-jobs": (),
    "caretaker.commit-by-rename": (),
    "caretaker.request-deadline": (),
}
"""Caretaker's own options, with the words that one takes.  A misspelled one must not be ignored in
silence: it may keep the scheduler away."""
_NAMES: Final = frozenset({*KNOWN_OPTIONS, *_OTHERS, *_OWN})
_BY_TRAITS: Final = "merge-engine"
"""The option whose values are the rows of `lsm/engines/traits.py`."""


def _parse_word(text: str, *, words: tuple[str, ...]) -> str:
    if text.strip().lower() not in words:
        raise InvalidArgument(f"it must be one of {', '.join(words)}")
    return text


def _parser(key: str) -> Callable[[str], object] | None:
    if words := _OWN.get(key):
        return partial(_parse_word, words=words)
    option = KNOWN_OPTIONS.get(key)
    if option is None or key == _BY_TRAITS:
        return None
    return partial(_parse_word, words=option.values) if option.values else _PARSERS.get(option.type)


def unknown_options(options: Mapping[str, str]) -> list[str]:
    """Return the keys that neither Paimon nor Caretaker knows, sorted."""
    known = _NAMES | {name for o in all_options() for name in (o.key, *o.fallback_keys)}
    return sorted(
        k
        for k in options
        if k not in known and not k.startswith(_FAMILIES) and not _VECTOR_LENGTH.fullmatch(k)
    )


def unreadable_options(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each key with an invalid value, and the reason, sorted by key."""
    for key, text in sorted(options.items()):
        try:
            check_value(key, text)
        except SchemaError as e:
            yield key, e.message


def check_values(options: Mapping[str, str]) -> None:
    """Raise SchemaError for the first option with an invalid value."""
    for key, text in sorted(options.items()):
        check_value(key, text)


def check_value(key: str, text: str) -> None:
    """Raise SchemaError if Paimon or Caretaker knows the option and the value is invalid."""
    try:
        parse = _parser(key)
        if parse is not None:
            parse(text)
        check_option(key, text)
    except InvalidArgument as e:
        why = e.message.partition(": ")[2] if e.message.startswith("table option") else e.message
        raise SchemaError(
            f"the option {key} cannot have the value {text!r}: {why}",
            next_step=f"correct the option {key}, and run again",
        ) from e


def similar_name(key: str) -> str | None:
    """Return the known option most similar to the key; None if none is similar."""
    near = get_close_matches(key, _NAMES, n=1, cutoff=_LIKE)
    return near[0] if near else None
