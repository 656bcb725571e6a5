"""Which of Java's versions a merge follows."""

from __future__ import annotations

from enum import Enum


class JavaRules(Enum):
    """The rules to use where Java versions merge the same rows differently.

    They differ in `listagg` (2.0 skips blank strings), in nested tables (2.0 also cleans a first
    value, and counts its limit in keys), and when a sum or product of integers overflows (1.4 wraps
    around, 2.0 fails).  In keys and sequences of FLOAT and DOUBLE, -0.0 is below 0.0 in 2.0 and
    equal to it in 1.4.
    """

    JAVA_1_4 = "1.4"
    JAVA_2_0 = "2.0"
