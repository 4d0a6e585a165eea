"""In-place updates: results that may share their memory with an input that is dead afterwards (buffer aliasing).

A scatter is two kernels: a loop that stores the base in the result's memory, and one that writes the updates over it.
If the base is in memory already the loop is a copy, too slow for a cache of keys and values at every token:

    cache (input)  -> copy -> scatter -> new cache (output)     the launch may reuse the input's memory: see
                                                                `Recipe.copies` and kernels/plugin/launch.cc
    first scatter  -> copy -> second scatter                    both share one buffer, without a copy

What is computed of the base, as a row of it plus 1, is computed before (see `kept_values`). The old value must not be
read after the first write of the new one. The same holds for a sum that a loop carries, which is accumulated in place,
and for variables: an optimizer overwrites the old values, which halves the memory traffic, if
the launch owns the variables' memory (see kernels/plugin/launch.cc):

    w, m, v (inputs)  -> product of the gradient, with Adam as its epilogue  -> w, m, v (outputs)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from habana_tf.compiler.body import Body
from habana_tf.compiler.code import Code
from habana_tf.compiler.point_values import Load, Lookup
from habana_tf.ir.primitives import Node, Op, Program


def copied_base(body: Body) -> tuple[Node, Node] | None:
    """(base, scatter) of a kernel that only copies the base into the scatter's memory, else None."""
    if body.core is not None or body.reductions or len(body.stores) != 1:
        return None
    (stored,) = body.stores
    if stored.target.op is not Op.SCATTER or not isinstance(stored.value, Load):
        return None
    base = stored.target.src[0]
    while base.op is Op.RESHAPE:
        base = base.src[0]
    whole = stored.value.node is base and stored.value.offset == stored.offset and not stored.value.guard
    return (base, stored.target) if whole and base.op in (Op.INPUT, Op.SCATTER) else None


def shared_scatters(outputs: Collection[Node], kernels: Sequence[Body], codes: Sequence[Code]) -> dict[Node, Node]:
    """The scatters that may share a buffer with a following scatter, whose base they are.

    The copy to the base must be their last use, and they must not be outputs of the program or of a loop.
    """
    last: dict[Node, int] = {}
    first: dict[Node, int] = {}
    for k, code in enumerate(codes):
        for call in code.calls:
            for node in call.buffers:
                if isinstance(node, Node):
                    last[node] = k
                    first.setdefault(node, k)
    out: dict[Node, Node] = {}
    for k, kernel in enumerate(kernels):
        pair = copied_base(kernel)
        if pair is None or pair[0].op is not Op.SCATTER or pair[0] in outputs:
            continue
        base, target = pair
        if base.dtype is target.dtype and last.get(base) == k and first.get(target) == k:
            out[base] = target
    return out


def accumulates(kernels: Sequence[Body], now: Node, then: Node) -> bool:
    """Whether a carried value may be updated in place: the only kernel that reads it overwrites it elementwise."""
    readers = [k for k in kernels if now in k.reads]
    return len(readers) == 1 and now not in readers[0].without({then}).reads and overwrites(readers[0], now, then)


def overwrites(kernel: Body, old: Node, new: Node) -> bool:
    """Whether a kernel may write a tensor over one that it reads: every element is read only at the point that writes
    it. A value is loaded before the stores that depend on it; for uses after other stores see `needed_after_overwrite`.

    Overlapping tiles of products would read their own results; for constant sizes tiles overlap in compact code only,
    which is not used with epilogues (see `generate`)."""
    places = {s.offset for s in kernel.stores if s.target is new}
    loads = [v for v in kernel.values if isinstance(v, Load | Lookup) and v.node is old]
    return (
        (kernel.is_contraction or kernel.is_loop)
        and not kernel.reductions
        and all(isinstance(n, int) for n in kernel.domain)
        and old not in {v.base for v in kernel.operands}
        and len(places) == 1
        and all(isinstance(v, Load) and not v.guard and {v.offset} == places for v in loads)
    )


def needed_after_overwrite(kernel: Body, old: Node, new: Node) -> bool:
    """Whether a kernel uses elements of a tensor after it has overwritten them. They are then loaded before the first
    store, and not as invariant memory (`Body.overwritten`): LLVM may repeat an invariant load instead of keeping the
    value over a call."""
    loads = {v for v in kernel.values if isinstance(v, Load) and v.node is old}
    last = max((k for k, s in enumerate(kernel.stores) if s.target is new), default=-1)
    before = set(replace(kernel, stores=kernel.stores[: last + 1], reductions=()).values)
    return any(s.value in loads for s in kernel.stores[last + 1 :]) or any(
        not loads.isdisjoint(v.args) for v in kernel.values if v not in before
    )


def updated(
    program: Program,
    kernels: Sequence[Body],
    life: Callable[[Node], tuple[int, int]],
    copies: Collection[tuple[int, int]],
) -> list[tuple[int, int]]:
    """(input, output) of the variables of a program that may be updated in place.

    life: a tensor's live range in calls; copies: (input, output) where the input's only use is a copy to the output
    that will be elided. None with custom kernels in C: one that fails would leave some variables updated.
    """
    if any(n.op is Op.CUSTOM for n in program.nodes()):
        return []
    writers: dict[Node, list[Body]] = {}
    for kernel in kernels:
        for node in dict.fromkeys(kernel.outputs):
            writers.setdefault(node, []).append(kernel)
    out = []
    for pair in program.updates:
        old, new = program.inputs[pair[0]], program.outputs[pair[1]]
        if old.dtype is not new.dtype or old.numel != new.numel:
            continue
        read, written = life(old)[1], life(new)[0]
        both = [kernel for kernel in writers.get(new, ()) if old in kernel.reads]
        at_once = read == written and len(both) == 1 and overwrites(both[0], old, new)
        if read < written or at_once or pair in copies:
            out.append(pair)
    return out
