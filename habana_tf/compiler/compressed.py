"""Compresses the sections of a recipe that only reports and tools read.

They are most of a recipe's text, shrink to a fifth, and no launch needs them. Digests are of the compressed bytes.
"""

from __future__ import annotations

import zlib


def put(text: bytes) -> bytes:
    """Text as a compressed section."""
    return zlib.compress(text, 6)


def take(section: bytes) -> bytes:
    """The text of a section. Raises ValueError if it is corrupt."""
    try:
        return zlib.decompress(section)
    except zlib.error as error:
        raise ValueError(f"a section is not understood: {error}") from error
