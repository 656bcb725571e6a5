"""What casts are tried on: values of every type, in the encodings of the oracle's steps.

`record` asks Java for every pair of types; `tests/unit/types/java_casts.jsonl` holds its answers:

    ./caretaker python tests/cast_cases.py 1.4.2 > tests/unit/types/java_casts.jsonl
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from oracle import Oracle, OracleProcess

FAILED = "<Java fails>"

VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False, None],
    "TINYINT": [0, 1, -1, 127, -128, None],
    "SMALLINT": [0, -1, 32767, -32768, 200],
    "INT": [0, 1, -1, 2147483647, -2147483648, 40000, 1700000000],
    "BIGINT": [0, -1, 9223372036854775807, -9223372036854775808, 3000000000, 123456],
    "FLOAT": [
        *(0.0, "-0.0", 1.5, -1.5, 1e10, 3.4028235e38, 1e-45, "NaN", "Infinity", "-Infinity"),
        *(0.1, 16777217.0, 200.7, 8.41e21, 1.0e23),
    ],
    "DOUBLE": [
        *(0.0, "-0.0", 1.5, -2.5, 1e10, 1.7976931348623157e308, 4.9e-324, "NaN", "Infinity"),
        *("-Infinity", 0.1, 1e23, 2e-3, 123456789.987654321, 9.5, 99.995, 1e18, 2.0e-4),
    ],
    "DECIMAL(9,2)": [
        *("0.00", "1.25", "-1.25", "9999999.99", "-9999999.99", "0.05", "127.99", "300.50"),
    ],
    "DECIMAL(18,4)": ["0.0000", "99999999999999.9999", "-1.5000", "1.2345", "-0.0050"],
    "DECIMAL(38,10)": [
        *("0.0000000000", "9999999999999999999999999999.9999999999", "-1.5000000000"),
        *("12345678901234567890.1234567890", "0.1250000000"),
    ],
    "CHAR(5)": ["a", "abcde", "", "12", "1"],
    "VARCHAR(20)": ["12", "hello wörld", "日本語 text", ""],
    "STRING": [
        *("", "a", "1", "-1", "+1", "1.5", "-.5", ".", "1e3", "127", "128", "-129", "40000"),
        *("2147483648", "9223372036854775807", "9223372036854775808", "true", "FALSE", "yes"),
        *("n", "T", "NaN", "Infinity", "-Infinity", "1f", "0x1p3", " 1 ", "2024-01-31"),
        *("2024-1-3", "2024-02-30", "2024-13-01", "2024", "2024-01", "2024--", "é", "hello"),
        *("2024-01-31 12:34:56.123456789", "2024-01-31 1:2:3", "2024-01-31T12:34:56"),
        *("12:34:56", "12:34", "12", "12:34:56.7896", "25:61:61", "12:34:56+01:00", "-5"),
        *("12:34:56-01", "1700000000", "99999.995", "0.1", "16777217", "8388608.5"),
        *("1.17549429e-38", "null", "[1, 2, null]", "[]", "ARRAY(1,2)", "{1 -> a, 2 -> b}"),
        *("{a, 1}", "{1, x}", "MAP(1,a)", "STRUCT(1,b)", '["a,b", c]', "{}", "9999-12-31"),
        *("日本語の文章です", "10000-01-01", "0001-01-01 00:00:00", "1969-12-31 23:59:59.999"),
        *("2024-01-31 24:00:00", "2024-01-31 12:34:56.", "2024-01-31 12:34:56.1234567899"),
        "2024-01-31 12:34",
    ],
    "BINARY(4)": ["00000000", "61626364", "ff"],
    "VARBINARY(10)": ["", "616263", "61626364656667686970", "e697a5"],
    "BYTES": ["", "616263", "6162636465666768697071", "e697a5e69cac", "ff00"],
    "DATE": ["1970-01-01", "2024-02-29", "1969-12-31", "0001-01-01", "9999-12-31"],
    "TIME(3)": ["00:00:00.000", "12:34:56.789", "23:59:59.999", "12:00:00.100", "01:02:03.120"],
    "TIME(0)": ["00:00:00.000", "12:34:56.000"],
    "TIMESTAMP(0)": [
        *("1970-01-01T00:00:00", "2024-02-29T12:34:56", "1969-12-31T23:59:59"),
        "1900-01-01T00:00:01",
    ],
    "TIMESTAMP(3)": [
        *("1970-01-01T00:00:00.000", "2024-02-29T12:34:56.789", "1969-12-31T23:59:59.999"),
        *("1969-12-31T23:59:59.900", "1969-12-31T00:00:00.000", "1969-12-31T12:00:00.100"),
    ],
    "TIMESTAMP(6)": [
        *("1970-01-01T00:00:00.000000", "2024-02-29T12:34:56.789123"),
        *("1969-12-31T23:59:59.999999", "1969-12-31T23:59:59.900001"),
        *("1969-12-30T10:00:00.000999", "2024-01-01T00:00:00.000999"),
        "2024-01-01T00:00:00.100000",
    ],
    "TIMESTAMP(9)": [
        *("1970-01-01T00:00:00.000000000", "2024-02-29T12:34:56.789123456"),
        *("1969-12-31T23:59:59.999999999", "2024-01-01T00:00:00.000000999"),
        *("2024-01-01T00:00:00.000999999", "1969-12-31T23:59:59.000000999"),
    ],
    "TIMESTAMP_LTZ(3)": [
        *("1970-01-01T00:00:00.000Z", "2024-02-29T12:34:56.789Z", "1969-12-31T23:59:59.999Z"),
        *("2024-03-31T01:30:00.000Z", "2024-10-27T00:30:00.000Z"),
    ],
    "TIMESTAMP_LTZ(6)": [
        *("1970-01-01T00:00:00.000000Z", "2024-02-29T23:34:56.789123Z"),
        "1969-12-31T12:59:59.999999Z",
    ],
    "ARRAY<INT>": [[], [1, None, 3], None],
    "ARRAY<STRING>": [["a", "b c", None], ["1", "2"]],
    "ARRAY<TIMESTAMP(3)>": [["2024-02-29T12:34:56.789", None]],
    "ARRAY<FLOAT>": [[0.1, 1e10, None]],
    "MAP<STRING,INT>": [[["a", 1]], [], [["k", None]]],
    "MAP<INT,STRING>": [[[1, "x"]], []],
    "MULTISET<STRING>": [[["a", 2]], []],
    "ROW<x INT,y STRING>": [{"x": 1, "y": "a"}, {"x": None, "y": None}, None],
    "ROW<p DATE,q DECIMAL(5,2),r ARRAY<INT>,s BYTES>": [
        {"p": "2024-01-31", "q": "1.50", "r": [1, 2], "s": "6162"}
    ],
}
TARGETS = [
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"),
    *("DECIMAL(9,2)", "DECIMAL(5,4)", "DECIMAL(18,4)", "DECIMAL(38,10)", "DECIMAL(20,0)"),
    *("DECIMAL(2,1)", "CHAR(5)", "VARCHAR(3)", "VARCHAR(20)", "STRING"),
    *("BINARY(4)", "VARBINARY(3)", "BYTES", "DATE", "TIME(0)", "TIME(3)", "TIME(2)"),
    *("TIMESTAMP(0)", "TIMESTAMP(1)", "TIMESTAMP(3)", "TIMESTAMP(4)", "TIMESTAMP(6)"),
    *("TIMESTAMP(9)", "TIMESTAMP_LTZ(0)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)"),
    *("ARRAY<INT>", "ARRAY<STRING>", "MAP<STRING,INT>", "MAP<INT,STRING>", "MULTISET<STRING>"),
    "ROW<x INT,y STRING>",
]


def pairs() -> Iterator[tuple[str, str]]:
    """Every source with every other target."""
    return ((s, t) for s in VALUES for t in TARGETS if s != t)


def ask_java(oracle: Oracle, warehouse: str, table: str, source: str, target: str) -> Any:
    """What Java reads of the source's values after the column's type changed, one by one.

    None if Java refuses the change; FAILED in place of a value that it cannot read.
    """
    values = VALUES[source]
    where = {"warehouse": warehouse, "database": "d", "table": table}
    columns = [{"name": "p", "type": "INT"}, {"name": "c", "type": source}]
    # A partition a value: one that fails does not hide the others.
    steps = [
        {"op": "create_table", **where, "columns": columns, "partition_keys": ["p"]},
        {"op": "write", **where, "rows": [[i, v] for i, v in enumerate(values)]},
        {
            "op": "alter_table",
            **where,
            "changes": [{"change": "update_type", "name": "c", "type": target}],
        },
    ]
    created, written, altered = oracle(steps, check=False)
    assert "error" not in created, created
    assert "error" not in written, written
    if "error" in altered:
        return None
    (answer,) = oracle([{"op": "read", **where}], check=False)
    if "error" not in answer:
        return [row[2] for row in sorted(answer["rows"], key=lambda row: row[1])]
    results = []
    for i in range(len(values)):
        only = {"field": "p", "op": "=", "value": i}
        (answer,) = oracle([{"op": "read", **where, "filter": only}], check=False)
        results.append(FAILED if "error" in answer else answer["rows"][0][2])
    return results


def record(version: str) -> None:
    process = OracleProcess(version)
    with tempfile.TemporaryDirectory() as warehouse:
        for number, (source, target) in enumerate(pairs()):
            results = ask_java(Oracle(process), warehouse, f"t{number}", source, target)
            print(json.dumps([source, target, results], ensure_ascii=False), flush=True)
    process.close()


if __name__ == "__main__":
    record(sys.argv[1])
