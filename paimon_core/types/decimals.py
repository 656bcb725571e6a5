"""Exact decimals as unscaled integers: DECIMAL(p, s) holds the integer `value * 10^s`."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

_EXACT: Final = Context(prec=400, rounding=ROUND_HALF_UP)
"""A context wide enough for all numbers here; the default rounds to 28 digits."""

COMPACT_PRECISION: Final = 18
"""Up to this precision a DECIMAL is stored as one long (Java: `Decimal.isCompact`)."""


def unscaled(value: Decimal, scale: int) -> int:
    """`value * 10^scale`; digits beyond the scale are dropped (there should be none)."""
    return int(_EXACT.scaleb(value, scale))


def from_unscaled(number: int, scale: int) -> Decimal:
    """The decimal `number / 10^scale`, with exactly `scale` digits."""
    return _EXACT.scaleb(Decimal(number), -scale)


def fit(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """Round half up to `scale` digits; None if the result needs more than `precision`.

    Java: `Decimal.fromBigDecimal`.
    """
    rounded = _EXACT.quantize(value, Decimal(1).scaleb(-scale))
    return rounded if abs(unscaled(rounded, scale)) < 10**precision else None


def pad_to_scale(value: Decimal, scale: int) -> Decimal:
    """Return the same number with at least `scale` digits after the point."""
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent > -scale:
        return _EXACT.quantize(value, Decimal(1).scaleb(-scale))
    return value
