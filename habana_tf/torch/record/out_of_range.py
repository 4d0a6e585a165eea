"""What a launch says of values that PyTorch's CPU refuses: an index out of range, weights to draw by that are negative.

No kernel stops for them. A lowering gives the words of PyTorch's exception (`ops.row.Call.in_range`), and the program
finds one such value; after the launch the runtime adds it and its bound:

    embedding 'Net/words/embedding_0': IndexError: index out of range in self = 9 is not in [0, 5)

Here that becomes PyTorch's exception, with the line of the user's program that called the op. Of an index it is one
warning, unless HABANA_SIM_CHECK_INDICES asks for the exception: a card goes on there, with a result that is of use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_FOUND = re.compile(
    r"(?P<op>\S+) '(?P<name>.*_(?P<number>\d+))': (?P<kind>IndexError|RuntimeError): (?P<words>.*)"
    r" = (?P<value>-?\d+) is not in \[0, (?P<bound>\d+)\)", re.DOTALL,
)  # fmt: skip
_NAMES = {
    "habana_tf::race": "multinomial",
    "habana_tf::choices": "multinomial",
    "habana_tf::bernoulli_by_": "bernoulli",
}
"""Ops of ours by what a program calls."""
_KINDS = {"IndexError": IndexError, "RuntimeError": RuntimeError}


@dataclass(frozen=True)
class RefusedValue:
    """One value. kind: of PyTorch's exception, words: what it says. where: the op, and the line that called it."""

    kind: str
    words: str
    where: str

    @classmethod
    def of(cls, text: str, lines: Sequence[str]) -> RefusedValue | None:
        """From what the runtime says; None where that is something else. lines: where the program's ops were called."""
        found = _FOUND.search(text)
        if found is None:
            return None
        number = int(found["number"])
        line = lines[number] if number < len(lines) else ""
        words = found["words"].replace("{index}", found["value"]).replace("{size}", found["bound"])
        layer = found["name"].rpartition("/")[0]
        where = (
            _NAMES.get(found["op"], found["op"])
            + (f" of {layer}" if layer else "")
            + (f", called at {line}" if line else "")
        )
        return cls(found["kind"], words, where)

    def error(self) -> Exception:
        """PyTorch's exception."""
        return _KINDS[self.kind](f"{self.words} ({self.where})")

    def warning(self) -> str:
        """What is said where the program goes on."""
        return (
            f"{self.where}: {self.words}; HPU goes on as a card does (a read gives 0, a write is left out, a loss is 0)"
            f", PyTorch's CPU raises {self.kind}: HABANA_SIM_CHECK_INDICES=error makes it one here, off says nothing"
        )
