"""Updates in place: a scatter whose base is read by nobody else needs no copy of it.

A scatter is two kernels: a loop that makes the base in the result's memory, and one that writes the updates over it.
Where the base is computed elementwise the first one computes it there. Where it is in memory already the loop is a
copy of the whole, which a cache of keys and values is too large for at every token:

    cache (input)  -> copy -> scatter -> new cache (output)     the launch may take over the input's memory; see
                                                                `Recipe.copies`, and kernels/plugin/launch.cc
    first scatter  -> copy -> second scatter                    both are one buffer, and there is no copy at all

Either way nobody may read the old value after the new one has begun to be written. So it is with a sum that a loop
carries: what an iteration adds to it is added where it is. And so it is with variables: an optimizer's new values are
written over the old ones, which halves what a step touches of them, if the launch has the variables' memory to itself
(see kernels/plugin/launch.cc):

    w, m, v (inputs)  -> product of the gradient, with Adam behind it  -> w, m, v (outputs)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from habana_tf.compiler.body import Body, Load, Lookup
from habana_tf.compiler.code import Code
from habana_tf.ir.primitives import Node, Op, Program


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
    writes the new one, and nowhere else."""
    readers = [k for k in kernels if now in k.reads]
    return len(readers) == 1 and now not in readers[0].without({then}).reads and overwrites(readers[0], now, then)


def overwrites(kernel: Body, old: Node, new: Node) -> bool:
    """Whether a kernel may write a tensor over one that it reads: it reads each element where it writes the new one,
    and nowhere else. A value at a point is loaded once, before what is made of it is stored; where it is needed behind
    a store of what is not made of it, see `needed_behind`.

    Tiles of products that overlap would read what they have written; over sizes that are numbers they do so in compact
    code only, of which there is none with a second tensor to read (see `generate`)."""
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


def needed_behind(kernel: Body, old: Node, new: Node) -> bool:
    """Whether a kernel computes with elements of a tensor after it has written over them. They are loaded before its
    first store then, and LLVM has to know that they change (`Body.overwritten`): what nothing changes it loads again
    rather than keep it over a call."""
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
    """(input, output) of the variables of a program whose new values may be written over the old ones.

    life: the first and the last call that work on a tensor; copies: (input, output) where all that reads the input is a
    copy of it to the output, which is spared. A kernel in C may fail, and would leave half of the variables new.
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
