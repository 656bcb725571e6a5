"""Makes `paimon_core/paimon_options.tsv`: all options of Paimon's tables, from its Java sources.

    ./caretaker python tools/paimon_options.py REPOSITORY

REPOSITORY is a git clone of https://github.com/apache/paimon (a bare one is enough).  Each line has
the key, the type of the value, the values of an enumeration, the class that declares the option,
the versions that know it, and what Caretaker does with it.  The last column is kept from the
present file; it is empty for new options, and the tests fail until it is filled in:

- `honoured`: the code reads it;
- `no effect`: it does not matter to reading, maintenance and commits;
- `refused`: a table that sets it is refused for some work (`paimon_core/features.py`).
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

VERSIONS = {"1.4.2": "release-1.4.2", "2.0.0": "release-2.0.0", "HEAD": "HEAD"}
TABLE = Path(__file__).resolve().parent.parent / "paimon_core" / "paimon_options.tsv"
HEADER = ("key", "type", "values", "class", "versions", "treatment")
OF_TABLES = re.compile(
    r"/(CoreOptions|IcebergOptions|OrcOptions|CsvOptions|JsonOptions|TextOptions"
    r"|\w+IndexOptions|FlinkConnectorOptions|SparkConnectorOptions|HiveConnectorOptions"
    r"|RocksDBOptions|AvroFileFormat|MosaicFileFormat|MaterializedTable\w*|ColumnDirectiveUtils"
    r"|SchemaValidation)\.java$"
)
"""Classes with options that a table may have; catalogs and actions have their own."""
_TYPES = {
    "booleanType": "boolean",
    "intType": "integer",
    "longType": "integer",
    "doubleType": "fraction",
    "floatType": "fraction",
    "memoryType": "size",
    "durationType": "duration",
    "stringType": "text",
    "mapType": "map",
    "enumType": "enum",
    "noDefaultValue": "text",
}
_MISDECLARED = {"parquet.enable.dictionary": "boolean"}
"""Options that Java declares with another type than its readers, and its documents, take."""
_KEY = re.compile(r"\bkey\(\s*((?:\"[^\"]*\"|[\w.]+|\s*\+\s*)+)\s*\)\s*\.\s*(\w+)\s*\(\s*([\w.]*)")
_OTHER_KEYS = re.compile(r"with(?:Fallback|Deprecated)Keys\(((?:\s*(?:\"[^\"]*\"|[\w.]+)\s*,?)+)\)")
_CONSTANT = re.compile(r"static final String (\w+)\s*=\s*((?:\"[^\"]*\"|[\w.]+|\s|\+)+);")
_MOST_CONSTANTS = 5
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\w+|[^\s\w]')


@dataclass(slots=True)
class Found:
    """An option as the newest version declares it, and the versions that know it."""

    type: str
    values: tuple[str, ...]
    declared_in: str
    versions: list[str] = field(default_factory=list)


def git(repository: str, *words: str) -> str:
    """The output of a git command."""
    return subprocess.run(
        ["git", "-C", repository, *words], check=True, capture_output=True, text=True
    ).stdout


def options_of(repository: str, revision: str) -> Iterator[tuple[str, Found]]:
    """Each key with its declaration."""
    files = git(repository, "ls-tree", "-r", "--name-only", revision).splitlines()
    enums: dict[str, tuple[str, ...]] = {}
    sources: dict[str, str] = {}
    for path in files:
        if "/src/main/java/" in path and OF_TABLES.search(path):
            text = git(repository, "show", f"{revision}:{path}")
            sources[path.rsplit("/", 1)[-1].removesuffix(".java")] = text
            enums |= dict(_enums(text))
    constants = {
        f"{name}.{constant}": value
        for name, text in sources.items()
        for constant, value in _CONSTANT.findall(text)
    }
    for name, text in sources.items():
        for match in _KEY.finditer(text):
            key = _text(match[1], name, constants)
            kind = _TYPES.get(match[2])
            if key is None or kind is None:
                continue
            values = enums.get(match[3].rsplit(".", 2)[-2] if "." in match[3] else "", ())
            end = text.find(";", match.end())
            yield key, Found(kind, values, name)
            for others in _OTHER_KEYS.findall(text[match.end() : end]):
                for other in others.split(","):
                    found = _text(other, name, constants)
                    if found:
                        yield found, Found(kind, values, name)


def _enums(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The words of each enumeration, as `OptionsUtils.convertToEnum` compares them."""
    plain = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    for match in re.finditer(r"\benum (\w+)[^{]*\{", plain):
        words: list[str] = []
        depth, named = 0, False
        for token in _TOKEN.finditer(plain, match.end()):
            part = token[0]
            if part == "(":
                depth += 1
            elif part == ")":
                depth -= 1
            elif depth == 0 and part in ";}":
                break
            elif depth == 0 and part.isidentifier():
                words.append(part.lower())
                named = False
            elif depth == 1 and part.startswith('"') and not named:
                words[-1], named = part.strip('"').lower(), True
        yield match[1], tuple(words)


def _text(expression: str, name: str, constants: dict[str, str], depth: int = 0) -> str | None:
    """The value of an expression of literals and constants; None if it has others."""
    parts = []
    for part in (p.strip() for p in expression.split("+")):
        if part.startswith('"'):
            parts.append(part.strip('"'))
            continue
        owner = part if "." in part else f"{name}.{part}"
        value = constants.get(owner)
        if value is None or depth > _MOST_CONSTANTS:
            return None
        inner = _text(value, owner.split(".")[0], constants, depth + 1)
        if inner is None:
            return None
        parts.append(inner)
    return "".join(parts)


def present() -> dict[str, str]:
    """What Caretaker does with each option, by the present file."""
    if not TABLE.exists():
        return {}
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return {k[0]: k[-1] for k in (line.split("\t") for line in lines if line[:1] != "#")}


def main(repository: str) -> None:
    """Write the file."""
    found: dict[str, Found] = {}
    for version, revision in VERSIONS.items():
        for key, option in options_of(repository, revision):
            versions = found[key].versions if key in found else []
            if version not in versions:
                versions.append(version)
            option.versions = versions
            if key in found:
                option.values = tuple(dict.fromkeys((*found[key].values, *option.values)))
            found[key] = option
    commits = ", ".join(
        f"{version} {git(repository, 'rev-parse', f'{revision}^{{commit}}').strip()[:12]}"
        for version, revision in VERSIONS.items()
    )
    treatments = present()
    lines = [
        f"# From apache/paimon by tools/paimon_options.py: {commits}",
        "# " + "\t".join(HEADER),
    ]
    for key, option in sorted(found.items()):
        kind = _MISDECLARED.get(key, option.type)
        row = (key, kind, ",".join(option.values), option.declared_in)
        lines.append("\t".join((*row, ",".join(option.versions), treatments.get(key, ""))))
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
