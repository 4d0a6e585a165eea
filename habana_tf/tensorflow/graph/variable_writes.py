"""The writes of each variable in a walk along the graph, and which of them come before a node.

Each write is a bit, and what came before a node is a mask.

An assignment that the same step overwrites before anything reads the memory is not needed. For an embedding, Keras'
Adam updates a whole moment and then some of its rows: with both assignments the launch had the first value among its
results, as large as the table, and the moment could not be updated in place. An LSTM over 30,000 words took a fifth
longer.

    v ─ AssignVariableOp(v, a) ··> AssignVariableOp(v, b)      ->      v ─ AssignVariableOp(v, b)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from habana_tf.tensorflow.graph.frames import ROOT, Class
from habana_tf.tensorflow.graph.variable_handles import VariableKey
from habana_tf.tensorflow.graph.view import Node, Ref


@dataclass
class Write:
    """An access that changes a variable, or may.

    value: what the variable holds after it, if it is known as a tensor. cover: the writes that are in that value.
    """

    bit: int
    node: Node
    cls: Class
    value: Ref | None = None
    cover: int = 0


@dataclass
class VariableState:
    """reads: the one read of the value from before the step, per class."""

    writes: list[Write] = field(default_factory=list)
    mask: int = 0
    reads: dict[Class, Node] = field(default_factory=dict)

    def add(self, write: Write) -> None:
        self.mask |= write.bit
        self.writes.append(write)

    def latest(self, cls: Class, mask: int) -> Write | None:
        """The last write of a class among those in a mask."""
        return next((w for w in reversed(self.writes) if w.cls == cls and w.bit & mask), None)


class Writes:
    """before: the writes before a node by any path, and itself. unknown: those that may be of any variable. seen: those
    behind which a node takes the variable itself, not the value that was written."""

    def __init__(self) -> None:
        self.before: dict[Node, int] = {}
        self.unknown = 0
        self.seen = 0
        self._variables: dict[VariableKey, VariableState] = {}
        self._count = 0

    def of(self, key: VariableKey) -> VariableState:
        return self._variables.setdefault(key, VariableState())

    def mark(self, node: Node) -> int:
        """Makes a node a write; returns its bit."""
        bit = 1 << self._count
        self._count += 1
        self.before[node] |= bit
        return bit

    def prior(self, node: Node, variable: VariableState) -> int:
        """The writes before a node that a variable's value may come from."""
        return self.before[node] & (variable.mask | self.unknown)

    def overwritten(self) -> list[Node]:
        """The assignments whose value nothing takes from memory before another assignment that waits for them.

        None in a loop or a branch, and none beside writes that may be of any variable.
        """
        out: list[Node] = []
        for variable in self._variables.values() if not self.unknown else ():
            known = [w for w in variable.writes if w.value is not None]
            if any(w.cls != ROOT for w in variable.writes):
                continue
            for write in known:
                behind = (w for w in known if write.bit & (self.before[w.node] | w.cover))
                if not write.bit & self.seen and any(w is not write for w in behind):
                    out.append(write.node)
        return out
