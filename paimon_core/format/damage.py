"""The errors that decoding damaged bytes may raise, in these decoders and their libraries."""

from __future__ import annotations

import struct
import zlib
from lzma import LZMAError
from typing import Final

import pyarrow as pa
from fastavro.schema import SchemaParseException
from zstandard import ZstdError

from paimon_core.errors import UNREADABLE

DAMAGE: Final[tuple[type[Exception], ...]] = (
    *UNREADABLE,
    struct.error,
    zlib.error,
    LZMAError,
    ZstdError,
    SchemaParseException,
    pa.ArrowException,
)

DAMAGE_OF_STREAMS: Final[tuple[type[Exception], ...]] = (*DAMAGE, OSError)
"""The same for bytes in memory, where OSError comes from a codec and not from the store."""


_LONGEST: Final = 500


def cause(error: Exception) -> str:
    """Return the text of such an error, for a message that names the file."""
    text = str(error)[:_LONGEST]
    return text if type(error) is ValueError else f"{type(error).__name__}: {text}"
