"""Describes kernels for reports: each kernel's row in the recipe's manifest.

    engine    MME for contractions, TPC for the rest
    does      contract, map, reduce, or the primitive's name
    shape     its iteration domain; symbolic sizes are text
    fused     the number of times that each scalar function occurs
    ops       the indices of the cluster's ops that it computes, wholly or in part; a shared computation counts for the
              first op; constants, shapes and views of inputs are no work
    core      the index of the op whose work it is, where it is one's: of a contraction, say, that others are fused into
    outputs   the number of tensors it writes
    flops     floating-point operations of one launch: two per multiply-add of a contraction, one per element for each
              scalar function of floats (whatever its cost), each term of a reduction or a scan, and each arithmetic
              update of a scatter
    bytes     the sizes of the tensors that it reads and writes, each counted once
    times     how often it runs in one launch, if it is in a loop; flops and bytes are totals

Counts follow from the kernel's body. Symbolic sizes make them expressions of the symbols.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from habana_tf.compiler.body import Body
from habana_tf.compiler.point_values import Apply
from habana_tf.compiler.primitive_classes import primitive
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node, Op, Shape

_NO_ARITHMETIC = frozenset({"cast", "bitcast", "select", "stored"})


def describe(body: Body, times: Extent = 1) -> dict[str, Any]:
    """The row, as JSON data, of a kernel that runs `times` times per launch."""
    core, reduces = body.core, [r.node for r in body.reductions]
    fused = Counter([*(v.fn for v in body.values if isinstance(v, Apply)), *(n.arg[0] for n in reduces)])
    origins = dict.fromkeys((*body.through, *body.outputs, *([core] if core is not None else [])))
    does = ("reduce" if reduces else "map") if core is None else core.op.name.lower()
    return {
        "engine": engine(body),
        "does": "contract" if engine(body) == "MME" else does,
        "shape": [_plain(n) for n in _shape(body)],
        "fused": dict(sorted(fused.items())),
        "ops": sorted({n.origin for n in origins if n.origin >= 0 and not _constant(n)}),
        "outputs": len(body.outputs),
        "flops": _plain(ext.mul(flops(body), times)),
        "bytes": _plain(ext.mul(touched(body), times)),
        **({} if times == 1 else {"times": _plain(times)}),
        **({} if core is None or core.origin < 0 else {"core": core.origin}),
    }


def describe_copy(body: Body, source: Node, times: Extent) -> dict[str, Any]:
    """The row of the packing of a loop-invariant operand, which is hoisted out of the loop."""
    nbytes = ext.mul(source.numel, 2 * source.dtype.bytes)
    return {
        "engine": "TPC",
        "does": "copy",
        "shape": [_plain(n) for n in source.shape],
        "fused": {},
        "ops": [body.core.origin] if body.core is not None and body.core.origin >= 0 else [],
        "outputs": 1,
        "flops": 0,
        "bytes": _plain(ext.mul(nbytes, times)),
        **({} if times == 1 else {"times": _plain(times)}),
    }


def engine(body: Body) -> str:
    """The engine of a Gaudi that would run it."""
    return "TPC" if body.core is None else primitive(body.core).engine


def flops(body: Body) -> Extent:
    """Floating-point operations of one launch."""
    maps = [v for v in body.values if isinstance(v, Apply) and v.fn not in _NO_ARITHMETIC]
    at_a_point = sum(v.operands[-1].dtype.is_float for v in maps)
    at_a_point += sum(r.value.dtype.is_float for r in body.reductions)
    core = primitive(body.core).flops(body.core) if body.core is not None else 0
    return ext.add(ext.mul(ext.product(body.domain), at_a_point), core)


def touched(body: Body) -> Extent:
    """The sizes in bytes of the tensors that it reads and writes."""
    total: Extent = 0
    for n in dict.fromkeys((*body.reads, *body.outputs)):
        total = ext.add(total, n.nbytes)
    return total


def _shape(body: Body) -> Shape:
    return body.domain if body.core is None else body.core.shape


def _constant(node: Node) -> bool:
    """Whether a node is a constant or a view of constants, which is no work of an op."""
    seen = {node}
    stack = [node]
    while stack:
        n = stack.pop()
        if n.op is not Op.CONST and not primitive(n).is_view:
            return False
        stack.extend(s for s in n.src if s not in seen)
        seen.update(n.src)
    return True


def _plain(extent: Extent) -> int | str:
    return extent if isinstance(extent, int) else str(extent)
