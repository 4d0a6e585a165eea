"""The sizes and small values of a graph's tensors before it runs.

TensorFlow's inference of the placed graph gives most of them. What it leaves open is inferred here, op by op, from what
is known of each op's inputs: from the lowered programs of launches, from variables, and for an op whose result is as
large as its values say from the most that it can be. Of 4,096 ids at most 4,096 differ:

    ids (8, 512) -> Unique -> (<= 4096,)        a `BoundedSize`: the prediction counts 4,096 rows, and says so

Invariant: nodes are given in topological order. A size that nothing bounds stays unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from habana_tf.card.model.lowered import Lowered
from habana_tf.card.prediction.foreseen import BoundedSize
from habana_tf.ir import extent as ext
from habana_tf.ir.constant_folding import constant
from habana_tf.ir.dtypes import from_number
from habana_tf.ir.interpreter import dims
from habana_tf.ir.primitives import Op, postorder
from habana_tf.tensorflow.clusters.attributes import plain
from habana_tf.tensorflow.dry_run.list_elements import TAKEN, ListElements
from habana_tf.tensorflow.graph.inference import LARGEST, Scratch
from habana_tf.tensorflow.graph.ops import attr, output_types
from habana_tf.tensorflow.graph.shapes import Shape
from habana_tf.tensorflow.graph.view import Node, Ref

NOT_BUILT = frozenset(
    "Placeholder VarHandleOp ReadVariableOp AssignVariableOp NoOp "
    "Enter Exit NextIteration LoopCond Merge Switch".split()
)
"""Ops of which the scratch graph has the shapes alone, where another op needs them."""
STATES = (3, 6)
"""Elements of a random state: in a variable of tf.random.Generator (Philox), and as launches get it."""


Shapes = Sequence[Shape]
Values = Sequence[Any | None]


def _ids(shapes: Shapes, _: Values, count: int) -> list[Shape]:
    """As many as there are ids, in each result."""
    return [(math.prod(shapes[0]),)] * count


def _rows(shapes: Shapes, _: Values, count: int) -> list[Shape]:
    """As many rows as there are, in each result."""
    return [shapes[0]] * count


def _unique_along(shapes: Shapes, values: Values, count: int) -> list[Shape]:
    """UniqueV2: slices along an axis, of which all may differ; one more result per slice."""
    axis = values[1]
    at = int(axis.reshape(-1)[0]) if axis is not None and axis.size else 0
    return [shapes[0], *[(shapes[0][at],)] * (count - 1)]


def _places(shapes: Shapes, _: Values, count: int) -> list[Shape]:
    """Where: the index of each element."""
    return [(math.prod(shapes[0]), len(shapes[0]))] * count


def _parts(shapes: Shapes, _: Values, count: int) -> list[Shape]:
    """DynamicPartition: all rows may be of one part."""
    data, parts = shapes[0], shapes[1]
    return [(math.prod(parts), *data[len(parts) :])] * count


def _boxes(shapes: Shapes, values: Values, count: int) -> list[Shape]:
    """NonMaxSuppression: as many boxes as are asked for, of those that there are."""
    most = values[2] if len(values) > 2 else None
    n = shapes[0][0] if most is None else min(shapes[0][0], int(most))
    return [(n,)] * count


def _hits(shapes: Shapes, _: Values, count: int) -> list[Shape]:
    """ComputeAccidentalHits: each true class is sampled once."""
    return [(math.prod(shapes[0]),)] * count


def _filled(shapes: Shapes, values: Values, count: int) -> list[Shape]:
    """SparseFillEmptyRows: an entry more for each row, all of which may be empty."""
    (entries, rank), dense = shapes[0], values[2]
    more = int(dense[0]) if dense is not None else entries
    return [(entries + more, rank), (entries + more,), (more,), (entries,)][:count]


def _dense(shapes: Shapes, values: Values, count: int) -> list[Shape]:
    """RaggedTensorToTensor from row splits: all values may be in one row, but for what the asked shape says."""
    asked, rows, *splits = values[0], shapes[1], *shapes[3:]
    below = [*(n - 1 for (n,) in splits[1:]), rows[0]]
    most = (splits[0][0] - 1, *below, *rows[1:])
    if asked is None or asked.ndim == 0:
        return [most] * count
    return [tuple(n if n >= 0 else m for n, m in zip(asked.tolist(), most, strict=False))] * count


BOUNDS: dict[str, Callable[[Shapes, Values, int], list[Shape]]] = {
    "Unique": _ids, "UniqueWithCounts": _ids, "UniqueV2": _unique_along, "UniqueWithCountsV2": _unique_along,
    "Where": _places, "ListDiff": _rows, "DynamicPartition": _parts, "ComputeAccidentalHits": _hits,
    "SparseFillEmptyRows": _filled, "RaggedTensorToTensor": _dense,
    **dict.fromkeys(("NonMaxSuppression", *(f"NonMaxSuppressionV{k}" for k in (2, 3, 4, 5))), _boxes),
}  # fmt: skip
"""The most that an op's results can be, from its inputs' shapes and known values and the number of results."""


class Sizes:
    """known: what TensorFlow's inference has of tensors, with unknown extents negative, the same one for equal extents.
    variables: the shapes of variables by their handles. values: of arguments, NumPy arrays. bounds: sizes that were
    bounded."""

    def __init__(
        self,
        known: dict[Ref, Shape | None],
        variables: dict[Ref, Shape],
        values: Mapping[Ref, Any],
    ) -> None:
        self.known = known
        self._values = values
        self.variables = variables
        self.bounds: list[BoundedSize] = []
        self._extents: dict[int, int] = {}
        """Numbers for unknown extents that have a name."""
        self._scratch = Scratch()
        self._lists = ListElements(self.shape)
        self._launches: dict[Node, Lowered] = {}
        self._waiting: list[Node] = []
        """Nodes that the scratch graph does not have yet: it is needed for few graphs."""

    def shape(self, ref: Ref) -> Shape | None:
        """The shape of a tensor; None if a size is not known."""
        shape = self.known.get(ref)
        if shape is not None and any(n < 0 for n in shape):
            shape = self.known[ref] = tuple(self._extents.get(n, n) for n in shape)
        return None if shape is None or any(n < 0 for n in shape) else shape

    def value(self, ref: Ref) -> Any | None:
        """The value of a tensor as a NumPy array; None if it is known only at run time."""
        node, output = ref
        if node.op == "Const":
            return plain(node.proto.attr["value"])
        if ref in self._values:
            return self._values[ref]
        if node in self._launches:
            return self._of_launch(node, output)
        self._build()
        return self._scratch.value(ref)

    def _of_launch(self, node: Node, output: int) -> Any | None:
        """A value that a launch computes from constants and random numbers: one draw of them."""
        launch = self._launches[node]
        made = launch.program.outputs[output]
        data = {launch.made[-1, k] for k, arg in enumerate(launch.cluster.inputs) if not arg.variable}
        nodes = postorder([made], lambda n: n.src)
        # Whatever a generator's state is, it is one that it may have.
        states = {n: np.zeros(dims(n), n.dtype.numpy) for n in nodes if n.op is Op.INPUT and n.numel in STATES}
        if data.intersection(nodes):
            return None
        value = constant(made, dict(states))
        if value is not None and states:
            self.bounds.append(BoundedSize("random numbers", node.name, tuple(np.ravel(value).tolist()), drawn=True))
        return value

    def launched(self, node: Node, launch: Lowered) -> None:
        """Takes the sizes of a launch's results from its lowered program."""
        self._launches[node] = launch
        for k, made in enumerate(launch.program.outputs):
            self.known[node, k] = tuple(map(ext.nominal, made.shape))
        self._waiting.append(node)

    def passed(self, node: Node) -> None:
        """Finds what it can of the results of a node that is no launch."""
        self._waiting.append(node)
        self._lists.passed(node)
        open_ = [k for k in range(len(output_types(node))) if (node, k) in self.known and self.shape((node, k)) is None]
        if not open_:
            return
        found = self._bounded(node) or self._inferred(node)
        for k in open_:
            if found is not None and (shape := found[k]) is not None:
                for name, n in zip(self.known[node, k] or (), shape, strict=False):
                    if name < -1:
                        self._extents.setdefault(name, n)
                self.known[node, k] = shape

    def _bounded(self, node: Node) -> Sequence[Shape | None] | None:
        rule = BOUNDS.get(node.op)
        inputs = [self.shape(ref) for ref in node.inputs]
        if rule is None or any(shape is None for shape in inputs):
            return None
        if rule is _dense and set(attr(node, "row_partition_types").list.s) != {b"ROW_SPLITS"}:
            return None
        found = rule([s for s in inputs if s is not None], [self.value(ref) for ref in node.inputs], self._count(node))
        self._build()
        for k, shape in enumerate(found):
            self._scratch.placeholder((node, k), output_types(node)[k], shape)
        self.bounds.append(BoundedSize(node.op, node.name, found[0]))
        return found

    def _inferred(self, node: Node) -> Sequence[Shape | None]:
        if node.op == "Merge":  # of branches the larger, of a loop what it begins with
            whole = [s for ref in node.inputs if (s := self.shape(ref)) is not None]
            same = [s for s in whole if len(s) == len(whole[0])]
            return [tuple(map(max, zip(*same, strict=True))) if same else None, ()]
        if node.op == "Switch":
            return [self.shape(node.inputs[0])] * 2
        if node.op in ("Enter", "Exit", "NextIteration"):
            return [self.shape(node.inputs[0])]
        if node.op in ("LookupTableFind", "LookupTableFindV2"):  # a value for each key
            return [self.shape(node.inputs[1])]
        if node.op in TAKEN:
            return [self._lists.taken(node, k) for k in range(self._count(node))]
        self._build()
        return [self._scratch.shape((node, k)) for k in range(self._count(node))]

    @staticmethod
    def _count(node: Node) -> int:
        return len(output_types(node))

    def _build(self) -> None:
        """Puts the nodes that passed into the scratch graph."""
        waiting, self._waiting = self._waiting, []
        for node in waiting:
            types = output_types(node)
            shapes = [self.known.get((node, k)) for k in range(len(types))]
            if (node, 0) in self._values and self._values[node, 0].size <= LARGEST:
                self._scratch.know((node, 0), self._values[node, 0])
            elif node.op == "VariableShape" and node.inputs[0] in self.variables:
                dtype = from_number(types[0])
                self._scratch.know((node, 0), np.array(self.variables[node.inputs[0]], dtype.numpy if dtype else None))
            elif node not in self._launches and node.op not in NOT_BUILT and node.op not in BOUNDS:
                for ref in node.inputs:
                    if not self._scratch.has(ref):
                        self._scratch.placeholder(ref, output_types(ref[0])[ref[1]], self.known.get(ref))
                self._scratch.op(node, shapes)
