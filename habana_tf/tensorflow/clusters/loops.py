"""Lowers a loop of TensorFlow's ops (`loop_form`) to the primitive LOOP.

1. The body is lowered by itself: lists are tensors, an element is gathered from or scattered into one.
2. It is counted: integers whose first values are known are followed from iteration to iteration until the condition is
   false (`cluster.loop_counts`). So the trips are counted, and it is known where elements are read and written.
3. Elements at positions that go on by a fixed step become rows: a loop reads and writes them where they are, and no
   list is carried through it (`_Rows`). Other elements stay lookups.
4. What is carried and never read goes, what can be computed outside does (`cluster.loop_motion`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from habana_tf.cluster.cluster import Ref
from habana_tf.cluster.loop_counts import TripCounts, count, steps
from habana_tf.cluster.loop_draft import Carried, Draft
from habana_tf.cluster.loop_motion import move
from habana_tf.cluster.lower import lower_op
from habana_tf.cluster.lowering_context import LoweringContext
from habana_tf.ir.builder import Builder
from habana_tf.ir.constant_folding import constant
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node, Op, Program, Rows
from habana_tf.tensorflow.clusters.loop_form import LoopForm
from habana_tf.tensorflow.clusters.op import TensorFlowOp
from habana_tf.tensorflow.lowering.lowering import Lowering

FEW = 16
"""Elements of what is pushed, up to which integers are followed through the iterations."""
MOST_SIZES = 1024
"""Integers of all iterations that may be made of sizes which are not known: each is computed by itself."""


@dataclass(frozen=True)
class LoopBody:
    """What a loop does in each iteration. form: what its variables are. ops, outputs: of the cluster that an iteration
    is."""

    form: LoopForm
    ops: Sequence[TensorFlowOp]
    outputs: Sequence[Ref]

    @functools.cached_property
    def origins(self) -> list[tuple[set[int], set[int]]]:
        """See `LoopForm.origins`."""
        return self.form.origins([n.inputs for n in self.ops], self.outputs)


@dataclass
class LoopOp(TensorFlowOp):
    """A loop: an `HpuLoop` node."""

    loop: LoopBody

    is_loop = True

    def _lowered(self, c: Lowering) -> Sequence[Node]:
        return _LoopLowering(c, self.loop).outputs()


class _LoopLowering:
    """One loop being lowered. given: of each variable what it is when the loop begins; inner: what it is in the body;
    left: what it becomes."""

    def __init__(self, c: Lowering, loop: LoopBody) -> None:
        self.c = c
        self.form = loop.form
        self.given: dict[int, Node] = dict(zip(self.form.order, c.inputs, strict=True))
        self.body = Builder()
        self.inner: dict[int, Node] = {}
        for k in self.form.inner():
            outer = self.given[k]
            shape = outer.shape[1:] if self.form.slots[k].kind == "pop" else outer.shape
            self.inner[k] = self.body.input(shape, outer.dtype)
        self.ranges: list[tuple[Node, Extent, str]] = []
        """Positions, what they must be less than, and the error if they are not."""
        made = self._walk(loop)
        self.condition = made[0]
        self.left = self.form.left(made)
        self.users: dict[Node, list[Node]] = {}
        for node in Program([], made).nodes():
            for source in dict.fromkeys(node.src):
                self.users.setdefault(source, []).append(node)
        self.counted = self._count()
        self.draft = Draft(self.counted.trips, self.body)
        self.finals: dict[int, Callable[[], Node]] = {}
        self.new: dict[Node, Node] = {}

    def _walk(self, loop: LoopBody) -> list[Node]:
        """The outputs of the body."""
        made: dict[Ref, Node] = {(-1, at): node for at, node in enumerate(self.inner.values())}
        fixed: dict[Node, Any] = {}
        for k, slot in enumerate(self.form.slots):
            if slot.kind == "same" and slot.fixed and (value := self.c.known(self.given[k])) is not None:
                fixed[self.inner[k]] = value
            elif slot.kind == "pop" and slot.fixed:
                value = self.c.known(self.given[k])
                if value is not None and len(value) and (value == value[:1]).all():  # the same in all iterations
                    fixed[self.inner[k]] = value[0]
        context = LoweringContext(self.body, fixed, self.c.premises)
        self.body.origin = self.c.index
        for node in loop.ops:
            inputs = [made[ref] for ref in node.inputs]
            if node.op in LIST_OPS:
                outputs = [_list_op(self.body, node, inputs)]
                if outputs[0].op in (Op.GATHER, Op.SCATTER):
                    self.ranges.append((inputs[1], inputs[0].shape[0], "element {} of a list of {}"))
            elif node.op == "StridedSlice" and constant(inputs[1], fixed) is None:
                outputs = [_element(self.body, inputs[0], inputs[1])]
                sizes = zip(outputs[0].src[1:], inputs[0].shape, strict=False)
                self.ranges += [(at, size, "slice index {} of a dimension of {}") for at, size in sizes]
            else:
                outputs = list(lower_op(node, inputs, context))
            made.update({(node.index, k): out for k, out in enumerate(outputs)})
        return [made[ref] for ref in loop.outputs]

    def _count(self) -> TripCounts:
        known: dict[int, Any] = {}
        symbolic = False
        for k, inner in self.inner.items():
            single = self.form.slots[k].kind in ("value", "same") and inner.shape == () and not inner.dtype.is_float
            if (single or self.form.slots[k].fixed) and (value := self.c.known(self.given[k])) is not None:
                if value.dtype == object:
                    symbolic = True
                    continue
                known[k] = value
        for k, left in self.left.items():
            if len(left) == 2:
                self.ranges.append((left[0], self._size(k), "element {} of a list of {}"))
        values = {k: left[0] for k, left in self.left.items() if self.form.slots[k].kind == "value"}
        pops = {k for k, slot in enumerate(self.form.slots) if slot.kind == "pop"}
        pushed = (left[0] for k, left in self.left.items() if self.form.slots[k].kind == "push")
        asked = [*(n for n, _, _ in self.ranges), *filter(_few_integers, pushed)]
        counted = count(self.condition, self.inner, values, pops, known, asked)
        if symbolic and (counted is None or any(node not in counted.sequences for node, _, _ in self.ranges)):
            raise self.c.needs_number("how often a loop runs, and where, must be a number")
        if counted is None:
            raise self.c.error("how often a loop runs must be known, and be less than a million")
        for node, size, what in self.ranges:
            if node not in counted.sequences:
                raise self.c.error("positions in a loop must be known")
            if not isinstance(size, int):
                raise self.c.needs_number("the elements of what a loop reads must be counted")
            wrong = [at for at in counted.sequences[node] if not 0 <= at < size]
            if wrong:
                raise self.c.error(what.format(wrong[0], size) + " out of bounds")
        return counted

    def outputs(self) -> list[Node]:
        """What the loop gives."""
        b = self.c.b
        for k, slot in enumerate(self.form.slots):
            match slot.kind:
                case "same":
                    self._reads(k, self.users.get(self.inner[k], ()))
                    self.draft.wholes.append((self.given[k], self.inner[k]))
                case "pop":
                    self.draft.sliced.append((self.given[k], self.inner[k], (self._elements(k) - 1, -1)))
                case "value":
                    self._value(k)
                case "list":
                    self._list(k)
                case "push":
                    self._push(k)
                case "set":
                    self._set(k)
        self.draft.replace(self.new)
        self.draft.prune({k for k in self.form.results if k not in self.finals})
        self.made = move(self.draft, b)
        return [self.finals[k]() if k in self.finals else self.made[k, 0] for k in self.form.results]

    def _elements(self, k: int) -> int:
        """How many elements a list has when the loop begins."""
        n = self.given[k].shape[0]
        if not isinstance(n, int):
            raise self.c.needs_number("the elements of its lists must be counted")
        if self.form.slots[k].kind == "pop" and n < self.counted.trips:
            raise self.c.error(f"{self.counted.trips} elements are taken from a list of {n}")
        return n

    def _size(self, k: int) -> int:
        """How many elements a list that is only written has."""
        size = np.asarray(self.c.known(self.given[k]))
        if size.dtype == object:
            raise self.c.needs_number("the elements of its lists must be counted")
        return int(size)

    def _row(self, tensor: Node, rows: Rows) -> Node:
        """A row of a tensor in the body."""
        inner = self.body.input(tensor.shape[1:], tensor.dtype)
        self.draft.sliced.append((tensor, inner, rows))
        return inner

    def _rows(self, position: Node) -> Rows | None:
        """The rows of a list that are at a position, if they go on by one step."""
        return steps(self.counted.sequences.get(position))

    def _reads(self, k: int, users: Any) -> None:
        for user in users:
            element = user.op is Op.GATHER and user.src[0] is self.inner[k] and user.arg == (0,)
            if element and user.src[1].shape == () and (rows := self._rows(user.src[1])) is not None:
                self.new[user] = self._row(self.given[k], rows)

    def _value(self, k: int) -> None:
        inner, given = self.inner[k], self.given[k]
        if k not in self.counted.values:
            self.draft.carried[k] = Carried(given, inner, self.left[k][0])
            return
        values = self.counted.values[k]
        if values.dtype == object and values.size > MOST_SIZES:
            raise self.c.needs_number("what a loop computes of sizes must be numbers")
        self.finals[k] = lambda: self.c.b.extents(values[-1], inner.dtype)
        if inner in self.users:
            self.new[inner] = self._row(self.c.b.extents(values[:-1], inner.dtype), (0, 1))

    def _push(self, k: int) -> None:
        """Integers that are known are no work of the loop's: the positions that its gradient reads."""
        element = self.left[k][0]
        known = self.counted.sequences.get(element)
        if known is None:
            self.draft.stacked[k, 0] = element, (0, 1)
        else:
            self.finals[k] = lambda: self.c.b.literal(known)

    def _list(self, k: int) -> None:
        """A list of which each iteration reads and writes one element, which no other one does, is not carried."""
        inner, left = self.inner[k], self.left[k][0]
        users = self.users.get(inner, [])
        mine = [u for u in users if u.op is Op.GATHER and u.src[0] is inner and u.arg == (0,)]
        if left.op is Op.SCATTER and left.src[0] is inner and left.arg == ("set", (0,)) and left not in self.users:
            where = [steps(self.counted.sequences.get(u.src[-1])) for u in (left, *mine)]
            rows = self._rows(left.src[2])
            if len(mine) + 1 == len(users) and rows is not None and rows[1] and all(w == rows for w in where):
                for user in mine:
                    self.new[user] = self._row(self.given[k], rows)
                self._write(k, left.src[1], left.src[2], lambda: self.given[k], self._elements(k))
                return
        self.draft.carried[k] = Carried(self.given[k], inner, left)

    def _set(self, k: int) -> None:
        position, element = self.left[k]
        size = self._size(k)
        self._write(k, element, position, lambda: self.c.b.const(0, element.dtype, (size, *element.shape)), size)

    def _write(self, k: int, element: Node, position: Node, base: Callable[[], Node], size: int) -> None:
        """Elements put at known positions into what a list was."""
        trips, positions = self.counted.trips, self.counted.sequences[position]
        rows = steps(positions)
        if rows is not None and trips == size and (trips < 2 or rows[1] in (1, -1)):
            self.draft.stacked[k, 0] = element, rows
            return
        self.draft.stacked[k, 0] = element, (0, 1)
        if k in self.form.results:
            self.draft.kept.add((k, 0))
        where = self.c.b.literal(positions.astype(np.int32))
        self.finals[k] = lambda: self.c.b.scatter(base(), self.made[k, 0], [where], (0,), "set")


