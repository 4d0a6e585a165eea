"""Code of loops over a domain: elementwise chains and reductions.

The domain's axes are merged (`axes.py`); outer ones are the grid, middle ones loops, and one axis is vectorized: the
last one of an elementwise kernel; of a reduction the last reduced axis if memory is contiguous along it (*row*: a
horizontal reduction of the lanes at the end), else the last kept one (*column*: each lane is a result of its own).

    row     out[i]   = sum over j of x[i, j]       lanes along j, four accumulators, then a horizontal sum
    column  out[j]   = sum over i of x[i, j]       lanes along j, up to four vectors at a time

The order of every sum depends on shapes only, never on the number of threads.
"""

from __future__ import annotations

from habana_tf.compiler.body import Body
from habana_tf.compiler.code import Code, FunctionCall
from habana_tf.compiler.codegen.column_sums import ColumnSums
from habana_tf.compiler.codegen.crossed_maps import CrossedMap
from habana_tf.compiler.codegen.domain_walk import DomainWalk
from habana_tf.compiler.codegen.emit import Function
from habana_tf.compiler.codegen.map_loops import MapLoop
from habana_tf.compiler.codegen.row_sums import RowSums
from habana_tf.compiler.costs import WIDEST_LANES
from habana_tf.hardware.cpu import Target
from habana_tf.ir.primitives import Node


def emit_loop(
    body: Body, name: str, memory: dict[Node, int], nodes: list[Node], target: Target, compact: bool = False
) -> Code:
    """The code of a loop kernel.

    memory: the number of each node in `nodes`, the kernel's buffers (loads first, then outputs). compact: prefer little
    code.
    """
    fn, lanes = Function(name, target.rounds_to_bf16, target.masks_halves, target.converts_float16), target.lanes
    walk = DomainWalk(fn, body, memory, len(nodes), lanes, compact and lanes >= WIDEST_LANES)
    outer = [a for a in walk.axes if a is not walk.vector and not a.reduced]
    inner = [a for a in walk.axes if a is not walk.vector and a.reduced]
    if walk.vector is None or walk.vector.reduced:
        grid, grain = RowSums(walk).emit(outer, inner)
    elif inner or body.reductions:
        grid, grain = ColumnSums(walk).emit(outer, inner)
    else:
        grid, grain = (CrossedMap.of(walk, outer) or MapLoop(walk)).emit(outer)
    return Code((FunctionCall(name, fn.text(), tuple(nodes), grid, grain),), frozenset(fn.declarations))
