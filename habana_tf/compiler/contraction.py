"""Contractions for the code generator: an einsum over strided operands, and its canonical form.

    out[labels in out] = sum over the other labels of  a[labels in a] * b[labels in b]

Each tensor is a base buffer, a constant offset and a stride per label (0 if the label is absent). Sliding windows,
reversals and transpositions are strides, so that a convolution needs no copy of its windows (no im2col).

Extents of batch, row and summed labels may be symbolic, not that of the lane label. A stride may be symbolic only if
its label merges with an inner one of constant strides, as the batch of some sequences does with their elements.

`canonical` gives the form that tiling and emission expect: no labels of extent 1; `b` is the operand that has the
result's contiguous axis (the *lane label*, which is vectorized); labels that are jointly affine in all tensors are
merged; all strides are constant. Labels have four kinds: batch (in all three tensors), m (rows: in a and out), n
(columns: in b and out), k (summed).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from habana_tf.compiler.product_costs import DOT_CONTIGUOUS, DOT_TERMS, GUARDED_WINDOW
from habana_tf.compiler.view_indices import Unfit
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent, nominal
from habana_tf.ir.primitives import Node

OPERANDS = (DType.F32, DType.BF16, DType.F8E4M3, DType.F8E5M2, DType.I8, DType.U8)
"""Types of operands. All but the first have numbers that bfloat16 holds, and become wider where they are read or
copied."""


@dataclass(frozen=True)
class Padding:
    """Implicit zero padding: the operand is 0 unless 0 <= const + sum(coefs * index) < size."""

    coefs: tuple[int, ...]
    const: int
    size: int


@dataclass(frozen=True)
class StridedView:
    """A strided view: element (i, j, ...) is at offset + i * strides[0] + ... of `base`, or 0 where a guard fails."""

    base: Node
    strides: tuple[Extent, ...]
    offset: int
    guards: tuple[Padding, ...] = ()


@dataclass(frozen=True)
class Operand:
    """A tensor over the spec's labels. strides: in elements, 0 for absent labels, possibly negative. largest: see
    `ir.primitives.Contraction`.

    Elements outside a guard are never read. `accepts_guards` says which guards are supported.
    """

    dtype: DType
    strides: tuple[Extent, ...]
    offset: int = 0
    guards: tuple[Padding, ...] = ()
    largest: float | None = None


@dataclass(frozen=True)
class ContractSpec:
    """A contraction. also: strides of the epilogue's tensors, which must stay affine when labels are merged."""

    extents: tuple[Extent, ...]
    a: Operand
    b: Operand
    out: Operand
    also: tuple[tuple[Extent, ...], ...] = ()

    def __post_init__(self) -> None:
        for strides in (self.a.strides, self.b.strides, self.out.strides, *self.also):
            if len(strides) != len(self.extents):
                raise ValueError(f"contraction: strides {strides} for labels of extents {self.extents}")
        for operand in (self.a, self.b):
            if operand.dtype not in OPERANDS:
                raise ValueError(f"contraction: operands are {', '.join(map(str, OPERANDS))}, not {operand.dtype}")


LabelKind = Literal["batch", "m", "n", "k"]


@dataclass(frozen=True)
class Label:
    """A label, or several merged ones. sources: the spec's labels, outermost first."""

    kind: LabelKind
    extent: Extent
    a: int
    b: int
    out: int
    also: tuple[int, ...]
    sources: tuple[int, ...]
    guards: tuple[int, ...] = ()
    """Its coefficient in each guard of the operands."""

    @property
    def key(self) -> int:
        """Identifies the label, also after its strides were replaced."""
        return self.sources[-1]


@dataclass(frozen=True)
class Canonical:
    """The canonical form, see the module's docstring. `batch`, `m`, `n`, `k` are in loop order, outermost first.

    lane: the vectorized label: the last of `n`, or of `batch` (a depthwise convolution, in which a is read by vectors,
    too), or None for a result of one column (also if its length is symbolic, or its elements would be gathered).
    """

    spec: ContractSpec
    a: Operand
    b: Operand
    swapped: bool
    batch: tuple[Label, ...]
    m: tuple[Label, ...]
    n: tuple[Label, ...]
    k: tuple[Label, ...]
    lane: Label | None

    @property
    def columns(self) -> int:
        if self.lane is None:
            return 1
        assert isinstance(self.lane.extent, int)
        return self.lane.extent

    @property
    def symbolic(self) -> bool:
        """Whether an extent is known at run time only."""
        return not all(isinstance(x.extent, int) for x in self.labels())

    @property
    def outer(self) -> list[Label]:
        """The labels of b that are neither in a panel of its columns nor summed."""
        return [x for x in (*self.batch, *self.n) if x is not self.lane]

    def labels(self) -> tuple[Label, ...]:
        return self.batch + self.m + self.n + self.k


@dataclass(frozen=True)
class SymbolicLabel:
    """A label whose strides (`steps`: of a, b, the result and `also`) may be symbolic."""

    kind: LabelKind
    extent: Extent
    steps: tuple[Extent, ...]
    sources: tuple[int, ...]
    guards: tuple[int, ...]

    @property
    def a(self) -> Extent:
        return self.steps[0]

    @property
    def b(self) -> Extent:
        return self.steps[1]

    @property
    def out(self) -> Extent:
        return self.steps[2]

    def label(self) -> Label:
        steps = [s for s in self.steps if isinstance(s, int)]
        if len(steps) < len(self.steps):
            raise Unfit(f"a product walks an axis of {self.extent} with strides known at run time only")
        a, b, out, *also = steps
        return Label(self.kind, self.extent, a, b, out, tuple(also), self.sources, self.guards)


