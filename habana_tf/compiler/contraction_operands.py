"""The operands of contractions as strided views of tensors in memory, so that views need no copies.

    contract(window(pad(x)), w)   reads x itself: windows are strides, and zero padding is a guard

A guard is an index range outside of which the operand is 0. If the code generator does not support it, the padded
tensor is materialized.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from habana_tf.compiler.contraction import ContractSpec, Operand, Padding, StridedView, canonical, guards_in_place
from habana_tf.compiler.primitive_classes import primitive
from habana_tf.compiler.primitive_families import IndexView
from habana_tf.compiler.view_indices import Index, Range, Unfit, strides
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent
from habana_tf.ir.linearity import affine, linear
from habana_tf.ir.primitives import Contraction, Node, Op


def whole(node: Node) -> StridedView:
    """The identity view of a tensor."""
    return StridedView(node, strides(node.shape), 0)


def labels_of(node: Node) -> list[int]:
    """The labels of a contraction: those of the result first, in order."""
    spec: Contraction = node.arg
    return list(dict.fromkeys((*spec.out, *spec.a, *spec.b)))


def specification(
    node: Node, views: tuple[StridedView, StridedView], also: Sequence[tuple[Extent, ...]] = ()
) -> ContractSpec:
    """The `ContractSpec` of a contraction with these operands."""
    spec: Contraction = node.arg
    labels = labels_of(node)
    sizes: dict[int, Extent] = {}
    for s, axes in zip(node.src, (spec.a, spec.b), strict=True):
        sizes.update(zip(axes, s.shape, strict=True))
    a, b = (
        Operand(
            s.dtype,
            _per_label(labels, axes, v.strides),
            v.offset,
            tuple(Padding(_per_label(labels, axes, g.coefs), g.const, g.size) for g in v.guards),
            spec.largest,
        )
        for s, axes, v in zip(node.src, (spec.a, spec.b), views, strict=True)
    )
    out = Operand(node.dtype, _per_label(labels, spec.out, strides(node.shape)))
    return ContractSpec(tuple(sizes[x] for x in labels), a, b, out, tuple(also))


def read(node: Node) -> StridedView:
    """The view that an operand is, of any tensor, which must then be in memory."""
    return _operand(node, set())


def has_code(node: Node, views: tuple[StridedView, StridedView]) -> bool:
    """Whether contraction kernels support these operands, whose strides must be constant."""
    try:
        canonical(specification(node, views))
    except Unfit:
        return False
    return True


def operands(node: Node, kept: set[Node], copied: set[Node]) -> tuple[StridedView, StridedView]:
    """The views that a contraction reads; their bases must be in memory. Padded tensors in `copied` are anyway."""
    a, b = _readable(node, kept)
    if any(v.base.op is Op.PAD and v.base not in kept and v.base not in copied for v in (a, b)):
        return _guarded(node, (a, b), kept) or (a, b)
    return a, b


def padding_to_copy(contractions: Sequence[Node], kept: set[Node]) -> set[Node]:
    """The PAD nodes that some contraction needs in memory, so that the others can read the same copy."""
    found = set()
    for node in contractions:
        views = _readable(node, kept)
        pads = {v.base for v in views if v.base.op is Op.PAD and v.base not in kept}
        if pads and _guarded(node, (views[0], views[1]), kept) is None:
            found |= pads
    return found


def view_of(node: Node, kept: set[Node]) -> StridedView | None:
    """A node as a strided view, also through zero padding, of a kept node; None if it is none."""
    found = _operand(node, kept)
    if found.base.op is Op.PAD and found.base not in kept:
        return _through_padding(node, found.base, kept)
    return found if found.base in kept else None


def _guarded(
    node: Node, plain: tuple[StridedView, StridedView], kept: set[Node]
) -> tuple[StridedView, StridedView] | None:
    """The operands with padding replaced by guards, if the code generator supports that."""
    for side in (0, 1):
        if plain[side].base.op is not Op.PAD or plain[side].base in kept:
            continue
        inner = _through_padding(node.src[side], plain[side].base, kept)
        if inner is None:
            continue
        views = (inner, plain[1]) if side == 0 else (plain[0], inner)
        try:
            if guards_in_place(canonical(specification(node, views))):
                return views
        except (Unfit, ValueError):
            return None
    return None


def _readable(node: Node, kept: set[Node]) -> tuple[StridedView, StridedView]:
    """The operands as views of their sources; copied if the strides of a view are symbolic."""
    a, b = (_operand(s, kept) for s in node.src)
    if all(isinstance(step, int) for v in (a, b) for step in v.strides):
        return a, b
    copies = whole(node.src[0]), whole(node.src[1])
    ways = ((a, b), (copies[0], b), (a, copies[1]))
    return next((views for views in ways if has_code(node, views)), copies)


def _operand(node: Node, kept: set[Node]) -> StridedView:
    return _strided(node, _view_base(node, kept)) or whole(node)


def _view_base(node: Node, kept: set[Node]) -> Node:
    """The node below index views: one that is kept, padded or computed."""
    while node not in kept and node.op is not Op.PAD and isinstance(primitive(node), IndexView):
        node = node.src[0]
    return node


def _through_padding(node: Node, pad: Node, kept: set[Node]) -> StridedView | None:
    value = pad.src[1]
    if value.op is not Op.CONST or value.arg != (0.0).hex():
        return None
    return _strided(node, _view_base(pad.src[0], kept)) or _strided(node, pad.src[0])


def _strided(node: Node, base: Node) -> StridedView | None:
    variables = [ext.Var(f"x{k}", n) for k, n in enumerate(node.shape)]
    index: Index = tuple(ext.of(v) for v in variables)
    at, ranges = node, []  # type: Node, list[Range]
    try:
        while at is not base and not (at.op is Op.RESHAPE and at.src[0] is base):
            view = primitive(at)
            assert isinstance(view, IndexView), f"{at} is not a view of one source"
            index, more = view.inside(at, index)
            at = at.src[0]
            ranges += more
    except Unfit:
        return None
    place = linear(ext.ravel(index, at.shape), variables)  # a reshape of the base lies in memory as the base does
    guards = [_guard(r, variables) for r in ranges]
    if place is None or not isinstance(place[1], int) or None in guards:
        return None
    return StridedView(base, place[0], place[1], tuple(g for g in guards if g is not None))


def _guard(r: Range, variables: Sequence[ext.Var]) -> Padding | None:
    found = affine(r.value, variables)
    if found is None or r.step != 1 or not isinstance(r.stop, int):
        return None
    return Padding(*found, r.stop)


_Step = TypeVar("_Step", bound=Extent)


def _per_label(labels: Sequence[int], axes: Sequence[int], steps: Sequence[_Step]) -> tuple[_Step | int, ...]:
    by_label = dict(zip(axes, steps, strict=True))
    return tuple(by_label.get(x, 0) for x in labels)
