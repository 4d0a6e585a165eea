"""The lowering of an op whose kernel is in a library: one CUSTOM node per output.

All that the library says beforehand (shapes, work items, workspace) is asked here, for these shapes and attributes, and
is in the node: a launch asks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from habana_tf.ir import c_abi
from habana_tf.ir.dtypes import DType
from habana_tf.ir.libraries import LibraryKernel
from habana_tf.ir.primitives import Custom, Node
from habana_tf.tensorflow.lowering.lowering import Lowering

ShapeFunction = Callable[[Lowering], Sequence[Sequence[int]]]


def calling(
    kernel: LibraryKernel, library: str, types: Callable[[Lowering], Sequence[DType]], shapes: ShapeFunction
) -> Any:
    """The lowering that calls a kernel. library: its digest. types: element types of the op's outputs; shapes: theirs,
    as they are declared, of a kernel without a function that tells them."""

    def lower(c: Lowering) -> list[Node]:
        given: list[tuple[DType, list[int]]] = []
        for x in c.inputs:
            sizes = [n for n in x.shape if isinstance(n, int)]
            if len(sizes) != x.rank:
                raise c.needs_number("its kernel is in C, which has code for sizes that are numbers")
            c.require(x.rank <= c_abi.MAX_RANK, f"a kernel in C takes tensors of rank {c_abi.MAX_RANK} at most")
            given.append((x.dtype, sizes))
        attrs = tuple(attr for name in sorted(c.attrs) if (attr := c_abi.attribute(name, c.attrs[name])) is not None)
        made = types(c)
        try:
            if kernel.shape:
                found = c_abi.CallFrame(given, len(made), attrs).shapes(kernel.shape)
            else:
                found = [tuple(shape) for shape in shapes(c)]
            outputs = tuple(zip(made, found, strict=True))
            call = c_abi.CallFrame(given, outputs, attrs)
            items = call.number(kernel.items, "work items") if kernel.items else 1
            call.c.items = items
            workspace = call.number(kernel.workspace, "the workspace") if kernel.workspace else 0
        except ValueError as why:
            raise c.error(f"its kernel says: {why}") from why
        return c.b.custom(Custom(kernel.op, library, attrs, outputs, items, workspace), c.inputs)

    return lower