def canonical(spec: ContractSpec, joined: bool = True) -> Canonical:
    """The canonical form; without `joined` labels are not merged. Raises Unfit for symbolic strides, and for sums over
    two symbolic labels."""
    labels = [x.label() for x in (merged(spec) if joined else _raw(spec))]
    lane = next((x for x in labels if x.out == 1), None)
    if lane is not None and lane.kind == "batch" and (lane.a, lane.b) != (1, 1):
        lane = None
    if lane is not None and not isinstance(lane.extent, int):
        lane = None
    single = lane is not None and _one_column(labels, lane)
    swapped = lane is not None and lane.kind == ("n" if single else "m")
    if swapped:
        turn: dict[LabelKind, LabelKind] = {"m": "n", "n": "m"}
        labels = [replace(x, a=x.b, b=x.a, kind=turn.get(x.kind, x.kind)) for x in labels]
        lane = next(x for x in labels if x.out == 1)
    if single:
        lane = None
    groups = {
        kind: tuple(sorted((x for x in labels if x.kind == kind), key=lambda x: (-abs(x.out), x.sources)))
        for kind in ("batch", "m", "n")
    }
    # Rows of a are walked with short steps innermost; b follows (or is packed into this order).
    k = tuple(sorted((x for x in labels if x.kind == "k"), key=lambda x: (-abs(x.a), -abs(x.b), x.sources)))
    if any(not isinstance(x.extent, int) for x in k[1:]):
        raise Unfit("a product sums over two sizes known at run time only")
    left, right = (spec.b, spec.a) if swapped else (spec.a, spec.b)
    return Canonical(spec, left, right, swapped, groups["batch"], groups["m"], groups["n"], k, lane)


def _one_column(labels: Sequence[Label], lane: Label) -> bool:
    """Whether a matrix-vector product is better vectorized along its sum, which is contiguous, than along its strided
    rows."""
    if lane.kind not in ("m", "n") or any(x.kind not in (lane.kind, "k") for x in labels):
        return False
    steps = [(x.extent, x.a if lane.kind == "m" else x.b) for x in labels if x.kind == "k"]
    contiguous = any(step == 1 and isinstance(n, int) and n >= DOT_CONTIGUOUS for n, step in steps)
    apart = lane.a if lane.kind == "m" else lane.b
    return contiguous and apart != 1 and ext.nominal(ext.product(n for n, _ in steps)) >= DOT_TERMS


def accepts_guards(spec: ContractSpec) -> bool:
    """Whether `emit_contract` supports the spec's guards: any, if both operands can be packed (see `packable`)."""
    c = canonical(spec)
    return guards_in_place(c) or packable(c)


def packable(c: Canonical) -> bool:
    """Whether both operands can be packed: lanes run along columns, and there is a sum."""
    return bool(c.k) and c.lane is not None and c.lane in c.n and all(nominal(x.extent) > 0 for x in c.k)


def guards_in_place(c: Canonical) -> bool:
    """Whether operand a can be read in place under its guards; else padding is better copied, unless both operands are
    packed anyway.

    Each guard must be one of operand a and relate one of its row labels to one short summed label, of which at least
    one index is always inside; for bf16 the last summed label must be contiguous and unguarded. Images of convolutions
    and of their input gradients are such.
    """
    guards = c.a.guards
    if c.b.guards or not guards:
        return not c.b.guards
    tied = set()
    for number, guard in enumerate(guards):
        labels = [x for x in c.labels() if x.guards[number]]
        if sorted(x.kind for x in labels) != ["k", "m"]:
            return False
        k, m = sorted(labels, key=lambda x: x.kind)
        if not isinstance(k.extent, int) or not isinstance(m.extent, int):
            return False
        if k in tied or k.extent > GUARDED_WINDOW or k.guards[number] < 0 or len(k.sources) + len(m.sources) > 2:
            return False
        if m.a * k.guards[number] != k.a * m.guards[number]:
            return False
        tied.add(k)
        by_m, by_k = m.guards[number], k.guards[number]
        ends = (0, m.extent - 1) if by_k <= guard.size else range(m.extent)  # without gaps the ends are the worst
        window = range(k.extent)
        inside = ((0 <= guard.const + by_m * i + by_k * j < guard.size for j in window) for i in ends)
        if not all(map(any, inside)):
            return False
    return c.a.dtype is DType.F32 or (c.k[-1].a == 1 and c.k[-1] not in tied)


def _raw(spec: ContractSpec) -> list[SymbolicLabel]:
    """The labels of extents other than 1."""
    out = []
    for i, extent in enumerate(spec.extents):
        if extent == 1:
            continue
        a, b, result = spec.a.strides[i], spec.b.strides[i], spec.out.strides[i]
        kind: LabelKind = "k" if not result else "batch" if a and b else "n" if b else "m"
        coefs = tuple(g.coefs[i] for g in (*spec.a.guards, *spec.b.guards))
        out.append(SymbolicLabel(kind, extent, (a, b, result, *(s[i] for s in spec.also)), (i,), coefs))
    return out


def merged(spec: ContractSpec) -> list[SymbolicLabel]:
    """The labels, with p and q merged if p's stride is q's stride times q's extent in every tensor."""
    labels = _raw(spec)

    def steps(x: SymbolicLabel) -> tuple[Extent, ...]:
        return (*x.steps, *x.guards)

    while True:
        for p in labels:
            for q in labels:
                if p is not q and p.kind == q.kind and steps(p) == tuple(ext.mul(s, q.extent) for s in steps(q)):
                    joined = replace(q, extent=ext.mul(p.extent, q.extent), sources=p.sources + q.sources)
                    labels = [joined if x is q else x for x in labels if x is not p]
                    break
            else:
                continue
            break
        else:
            return labels
