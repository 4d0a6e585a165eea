"""How a contraction reads its operands: as strided views of kept tensors, so that no view is copied for it.

    contract(window(pad(x)), w)   reads x itself: windows are strides, and padding with zeros is a guard

A guard is a condition on the indices under which an element is there (else it is 0). Where the code generator
cannot take it, the padded tensor is kept instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import extent as ext
from .codegen.contract_spec import ContractSpec, Guard, Operand, accepts_guards
from .extent import Extent
from .ir import VIEWS, Contraction, Node, Op
from .views import Index, Range, Unfit, source_of, strides


@dataclass(frozen=True)
class View:
    """A tensor read with constant strides: element (i, j, ...) is at offset + i * strides[0] + ... of `base`.

    It is 0 where a guard (coefficients per axis, see `Guard`) does not hold.
    """

    base: Node
    strides: tuple[int, ...]
    offset: int
    guards: tuple[Guard, ...] = ()


def labels_of(node: Node) -> list[int]:
    """The labels of a contraction: those of the result first, in order."""
    spec: Contraction = node.arg
    return list(dict.fromkeys((*spec.out, *spec.a, *spec.b)))


def specification(node: Node, views: tuple[View, View], also: Sequence[tuple[int, ...]] = ()) -> ContractSpec:
    """A contraction over these operands for the code generator. Raises Unfit for strides known at run time only."""
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
            tuple(Guard(_per_label(labels, axes, g.coefs), g.const, g.size) for g in v.guards),
        )
        for s, axes, v in zip(node.src, (spec.a, spec.b), views, strict=True)
    )
    out = Operand(node.dtype, _per_label(labels, spec.out, _constant(strides(node.shape))))
    return ContractSpec(tuple(sizes[x] for x in labels), a, b, out, tuple(also))


def operands(node: Node, kept: set[Node], copied: set[Node]) -> tuple[View, View]:
    """The views that a contraction reads; their bases have to be kept. Padding in `copied` is kept anyway."""
    a, b = (_operand(s, kept) for s in node.src)
    if any(v.base.op is Op.PAD and v.base not in kept and v.base not in copied for v in (a, b)):
        return _guarded(node, (a, b), kept) or (a, b)
    return a, b


def padding_to_copy(contractions: Sequence[Node], kept: set[Node]) -> set[Node]:
    """The paddings that some contraction needs in memory: the others may read that copy as well."""
    found = set()
    for node in contractions:
        views = tuple(_operand(s, kept) for s in node.src)
        pads = {v.base for v in views if v.base.op is Op.PAD and v.base not in kept}
        if pads and _guarded(node, (views[0], views[1]), kept) is None:
            found |= pads
    return found


def _guarded(node: Node, plain: tuple[View, View], kept: set[Node]) -> tuple[View, View] | None:
    """The operands with one of them read through its padding, if the code generator takes that."""
    for side in (0, 1):
        if plain[side].base.op is not Op.PAD or plain[side].base in kept:
            continue
        inner = _through_padding(node.src[side], plain[side].base, kept)
        if inner is None:
            continue
        views = (inner, plain[1]) if side == 0 else (plain[0], inner)
        try:
            if accepts_guards(specification(node, views)):
                return views
        except (Unfit, ValueError):
            return None
    return None


def _operand(node: Node, kept: set[Node]) -> View:
    base = node
    while base not in kept and base.op in VIEWS and base.op not in (Op.PAD, Op.CONCAT):
        base = base.src[0]
    found = _strided(node, base) or _strided(node, node)
    if found is None:
        raise Unfit(f"a product reads {node.shape} with strides known at run time only")
    return found


def _through_padding(node: Node, pad: Node, kept: set[Node]) -> View | None:
    value = pad.src[1]
    if value.op is not Op.CONST or value.arg != (0.0).hex():
        return None
    below = pad.src[0]
    while below not in kept and below.op in VIEWS and below.op not in (Op.PAD, Op.CONCAT):
        below = below.src[0]
    return _strided(node, below) or _strided(node, pad.src[0])


def _strided(node: Node, base: Node) -> View | None:
    variables = [ext.Var(f"x{k}", n) for k, n in enumerate(node.shape)]
    index: Index = tuple(ext.of(v) for v in variables)
    at, ranges = node, []  # type: Node, list[Range]
    try:
        while at is not base and not (at.op is Op.RESHAPE and at.src[0] is base):
            at, index, more = source_of(at, index)
            ranges += more
    except Unfit:
        return None
    offset = ext.affine(ext.ravel(index, at.shape), variables)  # a reshape of the base lies in memory as the base does
    guards = [_guard(r, variables) for r in ranges]
    if offset is None or None in guards:
        return None
    return View(base, *offset, tuple(g for g in guards if g is not None))


def _guard(r: Range, variables: Sequence[ext.Var]) -> Guard | None:
    found = ext.affine(r.value, variables)
    if found is None or r.step != 1 or not isinstance(r.stop, int):
        return None
    return Guard(*found, r.stop)


def _constant(values: Sequence[Extent]) -> tuple[int, ...]:
    out = [v for v in values if isinstance(v, int)]
    if len(out) != len(values):
        raise Unfit("a product's result has strides known at run time only")
    return tuple(out)


def _per_label(labels: Sequence[int], axes: Sequence[int], steps: Sequence[int]) -> tuple[int, ...]:
    by_label = dict(zip(axes, steps, strict=True))
    return tuple(by_label.get(x, 0) for x in labels)
