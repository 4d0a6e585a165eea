"""What a contraction is to the code generator: labels with extents, and affine operands.

    out[labels in out] = sum over the other labels of  a[labels in a] * b[labels in b]

Each tensor is a base buffer, a constant offset and one stride per label (0: the label is absent), so a sliding
window, a reversed filter or a transposition is only a choice of strides, and a convolution is a product without a
copy of its windows.

An extent may be a symbol: of a label of rows, batch or sum, never of the lane label. A stride may hold symbols only
where that label is joined to an inner one whose strides are numbers, as a batch of sequences is to their elements.

`canonical` brings a spec to the one form that tiling and emission know: no labels of extent 1; `b` is the operand
that shares the result's contiguous axis (the *lane label*); labels that are jointly affine in all tensors are one
label; every stride is a number. Labels come in four kinds: batch (in all three tensors), m (rows: a and out), n
(columns: b and out), k (summed).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from habana_tf.compiler.product_costs import DOT_CONTIGUOUS, DOT_TERMS, GUARDED_WINDOW
from habana_tf.compiler.view_indices import Unfit
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent, nominal
from habana_tf.ir.primitives import Node


@dataclass(frozen=True)
class Guard:
    """Padding with zeros that is not in memory: the operand is 0 unless 0 <= const + sum(coefs * index) < size."""

    coefs: tuple[int, ...]
    const: int
    size: int


@dataclass(frozen=True)
class View:
    """A tensor read with strides: element (i, j, ...) is at offset + i * strides[0] + ... of `base`.

    It is 0 where a guard (coefficients per axis, see `Guard`) does not hold.
    """

    base: Node
    strides: tuple[Extent, ...]
    offset: int
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class Operand:
    """A tensor over the spec's labels: strides in elements, 0 where a label is absent; negative ones are fine.

    What is outside a guard is never read. See `accepts_guards` for where they may stand.
    """

    dtype: DType
    strides: tuple[Extent, ...]
    offset: int = 0
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class ContractSpec:
    """`also` lists the strides of the tensors an epilogue touches: labels are merged only where all stay affine."""

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
            if operand.dtype not in (DType.F32, DType.BF16):
                raise ValueError(f"contraction: operands are float32 or bfloat16, not {operand.dtype}")


@dataclass(frozen=True)
class Label:
    """One label, or several merged ones (`sources`: the spec's labels, outer first)."""

    kind: str
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
        """A name that survives a change of strides."""
        return self.sources[-1]


@dataclass(frozen=True)
class Canonical:
    """See the module's docstring. `batch`, `m`, `n`, `k` are in loop order, outermost first.

    `lane` is the label the lanes of a vector run along: the last of `n`, or of `batch` (a depthwise product: then a
    is read by vectors as well), or None if the result has one column (or lanes would have to be gathered;
    a vector of symbolic length counts as one column).
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

    def labels(self) -> tuple[Label, ...]:
        return self.batch + self.m + self.n + self.k


@dataclass(frozen=True)
class Raw:
    """A label before its strides are known to be numbers: those of a, b, the result and `also`."""

    kind: str
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
    """The canonical form; not `joined`: every label by itself. Raises Unfit for strides known at run time only, and
    sums over two such sizes."""
    labels = [x.label() for x in (merged(spec) if joined else _raw(spec))]
    lane = next((x for x in labels if x.out == 1), None)
    if lane is not None and lane.kind == "batch" and (lane.a, lane.b) != (1, 1):
        lane = None
    if lane is not None and not isinstance(lane.extent, int):
        lane = None
    single = lane is not None and _one_column(labels, lane)
    swapped = lane is not None and lane.kind == ("n" if single else "m")
    if swapped:
        turn = {"m": "n", "n": "m"}
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
    """Whether a sum per element of one operand is better taken along that than for many of its elements at once: they
    lie apart, and what is summed is contiguous."""
    if lane.kind not in ("m", "n") or any(x.kind not in (lane.kind, "k") for x in labels):
        return False
    steps = [(x.extent, x.a if lane.kind == "m" else x.b) for x in labels if x.kind == "k"]
    contiguous = any(step == 1 and isinstance(n, int) and n >= DOT_CONTIGUOUS for n, step in steps)
    apart = lane.a if lane.kind == "m" else lane.b
    return contiguous and apart != 1 and ext.nominal(ext.product(n for n, _ in steps)) >= DOT_TERMS


def accepts_guards(spec: ContractSpec) -> bool:
    """Whether `emit_contract` takes this spec's guards: any, where it can pack both operands (see `packable`)."""
    c = canonical(spec)
    return guards_in_place(c) or packable(c)


def packable(c: Canonical) -> bool:
    """Whether there is code that packs both operands: lanes run along columns, and there is a sum."""
    return bool(c.k) and c.lane is not None and c.lane in c.n and all(nominal(x.extent) > 0 for x in c.k)


def guards_in_place(c: Canonical) -> bool:
    """Whether the guards, if any, can be seen to while operand a is read where it lies; else the padded operand is
    better a copy in memory, unless both are packed anyway.

    Each must lie on the operand that does not share the result's last axis and tie one of its own labels to one
    summed label of few points, of which at least one is always inside; for bf16 the last summed axis must be
    contiguous and free of guards. So are images under forward convolutions and input gradients.
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


def _raw(spec: ContractSpec) -> list[Raw]:
    """The labels of more than one point."""
    out = []
    for i, extent in enumerate(spec.extents):
        if extent == 1:
            continue
        a, b, result = spec.a.strides[i], spec.b.strides[i], spec.out.strides[i]
        kind = "k" if not result else "batch" if a and b else "n" if b else "m"
        coefs = tuple(g.coefs[i] for g in (*spec.a.guards, *spec.b.guards))
        out.append(Raw(kind, extent, (a, b, result, *(s[i] for s in spec.also)), (i,), coefs))
    return out


def merged(spec: ContractSpec) -> list[Raw]:
    """The labels, p and q joined wherever a step of p is, in every tensor, as far as walking all of q."""
    labels = _raw(spec)

    def steps(x: Raw) -> tuple[Extent, ...]:
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
