"""The frame of a loop: its variables, and the nodes of its body, where HPU could run it as a whole.

    Enter ── Merge ── Switch ── body ── NextIteration ── back to the Merge
                        └────── Exit

A loop variable is carried from an Enter to its Exit. A loop that cannot be in a launch raises `Left`, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from habana_tf.ir.dtypes import from_number
from habana_tf.ir.primitives import postorder
from habana_tf.tensorflow.clusters.attributes import readable
from habana_tf.tensorflow.clusters.loop_form import LoopSlot
from habana_tf.tensorflow.graph.frames import Flow
from habana_tf.tensorflow.graph.loop_lists import LIST_READS
from habana_tf.tensorflow.graph.ops import BOOL, FORWARDING, INT32, VARIANT, attr, output_types
from habana_tf.tensorflow.graph.placement import Placement
from habana_tf.tensorflow.graph.reasons import Reason
from habana_tf.tensorflow.graph.shapes import Shapes
from habana_tf.tensorflow.graph.view import Node, Ref, View, reached

INTEGERS = frozenset({INT32, 9, BOOL})
_RESIZES = frozenset({
    "Concat", "ConcatV2", "Pad", "PadV2", "MirrorPad", "Tile", "BroadcastTo", "Reshape", "StridedSlice", "Slice",
    "GatherV2", "GatherNd", "Gather", "Pack", "ResourceGather", "Transpose", "ExpandDims", "Squeeze", "Einsum", "Fill",
    "Range", "OneHot", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "MaxPool", "MaxPool3D", "AvgPool", "AvgPool3D",
    "ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea", "CropAndResize", "SpaceToBatch",
    "SpaceToBatchND", "BatchToSpace", "BatchToSpaceND", "SpaceToDepth", "DepthToSpace", "ExtractImagePatches",
    "MatrixDiag", "MatrixDiagV2", "MatrixDiagV3", "MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3", "Diag",
})  # fmt: skip
_FRAME = frozenset({"Enter", "Merge", "Switch", "NextIteration", "LoopCond"})


class Left(Exception):
    """A loop that stays as it is."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


@dataclass
class LoopVariable:
    """A loop variable, or a variable of the program that the loop reads.

    next: its value for the next iteration; None where it is the same in all of them.
    """

    enter: Node
    next: Ref | None = None
    exit: Node | None = None
    slot: LoopSlot = field(default_factory=LoopSlot)

    @property
    def given(self) -> Ref:
        return self.enter.inputs[0]

    @property
    def type(self) -> int:
        return int(attr(self.enter, "T" if self.enter.op == "Enter" else "dtype").type)


