"""The form in which a loop travels in a cluster: the node `HpuLoop`, which has its body as an attribute.

    inputs    args: tensors; fixed: those whose values decide how often the body runs, and where elements are
    outputs   results: what is left of some variables when the loop ends
    body      a serialized cluster. Its inputs are the variables in order (without those of kind push and set); its
              outputs the condition, then of each variable that changes what it becomes: the value, the list, the
              element that is pushed, or the position and the element that are set
    form      which variables there are, as JSON (`Form`)

TensorFlow has no such op; it never sees one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass
class Slot:
    """A variable of a loop. kind: same, value; of lists see `graph/loop_lists.py`; unused."""

    kind: str = "same"
    fixed: bool = False


@dataclass
class Form:
    """slots: the variables. order: which of them each input of the node is; results: each output."""

    slots: list[Slot]
    order: list[int]
    results: list[int]

    def text(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def parse(cls, text: str) -> Form:
        data = json.loads(text)
        return cls([Slot(**slot) for slot in data["slots"]], data["order"], data["results"])
