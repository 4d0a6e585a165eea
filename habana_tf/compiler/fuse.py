"""Kernel fusion: kernels over the same domain become one, so that values pass in registers and memory is read once.

An elementwise kernel, or a part of a concatenation, joins a loop kernel that it depends on or shares reads with. After
a contraction it becomes the epilogue, as do sums over all rows of the contraction's result. Fusion is illegal if the
kernel would read its own results at another index, or if it would close a cycle of dependences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from habana_tf.compiler.body import Body, point
from habana_tf.compiler.body_builder import BodyBuilder, loop
from habana_tf.compiler.contraction import canonical
from habana_tf.compiler.contraction_operands import labels_of, specification
from habana_tf.compiler.costs import (
    EPILOGUE_OPERATIONS,
    EPILOGUE_STORES,
    EPILOGUE_SUMS,
    FUSED_CANDIDATES,
    FUSED_STORES,
    SUMMED_ELEMENTS,
    TINY_ELEMENTS,
)
from habana_tf.compiler.deviations import deviations
from habana_tf.compiler.primitive_classes import primitive
from habana_tf.compiler.primitive_families import Pass
from habana_tf.compiler.split_reductions import split
from habana_tf.compiler.sums_together import SumsTogether
from habana_tf.compiler.view_indices import strides
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.linearity import linear
from habana_tf.ir.primitives import Node, Op, Shape


@dataclass(eq=False)
class FusedKernel:
    """A kernel with what was fused into it. builder: of its body's values; None if nothing can be fused into it."""

    body: Body
    number: int
    builder: BodyBuilder | None
    shifted: bool = False
    """Whether it stores parts of a tensor."""
    before: set[int] = field(default_factory=set)
    ancestors: int = 0


