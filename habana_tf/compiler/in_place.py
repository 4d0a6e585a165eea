"""Updates in place: a scatter whose base is read by nobody else needs no copy of it.

A scatter is two kernels: a loop that makes the base in the result's memory, and one that writes the updates over it.
Where the base is computed elementwise the first one computes it there. Where it is in memory already the loop is a
copy of the whole, which a cache of keys and values is too large for at every token:

    cache (input)  -> copy -> scatter -> new cache (output)     the launch may take over the input's memory; see
                                                                `Recipe.copies`, and kernels/plugin/launch.cc
    first scatter  -> copy -> second scatter                    both are one buffer, and there is no copy at all

Either way nobody may read the old value after the new one has begun to be written. So it is with a sum that a loop
carries: what an iteration adds to it is added where it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..ir.primitives import Node, Op
from .body import Body, Load, Lookup
from .code import Code


def copied(body: Body) -> tuple[Node, Node] | None:
    """(base, scatter) of a kernel that does nothing but copy a base into the memory of its scatter."""
    if body.core is not None or body.reductions or len(body.stores) != 1:
        return None
    (stored,) = body.stores
    if stored.target.op is not Op.SCATTER or not isinstance(stored.value, Load):
        return None
    base = stored.target.src[0]
    whole = stored.value.node is base and stored.value.offset == stored.offset and not stored.value.guard
    return (base, stored.target) if whole and base.op in (Op.INPUT, Op.SCATTER) else None


def joined(outputs: Collection[Node], kernels: Sequence[Body], codes: Sequence[Code]) -> dict[Node, Node]:
    """The scatters that may share their buffer with the one that follows them, which begins as their copy.

    The copy must be the last that reads them, and they must not be outputs themselves, of the program or of a loop.
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
        pair = copied(kernel)
        if pair is None or pair[0].op is not Op.SCATTER or pair[0] in outputs:
            continue
        base, target = pair
        if base.dtype is target.dtype and last.get(base) == k and first.get(target) == k:
            out[base] = target
    return out


def adds_up(kernels: Sequence[Body], now: Node, then: Node) -> bool:
    """Whether what a loop carries may be changed where it is: an iteration reads each element of it once, where it
    writes the new one, and nowhere else. Tiles of products that overlap would add twice; over sizes that are numbers
    they do so in compact code only, and loops have none (see `generate`)."""
    readers = [k for k in kernels if now in k.reads]
    if len(readers) != 1:
        return False
    (kernel,) = readers
    places = {s.offset for s in kernel.stores if s.target is then}
    loads = [v for v in kernel.values if isinstance(v, Load | Lookup) and v.node is now]
    others = kernel.without({then})
    return (
        (kernel.is_contraction or kernel.is_loop)
        and not kernel.reductions
        and all(isinstance(n, int) for n in kernel.domain)
        and now not in {v.base for v in kernel.operands}
        and len(places) == 1
        and now not in others.reads
        and all(isinstance(v, Load) and not v.guard and {v.offset} == places for v in loads)
    )
