"""External folders for new data files (Java: `fs/ExternalPathProvider`).

`data-file.external-paths` names folders, `data-file.external-paths.strategy` defines how a file's
folder is chosen.  The file's metadata holds its full path, so readers need neither option, and any
choice is valid.  Here it depends on the file's name; Java chooses at random or in turn.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from paimon_core.errors import InvalidArgument
from paimon_core.options import (
    DATA_FILE_EXTERNAL_PATHS,
    EXTERNAL_PATHS_SPECIFIC_FS,
    EXTERNAL_PATHS_STRATEGY,
    EXTERNAL_PATHS_WEIGHTS,
    Options,
)

_STRATEGIES: Final = ("none", "specific-fs", "round-robin", "weight-robin", "entropy-inject")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_ENTROPY_BITS: Final = 20
_DIR_BITS: Final = 4
_DIRS: Final = 3


@dataclass(frozen=True, slots=True)
class ExternalPaths:
    """The folders for a table's new data files."""

    roots: tuple[str, ...]
    weights: tuple[int, ...] = ()
    entropy: bool = False

    @staticmethod
    def of(options: Options) -> ExternalPaths | None:
        """Return the folders of the options; None: files are in the table's folder.

        Raises InvalidArgument for options that Java refuses.
        """
        strategy = options.value(EXTERNAL_PATHS_STRATEGY).lower()
        if strategy not in _STRATEGIES:
            raise InvalidArgument(
                f"data-file.external-paths.strategy is {strategy!r}; "
                f"expected {', '.join(_STRATEGIES)}"
            )
        texts = options.value(DATA_FILE_EXTERNAL_PATHS)
        if not texts or strategy == "none":
            return None
        roots = tuple(normal_path(t) for t in texts)
        if strategy == "specific-fs":
            wanted = options.value(EXTERNAL_PATHS_SPECIFIC_FS)
            if wanted is None:
                raise InvalidArgument(
                    "data-file.external-paths.strategy is specific-fs, but "
                    "data-file.external-paths.specific-fs is not set"
                )
            roots = tuple(r for r in roots if scheme_of(r) == wanted.lower())
        if not roots:
            raise InvalidArgument("data-file.external-paths names no folder on the chosen store")
        weights: Sequence[int] = ()
        if strategy == "weight-robin":
            weights = options.value(EXTERNAL_PATHS_WEIGHTS)
            if weights and len(weights) != len(roots):
                raise InvalidArgument(
                    f"data-file.external-paths names {len(roots)} folders, "
                    f"data-file.external-paths.weights has {len(weights)} numbers"
                )
        return ExternalPaths(roots, tuple(weights), strategy == "entropy-inject")

    @staticmethod
    def elsewhere(options: Options, table_root: str) -> bool:
        """Return whether any of the folders is on another store than the table."""
        found = ExternalPaths.of(options)
        return found is not None and any(
            scheme_of(root) != scheme_of(table_root) for root in found.roots
        )

    def path(self, bucket_folder: str, file_name: str) -> str:
        """Return the full path of a file; `bucket_folder` is relative to the table's folder."""
        number = zlib.crc32(file_name.encode())
        root = self.roots[number % len(self.roots)]
        if self.weights:
            ends = list(accumulate(self.weights))
            root = self.roots[bisect_right(ends, number % ends[-1])]
        if not self.entropy:
            return f"{root}/{bucket_folder}/{file_name}"
        bits = f"{number:032b}"[-_ENTROPY_BITS:]
        dirs = [bits[i * _DIR_BITS : (i + 1) * _DIR_BITS] for i in range(_DIRS)]
        spread = "/".join((*dirs, bits[_DIRS * _DIR_BITS :]))
        return f"{root}/{bucket_folder}/{spread}/{file_name}"


def normal_path(text: str) -> str:
    """Return a folder as Java's `Path` prints it: "file:///w/" becomes "file:/w"."""
    found = _SCHEME.match(text.strip())
    if found is None:
        raise InvalidArgument(f"an external path needs a scheme: {text!r}")
    scheme, rest = found.group(1), text.strip()[found.end() - 1 :]
    if scheme.lower() == "file":
        return "file:/" + rest.strip("/")
    return f"{scheme}:{rest.rstrip('/')}"


def scheme_of(path: str) -> str:
    """Return the scheme of a path in lower case; "file" if it has none."""
    found = _SCHEME.match(path)
    return "file" if found is None else found.group(1).lower()