class Fusion:
    """Fuses kernels, given in topological order."""

    def __init__(self, kept: set[Node], nodes: Sequence[Node] = ()) -> None:
        self.kept = kept
        self.together = SumsTogether(nodes, kept)
        self.groups: list[FusedKernel] = []
        self._writers: dict[Node, list[FusedKernel]] = {}
        self._by_domain: dict[Shape, list[FusedKernel]] = {}

    def add(self, body: Body, builder: BodyBuilder | None) -> None:
        """Adds a kernel without fusing it into another."""
        before = {w.number for n in body.reads for w in self._writers.get(n, ())}
        if builder is None:
            before.update(w.number for n in body.outputs for w in self._writers.get(n, ()))
        self._append(FusedKernel(body, len(self.groups), builder, before=before, ancestors=self._ancestors(before)))

    def add_pass(self, new: Pass) -> None:
        """Adds a loop, fused into an earlier kernel if possible."""
        spread = {n: x for n in new.reduces if (x := deviations(n)) is not None}
        if spread and self._fuse(new, spread):
            return
        me = self._unfused(new)
        if not self._fuse(new, {}, me):
            self._append(me)

    def _unfused(self, new: Pass, spread: Mapping[Node, Node] | None = None) -> FusedKernel:
        builder = BodyBuilder(self.kept, set(new.outputs))
        body = loop(new.domain, new.stores, new.reduces, new.axes, builder, spread)
        before = {w.number for n in body.reads for w in self._writers.get(n, ())}
        shifted = any(any(shift) or primitive(target).in_pieces for _, target, shift in new.stores)
        return FusedKernel(body, len(self.groups), builder, shifted, before, self._ancestors(before))

    def _fuse(self, new: Pass, spread: Mapping[Node, Node], me: FusedKernel | None = None) -> bool:
        """Fuses a loop into an earlier group, if one is suitable. spread: see `body_builder.loop`; only contractions'
        epilogues support it."""
        me = me or self._unfused(new, spread)
        host = self._find_host(me)
        if host is None:
            return False
        self._merge(host, me, new, spread)
        for n in new.outputs:
            self._writers.setdefault(n, []).append(host)
        return True

    def _append(self, me: FusedKernel) -> None:
        self.groups.append(me)
        for n in me.body.outputs:
            self._writers.setdefault(n, []).append(me)
        self._by_domain.setdefault(me.body.domain, []).append(me)

    def _ancestors(self, before: set[int]) -> int:
        bits = 0
        for b in before:
            bits |= self.groups[b].ancestors | (1 << b)
        return bits

    def _find_host(self, me: FusedKernel) -> FusedKernel | None:
        """The latest group that `me` can be fused into, or None. For a part of a tensor a group that produces its input
        is preferred: otherwise a product's result would go through memory."""
        found = None
        for g in reversed(self._by_domain.get(me.body.domain, [])[-FUSED_CANDIDATES:]):
            bit = 1 << g.number
            if any(b != g.number and self.groups[b].ancestors & bit for b in me.before):
                continue
            if g.builder is not None and _fits(g, me) and not self._has_unfusable_sum(g.body, me.body):
                if not me.shifted or not me.body.reads.keys().isdisjoint(g.body.outputs):
                    return g
                found = found or g
        return found

    def _has_unfusable_sum(self, product: Body, new: Body) -> bool:
        """Whether another sum of a product's result cannot be fused into it (see `_summable`): then a loop reads the
        result anyway, and takes the new body's sum in the same pass."""
        if not product.is_contraction:
            return False
        there = {*product.outputs, product.core, *product.reads}
        others = (reads for r in new.reductions for reads in self.together.beside(r.node))
        return any(reads & set(product.outputs) and reads - there for reads in others)

    def _merge(self, g: FusedKernel, me: FusedKernel, new: Pass, spread: Mapping[Node, Node]) -> None:
        """Fuses a loop into a group: rebuilds its values from those that the group has in registers."""
        assert g.builder is not None
        g.builder.own.update(new.outputs)
        g.shifted = g.shifted or me.shifted
        more = loop(new.domain, new.stores, new.reduces, new.axes, g.builder, spread)
        g.body = replace(
            g.body,
            stores=(*g.body.stores, *more.stores),
            reductions=(*g.body.reductions, *more.reductions),
            axes=g.body.axes or more.axes,
            through=more.through,
        )
        g.before |= me.before - {g.number}
        self._add_ancestors(g, me.ancestors & ~(1 << g.number))

    def overwrite_last(self, updates: Mapping[Node, Node]) -> None:
        """Orders the producer of a variable's new value after all readers of the old value, where possible, so that the
        update can be done in place. updates: old value -> new one."""
        for group in list(self.groups):
            for old in updates.keys() & group.body.reads.keys():
                for writer in self._writers.get(updates[old], ()):
                    self._wait(writer, group)

    def _wait(self, me: FusedKernel, other: FusedKernel) -> None:
        """Orders a group after another one, unless they are ordered already."""
        bit, its = 1 << me.number, 1 << other.number
        if me is other or other.ancestors & bit or me.ancestors & its:
            return
        me.before.add(other.number)
        self._add_ancestors(me, other.ancestors | its)

    def _add_ancestors(self, me: FusedKernel, added: int) -> None:
        """Adds ancestors to a group and its descendants."""
        bit = 1 << me.number
        me.ancestors |= added
        for other in self.groups:
            if other.ancestors & bit:
                other.ancestors |= added

    def kernels(self, outputs: set[Node]) -> list[Body]:
        """The fused kernels in topological order, without dead stores, whose values only pass through registers.
        outputs: the program's."""
        ordered = _sorted(self.groups)
        read = {n for g in ordered for n in g.body.reads}
        out = []
        for g in ordered:
            unread = {s.target for s in g.body.stores} - read - outputs
            out += split(g.body.without(unread) if unread else g.body)
            self.kept -= {n for n in unread if n.op is not Op.CONTRACT}
        return out


