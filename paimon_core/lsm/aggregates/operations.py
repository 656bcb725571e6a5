"""The effect of each version on a column, shared by engines and aggregate functions.

For every place (see `versions`), an engine chooses the operation that its row has on a column; an
aggregate function computes the result.  Java does the same row by row:

=============  ================================================================================
SKIP           nothing
SET            the accumulator becomes the row's value, even null (`initRow`)
ADD            `agg(accumulator, value)`
ADD_OLD        `aggReversed(accumulator, value)`: the row is older than the accumulator
RETRACT        `retract(accumulator, value)`
SET_RETRACT    SET, then RETRACT with the same value
=============  ================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.lsm.key_column import BoolArray, Rows
from paimon_core.lsm.key_versions import NO_PLACE, Versions

SKIP = 0
SET = 1
ADD = 2
ADD_OLD = 3
RETRACT = 4
SET_RETRACT = 5

Codes = npt.NDArray[np.int8]
"""One operation per place."""


@dataclass(frozen=True, slots=True)
class Operations:
    """The operations of a column's versions."""

    versions: Versions
    codes: Codes

    def mask(self, *operations: int) -> BoolArray:
        """Return, for each place, whether it has one of these operations."""
        mask: BoolArray = self.codes == operations[0]
        for operation in operations[1:]:
            mask |= self.codes == operation
        return mask

    def has(self, *operations: int) -> bool:
        """Return whether any place has one of these operations."""
        return bool(self.mask(*operations).any())

    def since_set(self) -> BoolArray:
        """Return, for each place, whether no SET follows it, so that it still counts."""
        last_set = self.versions.last_where(self.mask(SET, SET_RETRACT))
        begins = np.where(last_set == NO_PLACE, self.versions.starts, last_set)
        return np.arange(self.versions.places) >= np.repeat(
            begins, self.versions.ends - self.versions.starts
        )

    def without_retracts(self) -> Operations:
        """Return the same operations with retractions ignored (Java: `FieldIgnoreRetractAgg`)."""
        codes = self.codes.copy()
        codes[codes == RETRACT] = SKIP
        codes[codes == SET_RETRACT] = SET
        return Operations(self.versions, codes)

    def groups_with(self, *operations: int) -> Rows:
        """Return the groups where any place has one of these operations."""
        places = np.flatnonzero(self.mask(*operations))
        return np.unique(np.searchsorted(self.versions.ends, places, side="right"))

    def valid(self, column: pa.Array) -> BoolArray:
        """Return, for each place, whether the column is not null there."""
        return self.versions.valid(column)
