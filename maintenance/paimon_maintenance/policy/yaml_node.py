"""YAML values with their position, so that every error names file, line and key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, NoReturn

import yaml

from paimon_core.errors import InvalidArgument

_CORRECT: Final = "correct the file; `caretaker policy check FILE` checks it"
_NULL: Final = "tag:yaml.org,2002:null"
_BOOL: Final = "tag:yaml.org,2002:bool"
_MOST_DIGITS: Final = 18
"""Every number with this many digits fits into 64 bits."""
_TRUE: Final = frozenset({"yes", "true", "on", "y"})


@dataclass(frozen=True, slots=True)
class YamlNode:
    """One node of a file.  `path` is its full key: "rules[0].jobs.compact"."""

    file: str
    path: str
    node: yaml.Node

    def wrong(self, reason: str) -> NoReturn:
        """Raise InvalidArgument with file, line, key and reason."""
        line = self.node.start_mark.line + 1
        where = f"{self.file}:{line}"
        raise InvalidArgument(
            f"{where}: {self.path}: {reason}" if self.path else f"{where}: {reason}",
            file=self.file,
            next_step=_CORRECT,
        )

    @property
    def line(self) -> int:
        """The line of the value, from 1."""
        return int(self.node.start_mark.line) + 1

    @property
    def is_null(self) -> bool:
        """Whether the value is null."""
        return bool(self.node.tag == _NULL)

    @property
    def flag(self) -> bool | None:
        """The boolean value; None for other values."""
        if self.node.tag != _BOOL:
            return None
        return str(self.node.value).lower() in _TRUE

    def text(self) -> str:
        """The scalar as text, without YAML conversions: 10 is "10", 12:30 is "12:30"."""
        if not isinstance(self.node, yaml.ScalarNode) or self.is_null:
            self.wrong("expected a single value")
        return str(self.node.value)

    def whole(self) -> int:
        """The scalar as a whole number, not negative."""
        text = self.text()
        if not (text.isascii() and text.isdigit()):
            self.wrong(f"{text!r} is not a whole number")
        if len(text) > _MOST_DIGITS:
            self.wrong(f"a number of {len(text)} digits is too large")
        return int(text)

    def items(self) -> list[YamlNode]:
        """The items of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            self.wrong("expected a list")
        return [
            YamlNode(self.file, f"{self.path}[{i}]", node) for i, node in enumerate(self.node.value)
        ]

    def texts(self) -> tuple[str, ...]:
        """The items of a list as text; a scalar is a list of one."""
        if isinstance(self.node, yaml.ScalarNode):
            return (self.text(),)
        return tuple(item.text() for item in self.items())

    def entries(self, known: frozenset[str] | None = None) -> dict[str, YamlNode]:
        """The values of a mapping by key, empty for null; raises for unknown and duplicate keys."""
        if self.is_null:
            return {}
        if not isinstance(self.node, yaml.MappingNode):
            self.wrong("expected keys and values")
        found: dict[str, YamlNode] = {}
        for key, place in self._pairs(self.node):
            if key in found:
                place.wrong(f"duplicate key {key!r}")
            if known is not None and key not in known:
                near = get_close_matches(key, known, n=1)
                hint = (
                    f"did you mean {near[0]}?"
                    if near
                    else f"known keys: {', '.join(sorted(known))}"
                )
                place.wrong(f"unknown key {key!r} ({hint})")
            found[key] = place
        return found

    def _pairs(self, node: yaml.MappingNode) -> Iterator[tuple[str, YamlNode]]:
        merged: dict[str, YamlNode] = {}
        own: list[tuple[str, YamlNode]] = []
        for key_node, value in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                YamlNode(self.file, self.path, key_node).wrong("a key must be a scalar")
            key = str(key_node.value)
            if key_node.tag == "tag:yaml.org,2002:merge":
                merged.update(self._merged(YamlNode(self.file, self.path, value)))
                continue
            path = f"{self.path}.{key}" if self.path else key
            own.append((key, YamlNode(self.file, path, value)))
        names = {key for key, _ in own}
        yield from ((key, place) for key, place in merged.items() if key not in names)
        yield from own

    def _merged(self, place: YamlNode) -> dict[str, YamlNode]:
        """The entries from `<<: *anchor` or from a list of anchors, where the first one wins."""
        parts = place.items() if isinstance(place.node, yaml.SequenceNode) else [place]
        found: dict[str, YamlNode] = {}
        for part in reversed(parts):
            found.update(YamlNode(self.file, self.path, part.node).entries())
        return found

    def plain(self) -> object:
        """The value as JSON: strings, booleans, lists and mappings (numbers stay strings)."""
        if self.is_null:
            return None
        if isinstance(self.node, yaml.MappingNode):
            return {key: place.plain() for key, place in self.entries().items()}
        if isinstance(self.node, yaml.SequenceNode):
            return [item.plain() for item in self.items()]
        flag = self.flag
        return self.text() if flag is None else flag


def read_yaml(text: str, file: str) -> YamlNode:
    """The root node; InvalidArgument with the line if the text is not YAML."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as e:
        line = f":{e.problem_mark.line + 1}" if e.problem_mark else ""
        reason = f"{file}{line}: not valid YAML: {e.problem}"
        raise InvalidArgument(reason, file=file, next_step=_CORRECT) from e
    except yaml.YAMLError as e:
        raise InvalidArgument(f"{file}: not valid YAML: {e}", file=file, next_step=_CORRECT) from e
    except RecursionError as e:
        reason = f"{file}: the values are nested too deeply"
        raise InvalidArgument(reason, file=file, next_step=_CORRECT) from e
    if node is None:
        raise InvalidArgument(f"{file}: the file is empty", file=file, next_step=_CORRECT)
    root = YamlNode(file, "", node)
    _refuse_circles(root)
    return root


def _refuse_circles(root: YamlNode) -> None:
    """Refuse an alias inside the value of its own anchor: following it would never end."""
    done: set[int] = set()
    above: set[int] = set()
    # A node is on the stack twice: to look below it, and (True) to leave it again.
    stack: list[tuple[yaml.Node, bool]] = [(root.node, False)]
    while stack:
        node, leaves = stack.pop()
        if leaves:
            above.remove(id(node))
            done.add(id(node))
        elif id(node) in above:
            YamlNode(root.file, "", node).wrong("an anchor contains itself")
        elif id(node) not in done and isinstance(node, yaml.CollectionNode):
            above.add(id(node))
            stack.append((node, True))
            stack += [(child, False) for child in _children(node)]


def _children(node: yaml.CollectionNode) -> Iterator[yaml.Node]:
    for item in node.value:
        if isinstance(item, tuple):
            yield from item
        else:
            yield item
