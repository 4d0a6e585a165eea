"""Generated code of a kernel: functions, and how they are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Custom, Node


@dataclass(frozen=True)
class Call:
    """One generated function and how it is called.

    buffers: what each entry of the kernel's buffer list is: a node kept in memory, or ("temp", i) for temporary i
    of its kernel. grid: number of work items; grain: least number of items worth a thread of its own. constants: what
    a function that reads no symbolic extents finds in their place (see `codegen.merged_functions`). once: what it makes
    is the same in all iterations of the loop its kernel is in. custom: of a kernel in C, which has no code here; its
    sources, its outputs and its workspace are the buffers.
    """

    name: str
    ir: str
    buffers: tuple[Node | tuple[str, int], ...]
    grid: Extent
    grain: int
    constants: tuple[int, ...] = ()
    once: bool = False
    custom: Custom | None = None


class Work(NamedTuple):
    """How a function shares its work, and which temporaries it has; see `Call` and `Code`."""

    grid: Extent
    grain: int
    temps: tuple[Extent, ...] = ()


@dataclass(frozen=True)
class Code:
    """The code of one kernel: calls in order, temporary buffers in bytes, declarations the functions need."""

    calls: tuple[Call, ...]
    declarations: frozenset[str]
    temps: tuple[Extent, ...] = ()
