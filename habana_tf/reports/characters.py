"""Which characters are written: what an output's encoding lacks is replaced, so that no output fails on it.

Standard output may be ASCII (PYTHONIOENCODING, a container without a locale that sets LC_ALL), and Python then raises
UnicodeEncodeError at the first line of a table. Here every character has another one that all encodings have: those
that we draw with by the table below, any other as Python writes it (`\\xe9`).
"""

from __future__ import annotations

import codecs
import os
import sys
import unicodedata
from typing import TextIO

_NAME = "habana_tf.replaced"
_DRAWN = dict(zip("─│▁▂▃▄▅▆▇█µ→…≥≤", [*"-|", *".:-=+*#@", "u", "->", "...", ">=", "<="], strict=True))


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """An error handler of codecs."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_DRAWN.get(c) or c.encode("ascii", "backslashreplace").decode() for c in lost), error.end


codecs.register_error(_NAME, _replaced)


def encodable(text: str, encoding: str | None) -> str:
    """`text` with what the encoding lacks replaced. None: all characters are kept."""
    return text if encoding is None or text.isascii() else text.encode(encoding, _NAME).decode(encoding)


def encoding_of() -> str | None:
    """The encoding of standard output; None if it takes all characters."""
    return getattr(sys.stdout, "encoding", None)


def never_fail(*streams: TextIO) -> None:
    """Makes streams of a command replace what they cannot encode, whatever writes to them."""
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=_NAME)


def columns(otherwise: int) -> int:
    """How wide standard output is: COLUMNS, or the terminal's width, or `otherwise` for a file or a pipe."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return (os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0) or otherwise
    except (AttributeError, OSError, ValueError):  # a stream of a notebook or a test
        return otherwise


def width(text: str) -> int:
    """Columns that a text takes in a terminal: characters of East Asia take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
