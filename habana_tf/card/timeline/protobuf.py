"""Writes protocol buffers, as much of the format as an XSpace needs: numbers, text, messages.

TensorFlow has moved the Python module of XSpace's messages from release to release, and some wheels have none. A field
is written as its number and kind, then its value; messages and text have their length in front.
"""

from __future__ import annotations

_VARINT, _BYTES = 0, 2


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_KEYS = {(field, kind): _varint(field << 3 | kind) for field in range(1, 16) for kind in (_VARINT, _BYTES)}


def integer(field: int, value: int) -> bytes:
    """A field of a whole number (int64, uint64); negative ones as the 64 bits they have. field: from 1 to 15."""
    return _KEYS[field, _VARINT] + _varint(value & 0xFFFFFFFFFFFFFFFF)


def message(field: int, *parts: bytes) -> bytes:
    """A field of a message (or of bytes) that consists of these fields."""
    body = b"".join(parts)
    return _KEYS[field, _BYTES] + _varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    return message(field, value.encode())
