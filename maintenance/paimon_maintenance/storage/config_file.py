"""The configuration file `caretaker.toml`: catalogs, and where runs work.

It is the file that CARETAKER_CONFIG names, else `caretaker.toml` in the working directory.  The
DAGs read their own settings from the `caretaker.toml` beside the DAG file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from paimon_core.errors import InvalidArgument

CONFIG_VARIABLE: Final = "CARETAKER_CONFIG"
DEFAULT_CONFIG: Final = "caretaker.toml"


def read_config(environ: Mapping[str, str]) -> tuple[str, Mapping[str, object]]:
    """The path of the file and its content; empty without a file.

    InvalidArgument if the file that CARETAKER_CONFIG names is missing, or a file cannot be read.
    """
    named = environ.get(CONFIG_VARIABLE)
    file = Path(named or DEFAULT_CONFIG)
    if not named and not file.is_file():
        return str(file), {}
    try:
        return str(file), tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise InvalidArgument(
            f"{file} cannot be read: {e}",
            next_step=f"correct the file, or {CONFIG_VARIABLE}, and run again",
        ) from e