def _few_integers(node: Node) -> bool:
    """Whether a node is no more than sizes or positions, which a gradient may need."""
    sizes = [n for n in node.shape if isinstance(n, int)]
    return not node.dtype.is_float and len(sizes) == node.rank and math.prod(sizes) <= FEW


LIST_OPS = frozenset({"TensorListGetItem", "TensorListSetItem", "TensorListLength", "TensorListElementShape"})


def _element(b: Builder, x: Node, position: Node) -> Node:
    """x[i] or x[i, j], at a position that only iterations know; a negative one counts from the end."""
    coords = []
    axes = position.shape[0]
    assert isinstance(axes, int)
    for axis, size in enumerate(x.shape[:axes]):
        at = b.reshape(b.slice(position, [axis], [1], [1]), ())
        behind = b.map("add", at, b.extent(size, at.dtype))
        coords.append(b.select(b.map("lt", at, b.const(0, at.dtype)), behind, at))
    return b.gather(x, coords, tuple(range(len(coords))))


def _list_op(b: Builder, node: TensorFlowOp, inputs: list[Node]) -> Node:
    """An op on a list that is a tensor."""
    elements = inputs[0]
    if node.op == "TensorListGetItem":
        return b.gather(elements, [inputs[1]], (0,))
    if node.op == "TensorListSetItem":
        return b.scatter(elements, inputs[2], [inputs[1]], (0,), "set")
    if node.op == "TensorListLength":
        return b.extent(elements.shape[0], DType.I32)
    dtype = DType.I64 if node.attrs.get("shape_type") is DType.I64 else DType.I32
    sizes = [b.reshape(b.extent(size, dtype), (1,)) for size in elements.shape[1:]]
    return b.concat(sizes, 0) if sizes else b.const(0, dtype, (0,))
