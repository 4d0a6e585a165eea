"""Loop axes: merges the axes of a kernel's domain into as few as its memory accesses allow.

A domain [64, 26, 26, 32] whose tensors are all walked in row-major order is one loop over 1,384,448 elements; a
per-channel operand keeps the last axis apart. Before code is written, `accesses` lists every index expression that
a kernel will compute; axes that always move together (each step of the outer one is `extent` steps of the inner)
become one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .. import extent as ext
from ..extent import Expr, Extent, Var
from ..ir import Node, Op
from ..views import Index, Unfit, source_of, strides


@dataclass(frozen=True)
class Axis:
    """A loop axis: its variable, extent, and the axes of the domain merged into it (first is outermost)."""

    var: Var
    extent: Extent
    members: tuple[int, ...]
    reduced: bool


@dataclass
class Found:
    """Index expressions met: offsets of loads, and everything else that a variable's value decides."""

    loads: list[Extent]
    other: list[Extent]


def accesses(roots: Iterable[tuple[Node, Index]], buffers: Mapping[Node, object]) -> Found:
    """The index expressions of evaluating `roots`, given which nodes are in memory."""
    found = Found([], [])
    seen: set[tuple[Node, Index]] = set()
    stack = list(roots)
    while stack:
        node, index = stack.pop()
        if (node, index) in seen:
            continue
        seen.add((node, index))
        if node in buffers:
            found.loads.append(ext.ravel(index, node.shape))
            continue
        match node.op:
            case Op.CONST | Op.EXTENT:
                pass
            case Op.IOTA:
                found.other.append(index[0])
            case Op.MAP:
                stack.extend((s, index) for s in node.src)
            case Op.GATHER:
                lead = node.src[1].rank
                stack.extend((c, index[:lead]) for c in node.src[1:])
                rest = [a for a in range(node.src[0].rank) if a not in node.arg]
                steps = strides(node.src[0].shape)
                offset: Extent = 0
                for a, i in zip(rest, index[lead:], strict=True):
                    offset = ext.add(offset, ext.mul(i, steps[a]))
                found.loads.append(offset)
            case Op.CONCAT:
                start: Extent = 0
                for part in node.src:
                    local = ext.add(index[node.arg], ext.mul(start, -1))
                    found.other.append(local)
                    stack.append((part, (*index[: node.arg], local, *index[node.arg + 1 :])))
                    start = ext.add(start, part.shape[node.arg])
            case Op.RESHAPE if node.src[0] in buffers:
                found.loads.append(ext.ravel(index, node.shape))
            case Op.RESHAPE | Op.EXPAND | Op.PERMUTE | Op.SLICE | Op.WINDOW | Op.PAD:
                source, inner, ranges = source_of(node, index)
                found.other.extend(r.value for r in ranges)
                stack.append((source, inner))
                if node.op is Op.PAD:
                    stack.append((node.src[1], ()))
            case _:
                raise Unfit(f"{node.op.name.lower()} inside a fused loop")
    return found


def domain_vars(domain: Sequence[Extent]) -> list[Var]:
    return [Var(f"x{k}", n) for k, n in enumerate(domain)]


def merge(domain: Sequence[Extent], reduced: Sequence[int], expressions: Sequence[Extent]) -> list[Axis]:
    """The loop axes of a domain, outermost first; axes of extent 1 are dropped.

    expressions: index expressions over `domain_vars(domain)`. Only neighbouring axes of the same kind (kept or
    reduced) merge.
    """
    variables = domain_vars(domain)
    groups: list[list[int]] = []
    for k, n in enumerate(domain):
        if n == 1:
            continue
        if groups and (groups[-1][-1] in reduced) == (k in reduced):
            outer = variables[groups[-1][-1]]
            if all(_together(e, outer, variables[k], n) for e in expressions):
                groups[-1].append(k)
                continue
        groups.append([k])
    out = []
    for g in groups:
        extent = ext.product(domain[k] for k in g)
        out.append(Axis(Var(f"i{g[-1]}", extent), extent, tuple(g), g[0] in reduced))
    return out


def _together(e: Extent, outer: Var, inner: Var, n: Extent) -> bool:
    """Whether `e` moves by n inner steps for each step of `outer`, both linearly."""
    if isinstance(e, int):
        return True
    a, b = _slope(e, outer), _slope(e, inner)
    return a is not None and b is not None and a == ext.mul(b, n)


def _slope(e: Expr, v: Var) -> Extent | None:
    """The coefficient of `v` (possibly with symbolic extents); None where `e` is not linear in it."""
    total: Extent = 0
    for atom, c in e.terms:
        if atom == v:
            total = ext.add(total, c)
        elif isinstance(atom, ext.Prod) and v in atom.factors:
            rest = list(atom.factors)
            rest.remove(v)
            if any(ext.mentions(f, v) for f in rest):
                return None
            total = ext.add(total, ext.mul(ext.product(ext.of(f) for f in rest), c))
        elif ext.mentions(atom, v):
            return None
    return total


def index_of(domain: Sequence[Extent], loop_axes: Sequence[Axis]) -> Index:
    """The index into `domain` by the merged axes' variables.

    A merged axis's whole count is put at its innermost member: every access is linear there, so the offsets come
    out right although that member's own range is exceeded.
    """
    index: list[Extent] = [0] * len(domain)
    for axis in loop_axes:
        index[axis.members[-1]] = ext.of(axis.var)
    return tuple(index)
