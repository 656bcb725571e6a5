"""Hash codes as Java prints them, and the order of a HashSet."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from paimon_core.lsm.aggregates.java_hash import hash_of, in_hash_order
from paimon_core.types.data_types import TypeRoot
from tests.merge_model import atomic


@pytest.mark.parametrize(
    ("root", "value", "code"),
    [
        (TypeRoot.INT, -1, -1),
        (TypeRoot.BIGINT, 2**32 + 5, 4),
        (TypeRoot.BIGINT, -1, 0),
        (TypeRoot.BOOLEAN, True, 1231),
        (TypeRoot.FLOAT, 1.5, 1069547520),
        (TypeRoot.DOUBLE, 1.5, 1073217536),
        (TypeRoot.DECIMAL, Decimal("1.5"), 466),
        (TypeRoot.DECIMAL, Decimal("-1.5"), -464),
        (TypeRoot.DECIMAL, Decimal(2**40 + 3), 31 * (31 * 256 + 3)),
        (TypeRoot.TIMESTAMP, 1_000_000_007, 31_007),
    ],
)
def test_hash_codes(root: TypeRoot, value: Any, code: int) -> None:
    hash_code = hash_of(atomic(root, precision=9, scale=1))
    assert hash_code is not None
    assert (hash_code(value) - code) % 2**32 == 0


def test_binaries_have_no_order_to_repeat() -> None:
    assert hash_of(atomic(TypeRoot.VARBINARY)) is None


def test_a_set_grows_and_keeps_the_order_of_insertion_in_a_bucket() -> None:
    assert in_hash_order([(17, "b"), (1, "a"), (0, "c")]) == ["c", "b", "a"]
    many = [(n, n) for n in range(40, 0, -3)]
    assert in_hash_order(many) == sorted((n for n, _ in many), key=lambda n: n % 32)
    assert in_hash_order([]) == []
