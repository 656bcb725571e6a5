"""What a second of compute is worth, from round to round.  Pure.

The budget of a round holds on average.  If each round spent exactly its budget, a large job would
block the rounds after it, in which small jobs of a higher rank wait, and a quiet round would spend
the rest on jobs of little use.  So a job runs if its rank reaches the price, which rises while
rounds spend more than their budget and falls while they spend less.  What is borrowed raises it
further, and no amount stops the rounds: while nothing but urgent jobs runs, all other tables get
worse until they are urgent as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_STEP: Final = 0.02
"""The change of the price by a round that spends nothing, or twice its budget."""
_LARGEST_EXCESS: Final = 3.0
"""One huge job is no reason for a high price.  What it borrows beyond that counts as pressure."""
_PRESSURE: Final = 0.03
"""The rise of the price by one borrowed budget: with 48 of them it is four times as high."""
_MOST_PRESSURE: Final = 400.0
"""More borrowed budgets do not raise the price further: then only urgent jobs reach it anyway."""
_LEAST_PRICE: Final = 1e-4
_OF_MARGIN: Final = 0.1
"""The price is at least this part of the rank at which the budget of this round alone would end:
after a quiet time it is too low for a burst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The seconds that rounds took beyond their budgets, and the price: excess hours for a second.

    Without a price, no round has run yet, and the budget alone decides.
    """

    borrowed: float = 0.0
    price: float | None = None

    def threshold(self, ranked: Sequence[tuple[float, float]], budget: float) -> float:
        """The rank from which jobs run now; `ranked` are ranks and seconds, best first."""
        margin = marginal_rank(ranked, budget)
        if self.price is None or budget <= 0:
            return margin
        borrowed = min(_MOST_PRESSURE, self.borrowed / budget)
        price = self.price * math.exp(_PRESSURE * borrowed)
        return max(price, _OF_MARGIN * margin)

    def after(self, *, seconds: float, above: float, threshold: float, budget: float) -> Account:
        """The account after a round of `seconds`, `above` of them for jobs that met the price."""
        borrowed = max(0.0, self.borrowed + seconds - budget)
        if budget <= 0:
            return Account(borrowed=borrowed, price=self.price)
        if self.price is None:
            return Account(borrowed=borrowed, price=max(_LEAST_PRICE, threshold))
        excess = min(_LARGEST_EXCESS, above / budget - 1.0)
        price = max(_LEAST_PRICE, self.price * math.exp(_STEP * excess))
        return Account(borrowed=borrowed, price=price)


def marginal_rank(ranked: Sequence[tuple[float, float]], budget: float) -> float:
    """The rank of the job with which the budget ends, best first; 0 if it has room for all."""
    left = budget
    for rank, seconds in ranked:
        left -= seconds
        if left <= 0:
            return rank
    return 0.0
