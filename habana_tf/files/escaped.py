"""Text from outside in our messages: names of files and hosts, values of variables, what a file says.

Any of them may hold what steers a terminal or begins a line that looks like one of ours. `escaped` shows such
characters as Python writes them, so that a message is what it says and no more.
"""

from __future__ import annotations


def escaped(text: object, keep: str = "") -> str:
    """`text` with what is not printable (control characters, line ends, halves of surrogate pairs) written as
    `\\x1b`, `\\n`, `\\udc80`. keep: characters that stay as they are."""
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in shown)
