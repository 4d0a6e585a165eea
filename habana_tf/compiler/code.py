"""The generated code of a kernel: LLVM IR functions and their calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Custom, Node


@dataclass(frozen=True)
class FunctionCall:
    """A call of a generated function.

    buffers: per entry of its buffer list a node in memory, or ("temp", i) for temporary i of the kernel. grid: number
    of work items; grain: the least number of items per thread. constants: passed instead of symbolic extents to a
    function that reads none (see `codegen.merged_functions`). once: its result is invariant in the loop around the
    kernel. custom: a kernel in C, without code here; its buffers are sources, outputs and workspace.
    """

    name: str
    ir: str
    buffers: tuple[Node | tuple[str, int], ...]
    grid: Extent
    grain: int
    constants: tuple[int, ...] = ()
    once: bool = False
    custom: Custom | None = None


class WorkShare(NamedTuple):
    """A function's grid, grain and temporaries; see `FunctionCall` and `Code`."""

    grid: Extent
    grain: int
    temps: tuple[Extent, ...] = ()


@dataclass(frozen=True)
class Code:
    """A kernel's calls in order, the declarations their functions need, and the sizes of its temporaries in bytes."""

    calls: tuple[FunctionCall, ...]
    declarations: frozenset[str]
    temps: tuple[Extent, ...] = ()
