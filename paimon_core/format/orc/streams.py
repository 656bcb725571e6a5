"""Encodes columns of numbers as ORC byte streams (ORC specification, version 1).

Integers use run length encoding version 2.  Two of its four kinds of runs are used: DELTA with a
fixed step, for constants and counters, and DIRECT with widths of whole bytes, which numpy packs by
slicing big-endian numbers.  The compression that follows makes up for the wasted bits.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zstandard

from paimon_core.errors import UnsupportedFeature
from paimon_core.format.bounded import inflate
from paimon_core.format.orc.protobuf import varint

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

BLOCK: Final = 256 * 1024
"""The bytes that are compressed at a time."""
_RUN: Final = 512
_DIRECT: Final = 0x40
_DELTA: Final = 0xC0
_WIDTH_CODE: Final = (0, 7, 15, 23, 27, 28, 29, 30, 31)
"""The code of a run's width in its header, by width in bytes."""
_LITERALS: Final = 128
_REPEATS: Final = 130
_MAX_STEP: Final = 2**61
_CODEC_NAMES: Final = {1: "deflate", 2: "snappy", 4: "lz4", 5: "zstandard"}
_MOST_BLOCK_BYTES: Final = 8 * 1024 * 1024
"""The maximum length in the three bytes of a block's header."""
_MOST_FOOTER_BYTES: Final = 64 * 1024 * 1024


def bits(values: npt.NDArray[np.bool_]) -> bytes:
    """Encode booleans: eight per byte, the first in the highest bit, then byte runs."""
    return byte_runs(np.packbits(values))


def byte_runs(values: npt.NDArray[np.uint8]) -> bytes:
    """Encode bytes as runs: one repeated value, or literals."""
    size = len(values)
    if size > 2 and (values == values[0]).all():
        full, rest = divmod(size, _REPEATS)
        run = bytes([_REPEATS - 3, values[0]]) * full
        return run + (bytes([rest - 3, values[0]]) if rest > 2 else _literals(values[:rest]))
    return _literals(values)


def _literals(values: npt.NDArray[np.uint8]) -> bytes:
    full = len(values) // _LITERALS
    runs = np.empty((full, 1 + _LITERALS), np.uint8)
    runs[:, 0] = 256 - _LITERALS
    runs[:, 1:] = values[: full * _LITERALS].reshape(full, _LITERALS)
    rest = values[full * _LITERALS :]
    tail = bytes([256 - len(rest)]) + rest.tobytes() if len(rest) else b""
    return runs.tobytes() + tail


def signed(values: Ints) -> bytes:
    """Encode signed integers as runs."""
    words = ((values << 1) ^ (values >> 63)).view(np.uint64)
    return _runs(values, words)


def unsigned(values: Ints) -> bytes:
    """Encode non-negative integers as runs."""
    return _runs(values, values.view(np.uint64))


def _runs(values: Ints, words: Words) -> bytes:
    full = len(values) // _RUN
    whole = full * _RUN
    parts: list[bytes] = []
    if full:
        steps = np.diff(values[:whole].reshape(full, _RUN), axis=1)
        first = steps[:, 0]
        even = (steps == steps[:, :1]).all(axis=1) & (first > -_MAX_STEP) & (first < _MAX_STEP)
        grouped = words[:whole].reshape(full, _RUN)
        widths = _byte_widths(grouped.max(axis=1))
        if not even.any() and (widths == widths[0]).all():
            parts.append(_direct(grouped, int(widths[0])))
        else:
            for i, width in enumerate(widths.tolist()):
                run = slice(i * _RUN, (i + 1) * _RUN)
                if even[i]:
                    parts.append(_delta(words[run], int(steps[i, 0])))
                else:
                    parts.append(_direct(grouped[i : i + 1], width))
    rest = words[whole:]
    if len(rest):
        last = np.diff(values[whole:])
        if len(rest) > 2 and (last == last[0]).all() and abs(int(last[0])) < _MAX_STEP:
            parts.append(_delta(rest, int(last[0])))
        else:
            parts.append(
                _direct(rest.reshape(1, -1), int(_byte_widths(rest.max(keepdims=True))[0]))
            )
    return b"".join(parts)


