"""The node `HpuLoop`: a loop in a serialized cluster, with its body as an attribute.

    inputs    args: tensors; fixed: those whose values decide how often the body runs, and where elements are
    outputs   results: what is left of some variables when the loop ends
    body      a serialized cluster. Its inputs are the variables in order (without those of kind push and set); its
              outputs the condition, then of each variable that changes what it becomes: the value, the list, the
              element that is pushed, or the position and the element that are set
    form      which variables there are, as JSON (`LoopForm`)

TensorFlow has no such op; it never sees one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

from habana_tf.cluster.cluster import Ref

T = TypeVar("T")

_LEFT = {"value": 1, "push": 1, "list": 1, "set": 2}
"""Outputs of the body for a variable of each kind that changes."""


@dataclass
class LoopSlot:
    """A variable of a loop. kind: same, value; of lists see `tensorflow/graph/loop_lists.py`; unused."""

    kind: str = "same"
    fixed: bool = False


@dataclass
class LoopForm:
    """slots: the variables. order: which of them each input of the node is; results: each output."""

    slots: list[LoopSlot]
    order: list[int]
    results: list[int]

    def text(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def parse(cls, text: str) -> LoopForm:
        data = json.loads(text)
        return cls([LoopSlot(**slot) for slot in data["slots"]], data["order"], data["results"])

    def inner(self) -> list[int]:
        """The variables that are inputs of the body."""
        return [k for k, slot in enumerate(self.slots) if slot.kind not in ("push", "set", "unused")]

    def left(self, outputs: Sequence[T]) -> dict[int, Sequence[T]]:
        """What each variable that changes becomes. outputs: of the body."""
        found, at = {}, 1
        for k, slot in enumerate(self.slots):
            if size := _LEFT.get(slot.kind, 0):
                found[k] = outputs[at : at + size]
                at += size
        return found

    def origins(self, sources: Sequence[Sequence[Ref]], outputs: Sequence[Ref]) -> list[tuple[set[int], set[int]]]:
        """Of each result: the inputs of the loop, and the nodes of its body, from which its value follows: those of the
        variables that it is made of, and of the condition. A counter follows from counters, whatever else the loop
        computes. sources: of each node of the body; outputs: of the body."""
        inner, left = self.inner(), self.left(outputs)
        found = []
        for result in self.results:
            variables, nodes = {result}, set[int]()
            stack = [outputs[0], *left.get(result, ())]
            while stack:
                index, output = stack.pop()
                if index >= 0:
                    if index not in nodes:
                        nodes.add(index)
                        stack.extend(sources[index])
                elif (k := inner[output]) not in variables:
                    variables.add(k)
                    stack.extend(left.get(k, ()))
            found.append(({at for at, k in enumerate(self.order) if k in variables}, nodes))
        return found
