"""What the compiler knows of each primitive: a class with a single instance, which `primitive(node)` gives.

    Primitive     always in memory, computed by loops; contractions have epilogues, too (`body_builder.contraction`)
      OwnKernel   computed by a function of its own: see `codegen/own_kernels.py: EMITTERS`
      Inline      a value at each point, recomputed where it is used
        IndexView   its first source at another index: no code

A class says which sources must be in memory, what an element costs, how it is computed, and the kernel's flops. What
has no common answer in a family is abstract, and a primitive without a class is an error at import.
"""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.compiler import point_values
from habana_tf.compiler.costs import VECTOR_OPERATIONS
from habana_tf.compiler.point_values import Constant, Guard, Lookup, Position, Size
from habana_tf.compiler.primitive_families import (
    CLASSES,
    IndexView,
    Inline,
    OwnKernel,
    Pass,
    Primitive,
    ValueRule,
    same,
    whole,
)
from habana_tf.compiler.view_indices import Index, Range, in_memory_order, reshape_index, strides
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Contraction, Node, Op, check_complete


def primitive(node: Node) -> Primitive:
    """The class instance of a node's primitive."""
    return PRIMITIVES[node.op]


# -- sources --------------------------------------------------------------------------------------------------


class _Input(Primitive, of=Op.INPUT):
    def passes(self, node: Node) -> list[Pass]:
        return []


class _Source(Inline):
    def cost(self, node: Node, sources: int, rounding: int) -> int:
        return 0


class _Const(_Source, of=Op.CONST):
    """A tensor is in the recipe's constants, a number in the code."""

    def passes(self, node: Node) -> list[Pass]:
        return []

    def in_memory(self, node: Node) -> bool:
        return isinstance(node.arg, bytes)

    def formula(self, node: Node, index: Index, guard: Guard) -> ValueRule:
        number = float.fromhex(node.arg) if isinstance(node.arg, str) else node.arg
        return (), lambda _: Constant(node.dtype, number)


class _Iota(_Source, of=Op.IOTA):
    def formula(self, node: Node, index: Index, guard: Guard) -> ValueRule:
        return (), lambda _: Position(node.dtype, index[0])


class _Extent(_Source, of=Op.EXTENT):
    def formula(self, node: Node, index: Index, guard: Guard) -> ValueRule:
        return (), lambda _: Size(node.dtype, node.arg)


# -- elementwise ----------------------------------------------------------------------------------------------


class _Map(Inline, of=Op.MAP):
    def cost(self, node: Node, sources: int, rounding: int) -> int:
        if node.arg == "cast" and node.src[0].dtype is DType.BF16 and node.dtype is DType.F32:
            return sources  # free in a load: an fp32 copy would double the bytes to read
        if node.arg == "stored" and node.dtype is DType.BF16:
            return sources + (rounding if sources > 1 else 1)  # what is read from memory is rounded
        return sources + VECTOR_OPERATIONS.get(node.arg, 1)

    def formula(self, node: Node, index: Index, guard: Guard) -> ValueRule:
        return [(s, index, guard) for s in node.src], lambda args: point_values.apply(node.arg, node.dtype, args)


class _Gather(Inline, of=Op.GATHER):
    def needs_in_memory(self, node: Node) -> Sequence[Node]:
        return node.src[:1]

    def cost(self, node: Node, sources: int, rounding: int) -> int:
        return sources + 2

    def formula(self, node: Node, index: Index, guard: Guard) -> ValueRule:
        source, *coords = node.src
        sources = [(c, index[: c.rank], guard) for c in coords]
        if source.numel == 0:
            return sources, lambda _: Constant(node.dtype, 0)
        steps = [step for a, step in enumerate(strides(source.shape)) if a not in node.arg]
        offset: Extent = 0
        for i, step in zip(index[coords[0].rank :], steps, strict=True):
            offset = ext.add(offset, ext.mul(i, step))
        return sources, lambda args: Lookup(node.dtype, source, args, node.arg, offset, guard)


# -- views ----------------------------------------------------------------------------------------------------


class _Reshape(IndexView, of=Op.RESHAPE):
    def needs_in_memory(self, node: Node) -> Sequence[Node]:
        return node.src if in_memory_order(node) else ()

    def inside(self, node: Node, index: Index) -> tuple[Index, Sequence[Range]]:
        return reshape_index(index, node.shape, node.src[0].shape), ()


class _Expand(IndexView, of=Op.EXPAND):
    def repeats(self, node: Node) -> bool:
        return True

    def inside(self, node: Node, index: Index) -> tuple[Index, Sequence[Range]]:
        return tuple(0 if n == 1 else i for i, n in zip(index, node.src[0].shape, strict=True)), ()


class _Permute(IndexView, of=Op.PERMUTE):
    def inside(self, node: Node, index: Index) -> tuple[Index, Sequence[Range]]:
        return tuple(i for _, i in sorted(zip(node.arg, index, strict=True))), ()


