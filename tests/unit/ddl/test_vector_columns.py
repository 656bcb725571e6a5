"""VECTOR columns: in which tables they are allowed (Java: `SchemaValidation`)."""

from __future__ import annotations

import pytest

from paimon_core.ddl.create import Column, create_schema
from paimon_core.errors import PaimonError

COLUMNS = [Column("k", "INT"), Column("e", "VECTOR<FLOAT, 3>")]


def test_parquet_tables_have_vectors() -> None:
    made = create_schema(COLUMNS, now_millis=1, primary_keys=["k"], options={"vector-field": "e"})
    assert str(made.fields[1].type.root) == "VECTOR"


@pytest.mark.parametrize(
    ("options", "keys", "message"),
    [
        ({"file.format": "orc"}, (), "VECTOR columns in orc files"),
        ({"vector.file.format": "parquet"}, (), "vector.file.format=parquet"),
        ({"vector-field": "k"}, (), "'k' has the type INT"),
        ({"vector-field": "x"}, (), "'x' is not a column"),
        ({}, ("e",), "cannot be keys"),
    ],
)
def test_what_java_or_our_readers_refuse(
    options: dict[str, str], keys: tuple[str, ...], message: str
) -> None:
    with pytest.raises(PaimonError, match=message):
        create_schema(COLUMNS, now_millis=1, primary_keys=list(keys), options=options)
