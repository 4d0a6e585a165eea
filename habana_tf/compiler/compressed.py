"""Sections of a recipe that only people and tools ask for: kept compressed.

A launch needs none of them, and they are most of what a recipe says: text that shrinks to a fifth. So they are
compressed before the cache gets them. Whoever loads a recipe verifies the digests of the compressed bytes, and whoever
asks for the text gets it from here.
"""

from __future__ import annotations

import zlib


def put(text: bytes) -> bytes:
    """`text` as a section."""
    return zlib.compress(text, 6)


def take(section: bytes) -> bytes:
    """What `put` got. Raises ValueError for bytes that it never gave."""
    try:
        return zlib.decompress(section)
    except zlib.error as error:
        raise ValueError(f"a section is not understood: {error}") from error
