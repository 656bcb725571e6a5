"""The names of the two parts of a VARIANT."""

from typing import Final

VALUE: Final = "value"
METADATA: Final = "metadata"
TYPED_VALUE: Final = "typed_value"
"""A part that only shredded values have."""