class LoopFrame:
    """The frame of a loop."""

    def __init__(
        self, view: View, flow: Flow, placement: Placement, shapes: Shapes, nodes: list[Node], condition: Node
    ) -> None:
        self.view, self.flow, self.placement, self.shapes = view, flow, placement, shapes
        self.condition = condition
        self.consumers = view.consumers()
        self.variables: list[LoopVariable] = []
        self.at: dict[Ref, int] = {}
        """The number of the variable that a tensor in the frame is."""
        self.frame = nodes
        self.body = [n for n in nodes if n.op not in _FRAME and n.op not in FORWARDING and n.op != "NoOp"]

    # -- what is in it --------------------------------------------------------------------------------------

    def resolve(self, ref: Ref) -> Ref:
        """The tensor behind copies, Switches and Merges: of the body, or the Enter of a variable."""
        node, output = ref
        while True:
            if node.op in FORWARDING and self.flow.classes[node][0] == self.flow.classes[self.condition][0]:
                node, output = node.inputs[0]
            elif (node, output) in self.at:
                return self.variables[self.at[node, output]].enter, 0
            else:
                return node, output

    def find_variables(self) -> None:
        for node in self.frame:
            if node.op == "Enter":
                self.at[node, 0] = len(self.variables)
                self.variables.append(LoopVariable(node))
        for node in self.frame:
            if node.op == "Merge":
                enters = [n for n, _ in node.inputs if n.op == "Enter"]
                backs = [n for n, _ in node.inputs if n.op == "NextIteration"]
                if len(enters) != 1 or len(backs) != 1 or len(node.inputs) != 2:
                    raise Left(Reason.LOOP_BRANCH)
                number = self.at[enters[0], 0]
                self.at[node, 0] = number
                self.variables[number].next = backs[0].inputs[0]
        for node in self.frame:
            if node.op == "Switch":
                source = node.inputs[0]
                if node.inputs[1][0] is not self.condition or source[0].op != "Merge":
                    raise Left(Reason.LOOP_BRANCH)
                variable = self.variables[self.at[source]]
                self.at[node, 1] = self.at[source]
                exits = [n for n in self.consumers[node] if n.op == "Exit"]
                if len(exits) > 1 or any((node, 0) in n.inputs for n in self.consumers[node] if n.op != "Exit"):
                    raise Left(Reason.LOOP_BRANCH)
                variable.exit = exits[0] if exits else None
        for variable in self.variables:
            if variable.next is not None and self.resolve(variable.next) == (variable.enter, 0):
                variable.next = None

    def check_body(self) -> None:
        for node in self.frame:
            if node.op == "Exit" or node.op == "_SwitchN":
                raise Left(Reason.LOOP_BRANCH)
            if node.name in self.view.preserved:
                raise Left(Reason.LOOP_BRANCH)

    def find_reads(self) -> None:
        """Variables that the body reads are read before the loop: nothing in it assigns one."""
        for node in self.body:
            if node.op == "ReadVariableOp":
                source = self.resolve(node.inputs[0])[0]
                if source.op != "Enter" or self.variables[self.at[source, 0]].next is not None:
                    raise Left(Reason.LOOP_EFFECT)
                self.at[node, 0] = len(self.variables)
                self.variables.append(LoopVariable(node))
        self.body = [n for n in self.body if n.op != "ReadVariableOp"]

    def used(self) -> list[Node]:
        """The nodes that the condition and what the iterations leave depend on, sources first. HPU must take them."""
        roots = [self.condition.inputs[0], *(v.next for v in self.variables if v.next is not None)]

        def sources(refs: list[Ref]) -> list[Node]:
            return [made[0] for ref in refs if ((made := self.resolve(ref))[0], 0) not in self.at]

        seen = dict.fromkeys(postorder(sources(roots), lambda node: sources(node.inputs)))
        for node in self.body:
            row = self.placement.row(node)
            if row is not None and (row.updates or row.variables or row.stateful_random) or node.virtual:
                raise Left(Reason.LOOP_EFFECT)
            if node not in seen:
                if row is None and node.op != "Const" and not _pure(node):
                    raise Left(Reason.LOOP_EFFECT)
            elif node.op == "Const":
                if from_number(output_types(node)[0]) is None or not readable(attr(node, "value").tensor):
                    raise Left(Reason.LOOP_OP)
            elif node.op not in LIST_READS and (row is None or node.device != self.condition.device):
                raise Left(Reason.LOOP_OP)
        return list(seen)

    def check_shape(self, variable: LoopVariable) -> None:
        """Checks that a variable keeps its shape: a tensor may grow in a loop.

        TensorFlow knows no shape of values computed from the elements of lists; these have one (`loop_lists.py`).
        """
        assert variable.next is not None
        first = self.shapes.get(variable.given)
        for merge in self.consumers[variable.enter]:
            kept = merge.op != "Merge" or (first is not None and self.shapes.get((merge, 0)) == first)
            if not kept and not self._from_elements(variable.next) and not self._cannot_grow(first, (merge, 0)):
                raise Left(Reason.LOOP_SHAPE)

    def _cannot_grow(self, first: tuple[int, ...] | None, merge: Ref) -> bool:
        """Whether only the names of unknown extents differ, and nothing in the body joins, cuts or repeats what is
        carried: where a batch's size is not known, neither is that of a sum with another tensor of the batch."""
        last = self.shapes.partial(merge)
        if first is None or last is None or len(first) != len(last):
            return False
        if any(a != b and (a >= 0 or b >= 0) for a, b in zip(first, last, strict=True)):
            return False
        return not any(n.op in _RESIZES for n in self.body if self._is_carried(n))

    def _is_carried(self, node: Node) -> bool:
        """Whether a node is computed from a value that an iteration left."""
        for n in reached([node], lambda n: (s for s, _ in self._sources((n, 0)))):
            if (n, 0) in self.at:
                variable = self.variables[self.at[n, 0]]
                if variable.next is not None and variable.type not in INTEGERS and variable.type != VARIANT:
                    return True
        return False

    def _sources(self, ref: Ref) -> list[Ref]:
        """What a tensor of the body is computed from."""
        return [self.resolve(r) for r in ref[0].inputs] if (ref[0], 0) not in self.at else []

    def _from_elements(self, ref: Ref) -> bool:
        """Whether a tensor is computed from an element of a list whose shape is not known."""
        return any(
            made[0].op in ("TensorListGetItem", "TensorListPopBack") and self.shapes.get(made) is None
            for made in reached([self.resolve(ref)], self._sources)
        )


def _pure(node: Node) -> bool:
    """Whether an unused node may be removed."""
    from habana_tf.tensorflow.graph.ops import facts

    known = facts(node.op)
    return known is not None and not known.stateful