def _byte_widths(words: Words) -> npt.NDArray[np.int64]:
    width = np.ones(len(words), np.int64)
    for size in range(1, 8):
        width[words >= np.uint64(1 << 8 * size)] = size + 1
    return width


def _direct(runs: Words, width: int) -> bytes:
    count, length = runs.shape
    out = np.empty((count, 2 + length * width), np.uint8)
    out[:, 0] = _DIRECT | _WIDTH_CODE[width] << 1 | (length - 1) >> 8
    out[:, 1] = (length - 1) & 0xFF
    big = runs.astype(">u8").view(np.uint8).reshape(count, length, 8)
    out[:, 2:] = big[:, :, 8 - width :].reshape(count, length * width)
    return out.tobytes()


def _delta(run: Words, step: int) -> bytes:
    length = len(run) - 1
    zigzag = step << 1 if step >= 0 else (-step << 1) - 1
    return bytes([_DELTA | length >> 8, length & 0xFF]) + varint(int(run[0])) + varint(zigzag)


def wide_varints(low: Words, high: Words) -> bytes:
    """Encode signed 128-bit integers (low and high words) as zigzag varints."""
    sign = (high.view(np.int64) >> 63).view(np.uint64)
    one, top = np.uint64(1), np.uint64(63)
    high = ((high << one) | (low >> top)) ^ sign
    low = (low << one) ^ sign
    groups = np.empty((len(low), 19), np.uint8)
    for i in range(19):
        shift = 7 * i
        if shift < 64:
            part = low >> np.uint64(shift)
            if shift > 57:
                part = part | high << np.uint64(64 - shift)
        else:
            part = high >> np.uint64(shift - 64)
        groups[:, i] = (part & np.uint64(0x7F)).astype(np.uint8)
    used = groups != 0
    sizes = np.where(used.any(axis=1), 19 - used[:, ::-1].argmax(axis=1), 1)
    at = np.arange(19)
    groups |= np.where(at < sizes[:, None] - 1, 0x80, 0).astype(np.uint8)
    return groups[at < sizes[:, None]].tobytes()


def compressor(codec: str, level: int) -> Callable[[bytes], bytes] | None:
    """Return a function that compresses one block; None without compression."""
    match codec:
        case "none":
            return None
        case "zstd":
            return zstandard.ZstdCompressor(level=level).compress
        case "zlib":
            return _deflate
    compress: Any = pa.Codec("lz4_raw" if codec == "lz4" else codec).compress
    return lambda data: compress(data, asbytes=True)


def compressed(data: bytes, compress: Callable[[bytes], bytes] | None) -> bytes:
    """Return a stream as stored: blocks, each with a header of three bytes."""
    if compress is None:
        return data
    parts = []
    for start in range(0, len(data), BLOCK):
        block = data[start : start + BLOCK]
        small = compress(block)
        if len(small) < len(block):
            parts += [(len(small) << 1).to_bytes(3, "little"), small]
        else:
            parts += [(len(block) << 1 | 1).to_bytes(3, "little"), block]
    return b"".join(parts)


def decompressed(data: bytes, codec: int) -> bytes:
    """Decompress a footer; `codec` is the number in the postscript.

    Raises CorruptTable if it is damaged or too large for a footer.
    """
    if codec == 0:
        return data
    name = _CODEC_NAMES.get(codec)
    if name is None:
        raise UnsupportedFeature(f"ORC compression number {codec}")
    parts, at, left = [], 0, _MOST_FOOTER_BYTES
    while at + 3 <= len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        block = data[at + 3 : at + 3 + (header >> 1)]
        at += 3 + len(block)
        plain = block if header & 1 else inflate(name, block, min(left, _MOST_BLOCK_BYTES))
        left -= len(plain)
        parts.append(plain)
    return b"".join(parts)


def _deflate(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(data) + deflate.flush()
