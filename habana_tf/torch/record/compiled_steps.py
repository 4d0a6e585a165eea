"""Which graphs of torch.compile are one program: those of a training step, forward and backward.

In eager mode a program ends before the next op. One with a graph whose gradient is to come goes on: with ops of eager
mode, such as a loss, with more graphs, and with those of the gradients. It ends where the backward pass does:

    graph 1, op, graph 2, loss, gradient of graph 2, gradient of op, gradient of graph 1 | optimizer

The next step begins with a graph that is in the program already, or with any forward graph after a backward one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

_MOST_BETWEEN = 512
"""Ops of eager mode that wait in one program between graphs and those of their gradients."""


class GraphKind(Enum):
    """What a graph is for: with a gradient to come, that gradient, neither."""

    FORWARD = "forward"
    BACKWARD = "backward"
    ALONE = "alone"


@dataclass
class CompiledGraphs:
    """The compiled graphs of the program that is recorded.

    awaited: forward graphs whose backward graphs are to come. came: whether a backward graph came. passing: whether the
    program will end with the backward pass that is under way. some: whether there is any graph. within: whether one is
    recorded op by op at the moment. ops: how many ops of eager mode there are.
    """

    awaited: list[Any] = field(default_factory=list)
    came: bool = False
    passing: bool = False
    some: bool = False
    within: bool = False
    ops: int = 0

    @property
    def wait(self) -> bool:
        """Whether ops of eager mode become part of the program, rather than end it."""
        return self.within or (self.passing or bool(self.awaited)) and self.ops < _MOST_BETWEEN

    def goes_on(self, kind: GraphKind, graph: Any) -> bool:
        """Whether a graph belongs to the same training step."""
        return kind is GraphKind.BACKWARD or self.wait and not self.came and graph not in self.awaited

    def add(self, kind: GraphKind, graph: Any) -> None:
        self.some = True
        if kind is GraphKind.FORWARD:
            self.awaited.append(graph)
        elif kind is GraphKind.BACKWARD:
            self.came = True
            if self.awaited:
                self.awaited.pop()
