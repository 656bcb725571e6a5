"""Which partitions of a chain table are read together (Java: `utils/ChainTableUtils`).

A partition of the delta branch holds the changes since the partition before it.  Its rows are those
of the *anchor*, the nearest earlier partition of the snapshot branch, merged with the delta
partitions after the anchor and up to itself.  Partitions are in *groups*: only those with equal
values before the chain's own columns (`chain-table.chain-partition-keys`) belong together.

Java does not list the delta partitions after an anchor: it makes their values from each day, or
each hour if the chain has several columns, so that partitions of other values are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.features import CHAIN_PARTITION_KEYS
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import PARTITION_TIMESTAMP_FORMATTER, PARTITION_TIMESTAMP_PATTERN
from paimon_core.types.binary_row import decode_row
from paimon_core.types.data_types import CHARACTER_TYPES
from paimon_core.types.date_time_format import DateTimeFormat
from paimon_core.types.partition_time import put_together

_LETTERS: Final = {
    "yyyy": "%Y",
    "uuuu": "%Y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
}
_TOKENS: Final = re.compile(r"([A-Za-z])\1*|'[^']*'|[^A-Za-z']")
_KEYS: Final = re.compile(r"\$(\w+)", re.ASCII)
_DAY: Final = timedelta(days=1)
_HOURS: Final = 24

Values = tuple[str, ...]
"""The values of the partition columns that form the chain."""


@dataclass(frozen=True, slots=True)
class ChainKeys:
    """How a table divides its partitions: `group` columns come first, `chain` names the others."""

    table: FileStoreTable
    group: int
    chain: tuple[str, ...]

    @staticmethod
    def of(table: FileStoreTable) -> ChainKeys:
        """Return the division that the table's options define.

        Raises InvalidArgument for columns that do not end the partition keys, UnsupportedFeature
        for chains of other types than strings.
        """
        keys = table.schema.partition_keys
        text = table.options.get(CHAIN_PARTITION_KEYS, "")
        chain = tuple(n.strip() for n in text.split(",") if n.strip()) or keys
        group = len(keys) - len(chain)
        if group < 0 or keys[group:] != chain:
            raise InvalidArgument(
                f"{CHAIN_PARTITION_KEYS} of table {table.name} does not name the last partition keys",
                table=table.name,
            )
        for field in table.schema.partition_type.fields[group:]:
            if field.type.root not in CHARACTER_TYPES:
                raise _unsupported(table, f"partition column {field.name} that is not a string")
        return ChainKeys(table, group, chain)

    def divided(self, partition: bytes) -> tuple[tuple[object, ...], Values]:
        """Return the values of a partition's group, and those of its chain."""
        types = [f.type for f in self.table.schema.partition_type.fields]
        values = tuple(decode_row(partition, types))
        chain = tuple(v for v in values[self.group :] if isinstance(v, str))
        if len(chain) != len(self.chain):
            raise _unsupported(self.table, "a null in a partition column")
        return values[: self.group], chain

    def time_of(self, values: Values) -> datetime:
        """Return the time that the values represent, in UTC for lack of a zone.

        Raises UnsupportedFeature where Java fails, too.
        """
        options = self.table.options
        formatter = options.value(PARTITION_TIMESTAMP_FORMATTER)
        pattern = options.value(PARTITION_TIMESTAMP_PATTERN)
        if formatter is None or pattern is None:
            raise _unsupported(self.table, "no partition.timestamp-pattern or -formatter")
        text = put_together(pattern, dict(zip(self.chain, values, strict=True)))
        millis = None if text is None else DateTimeFormat.of(formatter).millis(text)
        if millis is None:
            raise _unsupported(self.table, f"partition {','.join(values)} that is not a time")
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=millis)

    def between(self, begin: Values, end: Values) -> Iterator[Values]:
        """Yield the values after `begin` and up to `end` that Java looks for."""
        start, last = self.time_of(begin), self.time_of(end)
        at = start
        while at <= last:
            if len(self.chain) == 1:
                if at > start:
                    yield self._values_at(at)
            else:
                day = _midnight(at)
                for hour in range(_HOURS):
                    values = self._values_at(day + timedelta(hours=hour))
                    if byte_order(begin) < byte_order(values) <= byte_order(end):
                        yield values
            at = _midnight(at) + _DAY

    def _values_at(self, time: datetime) -> Values:
        formatter = self.table.options.value(PARTITION_TIMESTAMP_FORMATTER) or ""
        pattern = self.table.options.value(PARTITION_TIMESTAMP_PATTERN) or ""
        names = _KEYS.findall(pattern)
        literals = map(re.escape, _KEYS.split(pattern)[::2])
        found = re.fullmatch("(.+)".join(literals), time.strftime(_strftime(self.table, formatter)))
        if found is None:
            raise _unsupported(self.table, f"partition.timestamp-pattern={pattern}")
        values = dict(zip(names, found.groups(), strict=True))
        return tuple(values.get(name, "") for name in self.chain)


