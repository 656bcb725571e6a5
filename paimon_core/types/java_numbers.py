"""Prints and parses numbers like Java.

Java before 19 does not always print the shortest text that parses back to the same FLOAT or DOUBLE
(1.0E23 becomes 9.999999999999999E22), and this text is stored by casts to STRING and used in
partition folder names.  So this module implements the algorithm of `FloatingDecimal`, with its
approximations, in Python's integers.
"""

from __future__ import annotations

import re
import struct
from decimal import Decimal
from fractions import Fraction
from math import floor, isinf, isnan
from typing import Final, NamedTuple

import numpy as np

_FRACTION_BITS: Final = 52
_FLOAT_FRACTION_BITS: Final = 23
_BITS_OF_5_POW: Final = tuple((5**i).bit_length() for i in range(28))
# The number of insignificant low decimal digits of an integer if 2^i is below its last bit.
_INSIGNIFICANT: Final = (
    0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 8, 8, 8, 9, 9,
    9, 9, 10, 10, 10, 11, 11, 11, 12, 12, 12, 12, 13, 13, 13, 14, 14, 14, 15, 15, 15, 15, 16, 16,
    16, 17, 17, 17, 18, 18, 18, 19,
)  # fmt: skip


class _Digits(NamedTuple):
    """The number 0.DIGITS * 10^exponent."""

    digits: str
    exponent: int


def double_text(value: float) -> str:
    """Return the text of Java's `Double.toString` (before Java 19)."""
    special = _special(value)
    if special is not None:
        return special
    bits: int = struct.unpack("<Q", struct.pack("<d", abs(value)))[0]
    exponent, fraction = bits >> _FRACTION_BITS, bits & ((1 << _FRACTION_BITS) - 1)
    if exponent == 0:
        significant = fraction.bit_length()
        shift = _FRACTION_BITS + 1 - significant
        fraction, exponent = fraction << shift, 1 - shift
    else:
        significant = _FRACTION_BITS + 1
        fraction |= 1 << _FRACTION_BITS
    text = _place_dot(_develop(exponent - 1023, fraction, significant))
    return f"-{text}" if value < 0 else text


def float_text(value: float) -> str:
    """Return the text of Java's `Float.toString` (before Java 19) for a 32-bit value."""
    special = _special(value)
    if special is not None:
        return special
    bits: int = struct.unpack("<I", struct.pack("<f", abs(value)))[0]
    exponent = bits >> _FLOAT_FRACTION_BITS
    fraction = bits & ((1 << _FLOAT_FRACTION_BITS) - 1)
    if exponent == 0:
        significant = fraction.bit_length()
        shift = _FLOAT_FRACTION_BITS + 1 - significant
        fraction, exponent = fraction << shift, 1 - shift
    else:
        significant = _FLOAT_FRACTION_BITS + 1
        fraction |= 1 << _FLOAT_FRACTION_BITS
    fraction <<= _FRACTION_BITS - _FLOAT_FRACTION_BITS
    text = _place_dot(_develop(exponent - 127, fraction, significant))
    return f"-{text}" if value < 0 else text


def _special(value: float) -> str | None:
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if str(value).startswith("-") else "0.0"
    return None


def _place_dot(number: _Digits) -> str:
    digits, exponent = number
    if 0 < exponent < 8:
        whole = digits[:exponent].ljust(exponent, "0")
        return f"{whole}.{digits[exponent:] or '0'}"
    if -3 < exponent <= 0:
        return f"0.{'0' * -exponent}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _develop(bin_exp: int, fraction: int, significant: int) -> _Digits:
    """Digits of `fraction * 2^(bin_exp - 52)`, as `BinaryToASCIIBuffer.dtoa` develops them."""
    tail_zeros = (fraction & -fraction).bit_length() - 1
    fraction_bits = _FRACTION_BITS + 1 - tail_zeros
    tiny_bits = max(0, fraction_bits - bin_exp - 1)
    if -21 <= bin_exp <= 62 and tiny_bits == 0 and fraction_bits < 64:
        drop = 0
        if bin_exp > significant:
            at = bin_exp - significant - 1
            drop = _INSIGNIFICANT[at] if 1 < at < len(_INSIGNIFICANT) else 0
        shift = bin_exp - _FRACTION_BITS
        return _integer_digits(fraction << shift if shift >= 0 else fraction >> -shift, drop)
    return _divide(bin_exp, fraction >> tail_zeros, fraction, fraction_bits, tiny_bits, significant)


def _integer_digits(number: int, drop: int) -> _Digits:
    exponent = drop
    if drop:
        number, residue = divmod(number, 10**drop)
        number += residue >= 10**drop >> 1
    text = str(number)
    return _Digits(text.rstrip("0"), exponent + len(text))


def _estimate(bin_exp: int, fraction: int) -> int:
    """Estimate floor(log10); the first division corrects it if it is one too high."""
    bits = (1023 << _FRACTION_BITS) | (fraction & ((1 << _FRACTION_BITS) - 1))
    one_to_two: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return floor((one_to_two - 1.5) * 0.289529654 + 0.176091259 + bin_exp * 0.301029995663981)


