"""Decides which graphs of torch.compile become one program: in eager mode those of a training step, forward and
backward.

A forward graph whose backward graph is to come does not run by itself. It waits, and the recording goes on with what
follows: ops of eager mode, such as a loss, more forward graphs, and the backward graphs. It ends with the backward
pass:

    graph 1, op, graph 2, loss, gradient of graph 2, gradient of op, gradient of graph 1 | optimizer

Another step has begun, and what waits is run, when a graph comes that waits already, or a forward graph after a
backward one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

_MOST_BETWEEN = 512
"""Ops of eager mode that wait with graphs for the backward pass."""


class GraphKind(Enum):
    """What a graph is: a forward pass with a backward graph to come, that backward graph, or one without gradients."""

    FORWARD = "forward"
    BACKWARD = "backward"
    ALONE = "alone"


@dataclass
class CompiledGraphs:
    """The compiled graphs of what is recorded now.

    awaited: forward graphs whose backward graphs are to come. came: whether a backward graph came. passing: whether the
    end of the backward pass that is under way will flush. some: whether there is any graph. within: whether the ops of
    a graph are being recorded one by one. ops: how many ops of eager mode were recorded.
    """

    awaited: list[Any] = field(default_factory=list)
    came: bool = False
    passing: bool = False
    some: bool = False
    within: bool = False
    ops: int = 0

    @property
    def wait(self) -> bool:
        """Whether ops of eager mode wait with the graphs, rather than end the program."""
        return self.within or (self.passing or bool(self.awaited)) and self.ops < _MOST_BETWEEN

    def goes_on(self, kind: GraphKind, graph: Any) -> bool:
        """Whether a graph belongs to the step that is recorded."""
        return kind is GraphKind.BACKWARD or self.wait and not self.came and graph not in self.awaited

    def add(self, kind: GraphKind, graph: Any) -> None:
        self.some = True
        if kind is GraphKind.FORWARD:
            self.awaited.append(graph)
        elif kind is GraphKind.BACKWARD:
            self.came = True
            if self.awaited:
                self.awaited.pop()
