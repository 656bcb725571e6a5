"""The columns and clauses of CREATE TABLE, and properties, as they are written."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from paimon_core.ddl.create import Column
from paimon_core.errors import SchemaError, UnsupportedFeature
from paimon_core.table.format.format_table import FORMATS
from paimon_spark.sql.errors import SqlSyntaxError
from paimon_spark.sql.text.parsed import is_expression
from paimon_spark.sql.text.tokens import Words
from paimon_spark.sql.text.types import read_collation, read_type

COMMENT_PROPERTY = "comment"
COLLATION = "collation"
EXTERNAL = "external"
"""The option of tables of CREATE EXTERNAL TABLE; a Hive catalog keeps the files of such a table."""
OWNER = "owner"
"""The option with the user who created a table, as Spark's connector sets it."""
_PROVIDER = "paimon"
_OF_CLAUSES = {
    "provider": "please use the USING clause to specify it",
    "location": "please use the LOCATION clause to specify it",
    "owner": "it will be set to the current user",
    "external": "please use CREATE EXTERNAL TABLE",
}
"""Reserved properties, and what Spark says about each (`AstBuilder.cleanTableProperties`)."""


@dataclass(slots=True, kw_only=True)
class TableClauses:
    """The clauses after the columns of CREATE TABLE, and whether EXTERNAL is before them."""

    partitioned_by: list[Column | str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    provider: str | None = None
    """The format of USING, in lower case, for a format table."""
    using_paimon: bool = False
    """Whether USING names Paimon."""
    comment: str | None = None
    location: str | None = None
    external: bool = False


def read_properties(words: Words) -> dict[str, str]:
    """('key' = 'value', ...), also with keys as names with dots and with numbers as values."""

    def one() -> tuple[str, str]:
        key = words.one_string() if words.is_string() else ".".join(words.name())
        if not words.eat("="):
            words.eat("==")
        if words.is_string():
            return key, words.string()
        truth = words.eat_any("TRUE", "FALSE")
        if truth is None and not (words.looks_at("-") or words.word()[:1].isdecimal()):
            words.fail("a text in quotes or a number")
        return key, words.constant() if truth is None else truth.lower()

    found = words.items(one)
    keys = [key for key, _ in found]
    repeated = sorted({k for k in keys if keys.count(k) > 1})
    if repeated:
        raise SqlSyntaxError(f"[DUPLICATE_KEY] Found duplicate keys `{'`, `'.join(repeated)}`")
    return dict(found)


def read_database_properties(words: Words) -> dict[str, str]:
    """As `read_properties`; SqlSyntaxError for those that Spark reserves."""
    found = read_properties(words)
    for key in ("location", OWNER):
        if key in found:
            raise SqlSyntaxError(
                "[UNSUPPORTED_FEATURE.SET_NAMESPACE_PROPERTY] The feature is not supported: "
                f"{key} is a reserved namespace property, {_OF_CLAUSES[key]}"
            )
    return found


def read_table_properties(words: Words) -> dict[str, str]:
    """As `read_properties`; SqlSyntaxError for those that Spark reserves for clauses."""
    found = read_properties(words)
    check_not_reserved(found)
    return found


def check_not_reserved(keys: Container[str]) -> None:
    """SqlSyntaxError for keys of table properties that Spark reserves for clauses."""
    for key, instead in _OF_CLAUSES.items():
        if key in keys:
            raise SqlSyntaxError(
                "[UNSUPPORTED_FEATURE.SET_TABLE_PROPERTY] The feature is not supported: "
                f"{key} is a reserved table property, {instead}"
            )


def check_no_constraint(words: Words, table: str | None = None) -> None:
    """UnsupportedFeature if a constraint of SQL, or a generated value, begins at the cursor."""
    at = 2 if words.looks_at("CONSTRAINT") else 0
    what = f"{words.word(at)} {words.word(at + 1)}"
    if what in ("PRIMARY KEY", "FOREIGN KEY"):
        kind = what
    elif words.word(at) in ("UNIQUE", "CHECK", "REFERENCES", "GENERATED"):
        kind = words.word(at)
    else:
        return
    raise UnsupportedFeature(
        f"constraints of SQL ({kind})",
        f"Paimon tables have no {kind} clause",
        table=table,
        next_step="omit it"
        if kind != "PRIMARY KEY"
        else "create the table with TBLPROPERTIES ('primary-key' = 'COLUMN, ...')",
    )


def read_column_or_constraint(words: Words) -> Column:
    """A column of CREATE TABLE; UnsupportedFeature for a constraint in its place."""
    named = words.looks_at("CONSTRAINT") and words.word(2) in ("PRIMARY", "FOREIGN", *_CONSTRAINTS)
    keys = words.looks_at("PRIMARY", "KEY") or words.looks_at("FOREIGN", "KEY")
    if named or keys or (words.word() in _CONSTRAINTS and words.word(1) == "("):
        check_no_constraint(words)
    return read_column(words)


def read_column(words: Words) -> Column:
    """A column with its type and descriptors; SqlSyntaxError for one that is there twice."""
    name = words.identifier()
    data_type = read_type(words)
    comment = default = None
    seen: list[str] = []
    while not words.looks_at(",") and not words.looks_at(")"):
        seen.append(words.word())
        if seen.count(seen[-1]) > 1:
            raise SqlSyntaxError(
                f"[CREATE_TABLE_COLUMN_DESCRIPTOR_DUPLICATE] CREATE TABLE column {name} specifies "
                f'descriptor "{seen[-1]}" more than once, which is invalid'
            )
        if words.eat("NOT", "NULL"):
            data_type = data_type.with_nullable(False)
        elif words.eat("COMMENT"):
            comment = words.string()
        elif words.eat("DEFAULT"):
            default = words.expression(",", "COMMENT", "NOT")
            check_default(default)
        else:
            check_no_constraint(words)
            words.fail()
    return Column(name, data_type, comment, default)


def check_default(text: str) -> None:
    """SchemaError for a default that varies between rows, SqlSyntaxError for no expression.

    Paimon keeps the text, and casts it: words behind a value would be part of each new row.
    """
    if not is_expression(text):
        raise SqlSyntaxError(
            f"[PARSE_SYNTAX_ERROR] Syntax error: the default {text} is no expression"
        )
    if text.lower().startswith(("current_", "now(", "rand", "uuid(")):
        raise SchemaError(f"Unsupported default value `{text}`")


def _partition(words: Words) -> Column | str:
    name = words.identifier()
    if words.looks_at("("):
        raise UnsupportedFeature(
            "partition transforms",
            f"Unsupported partition transform: {name}(...)",
            next_step="add a column for the value, and partition by it",
        )
    if words.looks_at(",") or words.looks_at(")"):
        return name
    words.at -= 1
    return read_column(words)


_CONSTRAINTS = ("UNIQUE", "CHECK")
_PAIMON_IN_HIVE = "org.apache.paimon.hive."
_CLAUSES = (
    *("USING", "PARTITIONED", "TBLPROPERTIES", "OPTIONS", "COMMENT", "LOCATION", "WITH", "DEFAULT"),
    *("ROW", "STORED"),
)


def check_once(seen: list[str], words: Words) -> None:
    """SqlSyntaxError if the clause at the cursor was there before."""
    seen.append(words.word())
    if seen[-1] in _CLAUSES and seen.count(seen[-1]) > 1:
        raise SqlSyntaxError(
            f"[DUPLICATE_CLAUSES] Found duplicate clauses: {seen[-1]}. Please, remove one of them"
        )
    if "USING" in seen and ("ROW" in seen or "STORED" in seen):
        raise SqlSyntaxError(
            "Operation not allowed: CREATE TABLE ... USING ... ROW FORMAT, STORED AS"
        )


def read_clauses(words: Words, *refused: str) -> TableClauses:
    """The clauses, up to a word that begins none; `refused` are those that do not apply."""
    found = TableClauses()
    seen: list[str] = []
    while True:
        check_once(seen, words)
        if seen[-1] in refused:
            words.fail("a clause that applies")
        if words.eat("USING"):
            provider = words.identifier()
            if provider.lower() in FORMATS:
                found.provider = provider.lower()
            elif provider.lower() == _PROVIDER:
                found.using_paimon = True
            else:
                raise UnsupportedFeature(
                    f"provider {provider}",
                    f"Provider '{provider}' is not supported by a Paimon catalog. Supported "
                    f"providers: [paimon, {', '.join(FORMATS)}]",
                    next_step="use USING paimon",
                )
        elif words.eat("PARTITIONED", "BY"):
            found.partitioned_by = words.items(lambda: _partition(words))
        elif words.eat_any("TBLPROPERTIES", "OPTIONS"):
            found.properties.update(read_table_properties(words))
        elif words.eat("COMMENT"):
            found.comment = words.string()
        elif words.eat("LOCATION"):
            found.location = words.string()
        elif words.eat("DEFAULT", "COLLATION"):
            found.properties[COLLATION] = read_collation(words)
        elif words.looks_at("CLUSTERED", "BY"):
            raise UnsupportedFeature("CLUSTERED BY", next_step="use the options bucket, bucket-key")
        elif words.looks_at("CLUSTER", "BY"):
            raise UnsupportedFeature("CLUSTER BY", next_step="use the option clustering.columns")
        elif refused or not _hive_format(words):
            return found


def _hive_format(words: Words) -> bool:
    """Pass over Hive's clauses for the format, which name Paimon where Hive shows its table.

    UnsupportedFeature for those of other formats.
    """
    at = words.at
    if words.eat("ROW", "FORMAT", "SERDE"):
        classes = [words.string()]
        if words.eat("WITH", "SERDEPROPERTIES"):
            read_properties(words)
    elif words.eat("STORED", "AS", "INPUTFORMAT"):
        classes = [words.string()]
        words.need("OUTPUTFORMAT")
        classes.append(words.string())
    elif words.looks_at("ROW", "FORMAT") or words.looks_at("STORED"):
        classes = [""]
    else:
        return False
    if not all(c.startswith(_PAIMON_IN_HIVE) for c in classes):
        clause = f"{words.tokens[at].text} {words.tokens[at + 1].text}".upper()
        raise UnsupportedFeature(
            f"{clause} of another format than Paimon", next_step="omit the clause, or USING paimon"
        )
    return True