class _Slice(IndexView, of=Op.SLICE):
    def inside(self, node: Node, index: Index) -> tuple[Index, Sequence[Range]]:
        return tuple(ext.add(b, ext.mul(i, s)) for i, b, s in zip(index, *node.arg, strict=True)), ()


class _Window(IndexView, of=Op.WINDOW):
    def repeats(self, node: Node) -> bool:
        return any(k > s for k, s in zip(*node.arg[1:3], strict=True))

    def inside(self, node: Node, index: Index) -> tuple[Index, Sequence[Range]]:
        rank = node.src[0].rank
        inner = list(index[:rank])
        for k, (a, _, s, d) in enumerate(zip(*node.arg, strict=True)):
            inner[a] = ext.add(ext.mul(index[a], s), ext.mul(index[rank + k], d))
        return tuple(inner), ()


class _Pad(IndexView, of=Op.PAD):
    def cost(self, node: Node, sources: int, rounding: int) -> int:
        return sources + 2

    def formula(self, node: Node, index: Index, guard: Guard) -> ValueRule:
        source, value = node.src
        outside = value, (), guard
        if source.numel == 0:
            return [outside], same
        inner, ranges = self.inside(node, index)
        uncertain = tuple(r for r in ranges if not r.always_holds)
        sources = [(source, inner, (*guard, *uncertain)), outside]
        return sources, (lambda args: point_values.within(uncertain, *args)) if uncertain else same

    def inside(self, node: Node, index: Index) -> tuple[Index, Sequence[Range]]:
        inner, ranges = [], []
        for i, n, lo, hi, gap in zip(index, node.src[0].shape, *node.arg, strict=True):
            at = ext.add(i, ext.mul(lo, -1))
            if gap:
                ranges.append(Range(at, ext.add(ext.mul(ext.add(n, -1), gap + 1), 1), gap + 1))
                at = ext.div(at, gap + 1)
            elif lo or hi:
                ranges.append(Range(at, n))
            inner.append(at)
        return tuple(inner), ranges


# -- always in memory -----------------------------------------------------------------------------------------


class _Concat(Primitive, of=Op.CONCAT):
    is_view = True
    in_pieces = True

    def passes(self, node: Node) -> list[Pass]:
        out, start = [], 0  # type: list[Pass], Extent
        for part in node.src:
            shift = tuple(start if a == node.arg else 0 for a in range(node.rank))
            out.append(Pass(part.shape, [(part, node, shift)]))
            start = ext.add(start, part.shape[node.arg])
        return out


class _Reduce(Primitive, of=Op.REDUCE):
    def passes(self, node: Node) -> list[Pass]:
        return [Pass(node.src[0].shape, reduces=[node], axes=node.arg[1])]


class _Contract(Primitive, of=Op.CONTRACT):
    """Its operands, and which must be in memory: see `contraction_operands.py`."""

    engine = "MME"

    def passes(self, node: Node) -> list[Pass]:
        return []

    def flops(self, node: Node) -> Extent:
        """A multiplication and an addition for each combination of labels."""
        spec: Contraction = node.arg
        a, b = (dict(zip(labels, s.shape, strict=True)) for s, labels in zip(node.src, (spec.a, spec.b), strict=True))
        return ext.mul(ext.product((a | b).values()), 2)


class _Product(OwnKernel, of=Op.PRODUCT):
    engine = "MME"
    reads_memory = True

    def flops(self, node: Node) -> Extent:
        return ext.mul(node.arg.multiply_adds, 2)


class _Random(OwnKernel, of=Op.RANDOM):
    """Philox: integer arithmetic only."""

    reads_memory = True

    def flops(self, node: Node) -> Extent:
        return 0


class _Scatter(OwnKernel, of=Op.SCATTER):
    updates = True

    def passes(self, node: Node) -> list[Pass]:
        return [whole(node.src[0], node)]

    def inputs(self, node: Node) -> Sequence[Node]:
        return node.src[1:]

    def flops(self, node: Node) -> Extent:
        """One for each arithmetic update."""
        return node.src[1].numel if node.dtype.is_float and node.arg[0] != "set" else 0


class _Scan(OwnKernel, of=Op.SCAN):
    def flops(self, node: Node) -> Extent:
        return node.numel if node.dtype.is_float else 0


class _Sort(OwnKernel, of=Op.SORT):
    """Comparisons only."""

    def flops(self, node: Node) -> Extent:
        return 0


class _Loop(Primitive, of=Op.LOOP):
    """Its body is scheduled by itself: see `schedule.Repeated`."""

    reads_memory = True

    def passes(self, node: Node) -> list[Pass]:
        return []


class _Custom(Primitive, of=Op.CUSTOM):
    """A kernel in C: never fused, and its flops are unknown."""

    reads_memory = True

    def passes(self, node: Node) -> list[Pass]:
        return []


check_complete(CLASSES, Op, "compiler/primitive_classes.py", "a class")
PRIMITIVES = {op: made() for op, made in CLASSES.items()}