def _fits(g: FusedKernel, me: FusedKernel) -> bool:
    k, new = g.body, me.body
    index = point(new.domain)
    follows = shares = False
    written = {*k.outputs, k.core} if k.is_contraction else set(k.outputs)
    reduced = {r.node for r in k.reductions}
    for node, offsets in new.reads.items():
        if node in written:
            if node in reduced or primitive(node).in_pieces or offsets != {ext.ravel(index, node.shape)}:
                return False
            follows = True
        elif node in k.reads:
            shares = True
    if any(n in k.reads for n in new.outputs):
        return False
    if k.is_contraction:
        return (
            follows and len(k.stores) + len(new.stores) <= EPILOGUE_STORES and k.work + new.work <= EPILOGUE_OPERATIONS
            and _affine(new) and (not new.reductions or _summable(k, new))
        )  # fmt: skip
    if any(r.deviations for r in new.reductions):
        return False
    if len(k.outputs) + len(new.outputs) > FUSED_STORES:
        return False
    if k.reductions and new.reductions and k.axes != new.axes:
        return False
    numel = ext.product(new.domain)
    return follows or shares or (isinstance(numel, int) and numel <= TINY_ELEMENTS and not (g.shifted or me.shifted))


def _summable(product: Body, new: Body) -> bool:
    """Whether all reductions are sums over the rows of a product's result whose columns are vectorized, and which is
    large enough for reading it again to be slow.

    A sum that also reads another tensor of that size is not fused: the product would wait for memory as long as a loop
    over both tensors takes. (With batch norm's gradient, which reads its input, ResNet-50's input gradients took 36 ms
    more, and its reductions 38 ms less.)
    """
    domain, node = product.domain, product.core
    assert node is not None
    if new.axes != tuple(range(len(domain) - 1)) or len(product.reductions) + len(new.reductions) > EPILOGUE_SUMS:
        return False
    if not all(isinstance(n, int) for s in (node, *node.src) for n in s.shape):
        return False
    if ext.nominal(ext.product(domain)) < SUMMED_ELEMENTS:
        return False
    there = {*product.outputs, product.core, *product.reads}
    if any(n not in there and ext.nominal(n.numel) > ext.nominal(domain[-1]) for n in new.reads):
        return False
    kinds = {r.node.arg[0] for r in new.reductions}
    if kinds != {"sum"} or any(r.value.dtype not in (DType.F32, DType.BF16) for r in new.reductions):
        return False
    labels = labels_of(node)
    last = labels.index(node.arg.out[-1])
    lines = tuple(int(k == last) for k in range(len(labels)))
    c = canonical(specification(node, (product.operands[0], product.operands[1]), [lines]))
    return c.lane is not None and c.lane in c.n and c.lane.sources == (last,)


def _affine(epilogue: Body) -> bool:
    """Whether all offsets of an epilogue's loads are linear in the result's axes, and no value depends on an index.

    If the result has symbolic strides, the axes that it merges must be mergeable in all loads, too: otherwise the
    product has no kernel (see `contraction`).
    """
    domain = epilogue.domain
    result, axes = strides(domain), [k for k, n in enumerate(domain) if n != 1]
    joined = [(p, q) for p, q in pairwise(axes) if not isinstance(result[p], int)]
    for offset in {o for offsets in epilogue.reads.values() for o in offsets}:
        found = None if offset is None else linear(offset, epilogue.variables)
        if found is None or not isinstance(found[1], int):
            return False
        steps = found[0]
        if any(steps[p] != ext.mul(steps[q], domain[q]) for p, q in joined):
            return False
    return not any(True for _ in epilogue.conditions())


def _sorted(groups: list[FusedKernel]) -> list[FusedKernel]:
    """A topological order close to the program's order."""
    index = {g.number: g for g in groups}
    out: list[FusedKernel] = []
    done: set[int] = set()

    for g in groups:
        stack = [g]
        while stack:
            top = stack[-1]
            if top.number in done:
                stack.pop()
                continue
            waiting = [index[b] for b in sorted(top.before) if b not in done]
            if waiting:
                stack.extend(reversed(waiting))
            else:
                done.add(top.number)
                out.append(stack.pop())
    return out