@dataclass(frozen=True, slots=True)
class Link:
    """A partition, and those whose rows it consists of: an anchor if there is one, and deltas."""

    partition: bytes
    anchor: bytes | None
    deltas: tuple[bytes, ...] = ()


def links(
    keys: ChainKeys,
    snapshots: Iterable[bytes],
    deltas: Iterable[bytes],
    skip: frozenset[bytes],
    *,
    again: frozenset[bytes] = frozenset(),
) -> list[Link]:
    """Return what each partition of either branch consists of, except those in `skip`.

    A partition of the snapshot branch is complete by itself, unless it is in `again`.
    """
    whole = list(snapshots)
    complete = set(whole) - again
    found = [Link(p, p) for p in whole if p not in skip and p in complete]
    ends = [p for p in deltas if p not in skip and p not in complete]
    chains = _by_group(keys, whole), _by_group(keys, deltas)
    for partition in ends:
        group, values = keys.divided(partition)
        anchors, own = (c.get(group, {}) for c in chains)
        earlier = [v for v in anchors if byte_order(v) < byte_order(values)]
        if not earlier:
            taken = sorted((v for v in own if byte_order(v) <= byte_order(values)), key=byte_order)
            found.append(Link(partition, None, tuple(own[v] for v in taken)))
            continue
        begin = max(earlier, key=byte_order)
        between = keys.between(begin, values)
        found.append(Link(partition, anchors[begin], tuple(own[v] for v in between if v in own)))
    return found


def _by_group(
    keys: ChainKeys, partitions: Iterable[bytes]
) -> Mapping[tuple[object, ...], Mapping[Values, bytes]]:
    groups: dict[tuple[object, ...], dict[Values, bytes]] = {}
    for partition in partitions:
        group, values = keys.divided(partition)
        groups.setdefault(group, {})[values] = partition
    return groups


def byte_order(values: Values) -> tuple[bytes, ...]:
    """Return the key that sorts values as Java does: by their bytes."""
    return tuple(v.encode() for v in values)


def _midnight(time: datetime) -> datetime:
    return time.replace(hour=0, minute=0, second=0, microsecond=0)


def _strftime(table: FileStoreTable, formatter: str) -> str:
    """Return Python's format for a Java formatter; UnsupportedFeature for other letters."""
    parts = []
    for token in _TOKENS.finditer(formatter):
        text = token.group()
        if not token.group(1):
            parts.append(text.strip("'").replace("%", "%%"))
            continue
        if text not in _LETTERS:
            raise _unsupported(table, f"partition.timestamp-formatter={formatter}")
        parts.append(_LETTERS[text])
    return "".join(parts)


def _unsupported(table: FileStoreTable, what: str) -> UnsupportedFeature:
    feature = f"chain-table.enabled with {what}"
    return UnsupportedFeature(
        feature,
        f"table {table.name} cannot be read: it uses {feature}, which is not supported",
        table=table.name,
    )
