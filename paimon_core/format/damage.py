"""What decoding damaged bytes may raise, in the decoders here and in the libraries below them."""

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
"""The same for bytes in memory, where OSError is a codec's complaint and not the store's."""


_LONGEST: Final = 500


def cause(error: Exception) -> str:
    """What such an error says, for a message that names the file."""
    text = str(error)[:_LONGEST]
    return text if type(error) is ValueError else f"{type(error).__name__}: {text}"
