"""What a kernel does, for people: its row in the recipe's manifest.

    engine    MME for contractions, TPC for the rest
    does      contract, map, reduce, or the primitive's name
    shape     what it runs over; a size known at run time only is text
    fused     how often each scalar function stands in it
    ops       the cluster's ops it computes, wholly or in part, by index; equal computations are done once, and count
              for the op that came first; constants, shapes and views of inputs are no work
    outputs   how many tensors it writes
    flops     floating-point operations of one launch: two per multiply-add of a contraction, one per element for each
              scalar function of floating-point numbers (whatever its price) and each term of a reduction
    bytes     what it touches: the sizes of the tensors it reads and writes, each once and whole

Counts follow from shapes alone. A row is made for every kernel of every compilation, so it is one walk over its nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from . import extent as ext
from .extent import Extent
from .ir import VIEWS, Contraction, Node, Op
from .keep import ALWAYS_KEPT
from .kernels import ContractKernel, Kernel, LoopKernel, SingleKernel
from .reads import reads_of
from .schedule import Schedule

_NO_ARITHMETIC = frozenset({"cast", "bitcast", "select"})


def describe(kernel: Kernel, plan: Schedule) -> dict[str, Any]:
    """The row of a kernel of `plan`, as JSON data."""
    inside = list(_inside(kernel, plan))
    maps = [n for n in inside if n.op is Op.MAP] if not isinstance(kernel, SingleKernel) else []
    reduces = kernel.reduces if isinstance(kernel, LoopKernel) else []
    reads, _ = reads_of(kernel, plan.kept, plan.operands, set(kernel.outputs))
    touched = {**dict.fromkeys(reads), **dict.fromkeys(kernel.outputs)}
    if isinstance(kernel, ContractKernel):
        engine, does, shape, flops = "MME", "contract", kernel.node.shape, _multiply_adds(kernel.node)
        flops = ext.mul(flops, 2)
    elif isinstance(kernel, LoopKernel):
        engine, does, shape, flops = "TPC", "reduce" if reduces else "map", kernel.domain, 0
    else:
        engine, does, shape, flops = "TPC", kernel.node.op.name.lower(), kernel.node.shape, 0
    per_element = sum(n.src[-1].dtype.is_float and n.arg not in _NO_ARITHMETIC for n in maps)
    per_element += sum(n.src[0].dtype.is_float for n in reduces)
    flops = ext.add(flops, ext.mul(ext.product(shape), per_element))
    fused = Counter([*(n.arg for n in maps), *(n.arg[0] for n in reduces)])
    return {
        "engine": engine,
        "does": does,
        "shape": [_plain(n) for n in shape],
        "fused": dict(sorted(fused.items())),
        "ops": sorted({n.origin for n in inside if n.origin >= 0 and not _constant(n)}),
        "outputs": len(kernel.outputs),
        "flops": _plain(flops),
        "bytes": _plain(_total(ext.mul(n.numel, n.dtype.bytes) for n in touched)),
    }


def _inside(kernel: Kernel, plan: Schedule) -> Iterator[Node]:
    """The nodes that a kernel computes, and the views through which it reads."""
    computed = dict.fromkeys(kernel.outputs)
    stack = list(kernel.outputs)
    if not isinstance(kernel, LoopKernel):
        computed[kernel.node] = None
        stack.append(kernel.node)
    if not isinstance(kernel, SingleKernel):
        stack.extend(s.value for s in kernel.stores)
    seen: set[Node] = set()
    while stack:
        n = stack.pop()
        if n in seen or (n in plan.kept and n not in computed):
            continue
        seen.add(n)
        yield n
        # A concatenation is computed part by part, a scatter in place of its base: their sources are other kernels'.
        if n.op not in (Op.CONCAT, Op.SCATTER):
            stack.extend(s for s in n.src if s.op not in ALWAYS_KEPT or s in computed)


def _constant(node: Node) -> bool:
    """Whether a node is a constant or a view of constants, which ops share: it is nobody's work."""
    seen = {node}
    stack = [node]
    while stack:
        n = stack.pop()
        if n.op is not Op.CONST and n.op not in VIEWS:
            return False
        stack.extend(s for s in n.src if s not in seen)
        seen.update(n.src)
    return True


def _multiply_adds(node: Node) -> Extent:
    """Products that a contraction sums: one for each combination of its labels."""
    spec: Contraction = node.arg
    sizes: dict[int, Extent] = {}
    for s, labels in zip(node.src, (spec.a, spec.b), strict=True):
        sizes.update(zip(labels, s.shape, strict=True))
    return ext.product(sizes.values())


def _total(sizes: Iterator[Extent]) -> Extent:
    out: Extent = 0
    for n in sizes:
        out = ext.add(out, n)
    return out


def _plain(extent: Extent) -> int | str:
    return extent if isinstance(extent, int) else str(extent)