def _divide(
    bin_exp: int,
    odd_fraction: int,
    fraction: int,
    fraction_bits: int,
    tiny_bits: int,
    significant: int,
) -> _Digits:
    """Divide B by S until the remainder is less than M, half of the last place."""
    exponent = _estimate(bin_exp, fraction)
    b5, s5 = max(0, -exponent), max(0, exponent)
    b2, s2 = b5 + tiny_bits + bin_exp, s5 + tiny_bits
    m2 = b2 - significant
    b2 -= fraction_bits - 1
    common = min(b2, s2)
    b2, s2, m2 = b2 - common, s2 - common, m2 - common
    if fraction_bits == 1:
        m2 -= 1
    if m2 < 0:
        b2, s2, m2 = b2 - m2, s2 - m2, 0
    wide_b = fraction_bits + b2 + _bits_of_5_pow(b5)
    wide_s = s2 + 1 + _bits_of_5_pow(s5 + 1)
    width = 32 if max(wide_b, wide_s) < 32 else 64 if max(wide_b, wide_s) < 64 else None

    b, s, m = odd_fraction * 5**b5 << b2, 5**s5 << s2, 5**b5 << m2
    tens = s * 10
    q, b = divmod(b, s)
    b, m = b * 10, m * 10
    low, high = _compare(b, m, tens, width, first=True)
    digits = []
    if q == 0 and not high:
        exponent -= 1
    else:
        digits.append(q)
    if exponent < -3 or exponent >= 8:
        low = high = False
    while not low and not high:
        q, b = divmod(b, s)
        b, m = b * 10, m * 10
        low, high = _compare(b, m, tens, width, first=False)
        digits.append(q)
    if high and (not low or b * 2 > tens or (b * 2 == tens and digits[-1] & 1)):
        exponent += _round_up(digits)
    return _Digits("".join(map(str, digits)), exponent + 1)


def _bits_of_5_pow(n: int) -> int:
    return _BITS_OF_5_POW[n] if n < len(_BITS_OF_5_POW) else n * 3


def _compare(b: int, m: int, tens: int, width: int | None, *, first: bool) -> tuple[bool, bool]:
    """Return whether the digits so far are close enough from below, and from above.

    In 32 or 64 bits, Java's sums wrap around (and a wrapped M counts as large); with big integers,
    the second comparison includes equality.
    """
    if width is None:
        return b < m, b + m >= tens
    m = _wrap(m, width)
    if m <= 0 and not first:
        return True, True
    return b < m, _wrap(b + m, width) > tens


def _wrap(number: int, width: int) -> int:
    return (number + (1 << width - 1)) % (1 << width) - (1 << width - 1)


def _round_up(digits: list[int]) -> int:
    """Add one in the last place; 1 if the number grew by a digit."""
    at = len(digits) - 1
    while at > 0 and digits[at] == 9:
        digits[at] = 0
        at -= 1
    if digits[at] == 9:
        digits[at] = 1
        return 1
    digits[at] += 1
    return 0


# --- from text ----------------------------------------------------------------------------------

_LAST_CHAR: Final = "\uffff"
"""Java's parsers read single chars, so digits beyond the basic plane do not count as digits."""
_INTEGER: Final = re.compile(r"[+-]?\d+")
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,10})?", re.ASCII)
_FLOAT: Final = re.compile(
    r"([+-]?)(?:(NaN)|(Infinity)|((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?"
    r"|(0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?)",
    re.ASCII,
)
_TRIMMED: Final = "".join(map(chr, range(33)))
"""The characters that `String.trim` removes."""
_MOST_DIGITS: Final = 4000
"""No Paimon type has more digits; Python itself refuses to parse 4,301."""


def parse_integer(text: str) -> int | None:
    """Parse like Java's `Long.valueOf`: digits with a sign, in any script; None otherwise.

    The caller checks the range of the type.
    """
    if not _INTEGER.fullmatch(text) or max(text) > _LAST_CHAR or len(text) > _MOST_DIGITS:
        return None
    return int(text)


def parse_decimal(text: str) -> Decimal | None:
    """Parse like `new BigDecimal(text)`: no blanks, no NaN; None otherwise."""
    if not _DECIMAL.fullmatch(text) or len(text) > _MOST_DIGITS:
        return None
    return Decimal(text)


def parse_float(text: str, *, single: bool) -> float | None:
    """Parse like `Float.parseFloat` and `Double.parseDouble`; None otherwise.

    Blanks around the number, the suffixes f and d, and hexadecimal digits are allowed.
    """
    match = _FLOAT.fullmatch(text.strip(_TRIMMED))
    if not match:
        return None
    sign, nan, infinity, digits, hexadecimal = match.groups()
    if nan:
        return float("nan")
    if infinity:
        value = float("inf")
    elif hexadecimal:
        value = float.fromhex(hexadecimal)
        value = float(np.float32(value)) if single else value
    else:
        value = _nearest_float32(digits) if single else float(digits)
    return -value if sign == "-" else value


def parse_exact_float(text: str) -> float | None:
    """Return the 32-bit float that represents the text without loss; None otherwise.

    Without loss means that the float equals the number as a double, or that both print the same
    (Java: `TypeUtils.castFromString`).
    """
    double = parse_float(text, single=False)
    single = parse_float(text, single=True)
    if double is None or single is None or double == single:
        return single
    return single if float_text(single) == double_text(double) else None


def _nearest_float32(digits: str) -> float:
    """The 32-bit float nearest to the digits, not to the double nearest to them."""
    double = float(digits)
    with np.errstate(over="ignore"):
        single = np.float32(double)
    if not np.isfinite(single) or float(single) == double:
        return float(single)
    other = np.nextafter(single, np.float32(np.inf if double > float(single) else 0))
    if not np.isfinite(other) or double - float(single) != float(other) - double:
        return float(single)
    # The double lies exactly between two floats; the digits decide which one is nearer.
    exact, middle = Fraction(Decimal(digits)), Fraction(double)
    if exact == middle:
        return float(single)
    above = max(float(single), float(other))
    return above if exact > middle else min(float(single), float(other))
