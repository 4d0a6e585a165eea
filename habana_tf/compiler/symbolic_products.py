"""Turns contractions with run-time strides, which the contraction kernels do not support, into PRODUCT nodes.

    out[m, n] = sum over k of a[m, k] * b[k, n]        m, k and n symbols: the rows of a lie k apart, those of out n

The code of a PRODUCT loads its loops' extents and strides (see `ir.loop_nest`) and is the same for all sizes. It takes
1.1 to 1.4 times as long as code for constant sizes (matrices of 200 to 1,000 rows, AVX-512; of 40 rows up to 2.7
times), and longer where bf16 has its own instructions. So it pays for clusters that meet many sizes, which
`resolver.ranged` chooses. A product of a matrix and a vector becomes a reduction, and so does one with an axis that may
be empty.

Operands are read in place, also through views. They are copied where vectors along the columns would be gathered; bf16
and 8-bit floats are converted to float32 first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from habana_tf.compiler.contraction import ContractSpec, StridedView, SymbolicLabel, merged
from habana_tf.compiler.contraction_operands import has_code, labels_of, read, specification, whole
from habana_tf.compiler.generic_products import register_tile, strided_loop, two_loops
from habana_tf.compiler.narrow_operands import wide
from habana_tf.compiler.product_costs import THREAD_WORK, WALKED_FEW_ROWS
from habana_tf.compiler.products_to_reductions import as_reduction, per_example
from habana_tf.compiler.rewrite import rebuild
from habana_tf.hardware.cpu import Target
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent, nominal
from habana_tf.ir.loop_nest import LoopNest, RowBounds, StridedLoop
from habana_tf.ir.primitives import Contraction, Node, Op, Program


def with_loop_nests(program: Program, target: Target) -> Program:
    """The program with a PRODUCT or a reduction for each contraction that has no kernel; the same program if none."""
    if not target.masked_memory:
        return program
    changed = rebuild(program, lambda node: _lowered(node, target))
    return changed if _products(changed) < _products(program) else program


def _products(program: Program) -> int:
    return sum(n.op is Op.CONTRACT for n in program.nodes())


def _lowered(node: Node, target: Target) -> Node:
    if node.op is not Op.CONTRACT or per_example(node):
        return node
    views = read(node.src[0]), read(node.src[1])
    if has_code(node, (whole(node.src[0]), whole(node.src[1]))) or has_code(node, views):
        return node
    if not {"m", "n"} <= {x.kind for x in _labels(node, views)}:
        return as_reduction(node)
    (a, b), labels = _sides(node, views)
    nest = _loop_nest(labels, (a.offset, b.offset), target)
    if nest is None:
        return as_reduction(node)
    builder = Builder()
    builder.origin = node.origin
    sides = tuple(wide(builder, v.base, node.arg) for v in (a, b))
    made = Node(Op.PRODUCT, sides, node.shape, DType.F32, nest, node.origin)
    return builder.cast(made, node.dtype)


def _sides(
    node: Node, views: tuple[StridedView, StridedView]
) -> tuple[tuple[StridedView, StridedView], list[SymbolicLabel]]:
    """The operands, ordered so that the second has the result's last axis, contiguous; and the labels over them."""
    spec: Contraction = node.arg
    a, b = views
    labels = _labels(node, views)
    if _lane(labels).kind == "m":
        node = replace(node, src=(node.src[1], node.src[0]), arg=replace(spec, a=spec.b, b=spec.a))
        a, b, labels = b, a, _labels(node, (b, a))
    if _lane(labels).b != 1:
        node, b = _side_by_side(node)
        labels = _labels(node, (a, b))
    return (a, b), labels


def _lane(labels: Sequence[SymbolicLabel]) -> SymbolicLabel:
    """The label of the result's last axis."""
    return next(x for x in labels if x.out == 1)


def _labels(node: Node, views: tuple[StridedView, StridedView]) -> list[SymbolicLabel]:
    spec: ContractSpec = specification(node, views)
    return merged(spec)


def _side_by_side(node: Node) -> tuple[Node, StridedView]:
    """The contraction with a transposed copy of its second operand: summed axes first, the others as in the result."""
    spec: Contraction = node.arg
    order = sorted(range(len(spec.b)), key=lambda k: (spec.b[k] in spec.out, labels_of(node).index(spec.b[k])))
    builder = Builder()
    builder.origin = node.origin
    copy = builder.permute(node.src[1], order)
    axes = tuple(spec.b[k] for k in order)
    return replace(node, src=(node.src[0], copy), arg=replace(spec, b=axes)), whole(copy)


def _loop_nest(labels: Sequence[SymbolicLabel], offsets: tuple[Extent, Extent], target: Target) -> LoopNest | None:
    """The loop nest of a product over symbols; None if a loop may be empty."""
    of = {kind: [x for x in labels if x.kind == kind] for kind in ("m", "n", "k")}
    lane = _lane(labels)
    if any(x.guards or ext.bounds(x.extent)[0] < 1 for x in labels):
        return None
    summed = sorted(of["k"], key=lambda x: nominal(_size(x.a)), reverse=True)
    window_loops, depth = [strided_loop(x) for x in summed[:-1]], strided_loop(summed[-1]) if summed else StridedLoop()
    batch = [strided_loop(x) for x in (*(x for x in of["n"] if x is not lane), *of["m"][:-2])]
    outer, inner = two_loops(of["m"][-2:])
    count = ext.mul(outer.extent, inner.extent)
    tile = register_tile(count if isinstance(count, int) else WALKED_FEW_ROWS, "columns", target.lanes)
    panels = ext.ceil_div(lane.extent, tile.vectors * target.lanes)
    row_tiles = ext.ceil_div(count, tile.rows)
    tiles = ext.product([*(x.extent for x in batch), panels, row_tiles])
    window_count = ext.product(x.extent for x in window_loops)
    share = max(1, round(THREAD_WORK / (tile.rows * tile.vectors * nominal(window_count) * nominal(depth.extent))))
    return LoopNest(
        tile, tuple(batch) or (StridedLoop(),), (outer, inner), strided_loop(lane), depth, (RowBounds(), RowBounds()),
        offsets, row_tiles, panels, tiles, share, ext.ceil_div(tiles, share), window_count,
        window_loops=tuple(window_loops) or (StridedLoop(),),
    )  # fmt: skip


def _size(step: Extent) -> Extent:
    """The absolute value of a stride."""
    return ext.mul(step, -1) if ext.bounds(step)[0] < 0 else step
