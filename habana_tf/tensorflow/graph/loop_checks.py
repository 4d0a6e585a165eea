"""What must be known of a loop before it begins: how often it runs, and what fixes the shapes in it.

Both have to follow from integers that are given to the loop, or counted in it.
"""

from __future__ import annotations

from tensorflow.python.framework import tensor_util

from habana_tf.tensorflow.clusters.cluster import SHAPE_ONLY
from habana_tf.tensorflow.graph.loop_frame import INTEGERS, Left, LoopFrame
from habana_tf.tensorflow.graph.loop_lists import LIST_READS
from habana_tf.tensorflow.graph.ops import FORWARDING, VARIANT, argument_names, attr, input_types, output_types
from habana_tf.tensorflow.graph.reasons import Reason
from habana_tf.tensorflow.graph.view import Node, Ref, behind
from habana_tf.tensorflow.lowering.table import LOOP

MOST_TRIPS = 65536
"""A loop whose integers are larger might run more often than it is worth following them (see `cluster/loop_counts`)."""
_BY_SIZES = frozenset({"Sum", "Reshape", "BroadcastGradientArgs", "BroadcastTo"})
"""Ops of a gradient to which sizes are given, and not positions."""


class LoopChecks(LoopFrame):
    """The frame of a loop with the checks of its integers. What they fix is noted in the variables' slots."""

    def check_work(self) -> None:
        """A loop over nothing but a few integers is the host's."""
        for node in self.body:
            types = {*input_types(node), *output_types(node)} - {VARIANT}
            if node.op not in LIST_READS and not types <= INTEGERS:
                return
        raise Left(Reason.TRIVIAL)

    def check_condition(self) -> None:
        found = self._integers(self.condition.inputs[0])
        if found is None:
            raise Left(Reason.LOOP_BY_DATA)
        numbers = [_number(self.variables[k].given) for k in found]
        numbers += [_number((node, 0)) for node in self.body if node.op == "Const"]
        if any(n is not None and abs(n) > MOST_TRIPS for n in numbers):
            raise Left(Reason.LOOP_LENGTH)
        if not all(_same_in_every_call(self.variables[k].given) for k in found) and not self._known_length():
            raise Left(Reason.LOOP_LENGTH)
        for k in found:
            self.variables[k].slot.fixed = True

    def _known_length(self) -> bool:
        """Whether a list of the loop has as many elements in every call, which then is the number of its iterations: a
        function that is called has no other sign of it. Where it may differ, every length would be another recipe."""
        for variable in self.variables:
            source = variable.given[0]
            if source.op == "TensorListFromTensor" and (self.shapes.partial(source.inputs[0]) or (0,))[0] > 1:
                return True
            readers = self.consumers[variable.exit] if variable.exit is not None else []
            if any(n.op == "TensorListStack" and attr(n, "num_elements").i > 1 for n in readers):
                return True
        return False

    def check_arguments(self) -> None:
        """What fixes a shape in the body must be the same in every iteration; but for the position of an element."""
        for node in self.body:
            row = self.placement.row(node)
            fixed = set(row.fixed) if row is not None else set()
            if fixed and self._is_element(node) and self._integers(node.inputs[1]) is not None:
                self.fix([node.inputs[1]])
                continue
            for name, ref in zip(argument_names(node), node.inputs, strict=True):
                if name in fixed:
                    for k in self._constants(ref, node.op in _BY_SIZES):
                        self.variables[k].slot.fixed = True

    @staticmethod
    def _is_element(node: Node) -> bool:
        """Whether a node takes one element, or one part, at a position along the first axes: x[i], x[i, j]."""
        if node.op != "StridedSlice" or node.inputs[3][0].op != "Const":
            return False
        strides = attr(node.inputs[3][0], "value").tensor.tensor_shape.dim[0].size
        others = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask")
        return attr(node, "shrink_axis_mask").i == (1 << strides) - 1 and not any(attr(node, m).i for m in others)

    def _constants(self, ref: Ref, sizes: bool) -> set[int]:
        """The variables, all the same in every iteration, that a value follows from, beside shapes."""
        found: set[int] = set()
        stack = [self.resolve(ref)]
        while stack:
            node, _ = stack.pop()
            if (node, 0) in self.at:
                k = self.at[node, 0]
                if self.variables[k].next is not None or self.variables[k].type not in INTEGERS:
                    raise Left(Reason.LOOP_OP)
                found.add(k)
            elif sizes and node.op == "TensorListPopBack" and output_types(node)[1] in INTEGERS:
                found.add(self.at[self.resolve(node.inputs[0])[0], 0])  # sizes that the forward loop has kept
            elif node.op not in SHAPE_ONLY and node.op != "TensorListLength":
                stack.extend(self.resolve(r) for r in node.inputs)
        return found

    def fix(self, positions: list[Ref]) -> None:
        """Positions of elements must be known beforehand: most are rows then, and that they are in range is certain."""
        for ref in positions:
            found = self._integers(ref)
            if found is None:
                raise Left(Reason.LOOP_LIST)
            for k in found:
                self.variables[k].slot.fixed = True

    def _integers(self, ref: Ref) -> set[int] | None:
        """The variables that an integer depends on in any iteration; None if on anything but integers."""
        found: set[int] = set()
        seen: set[Node] = set()
        stack = [self.resolve(ref)]
        while stack:
            node, output = stack.pop()
            if (node, 0) in self.at:
                k = self.at[node, 0]
                variable = self.variables[k]
                if variable.type not in INTEGERS:
                    return None
                if k not in found:
                    found.add(k)
                    if variable.next is not None:
                        stack.append(self.resolve(variable.next))
            elif node.op == "TensorListPopBack" and output == 1 and output_types(node)[1] in INTEGERS:
                found.add(self.at[self.resolve(node.inputs[0])[0], 0])
            elif node not in seen:
                seen.add(node)
                if not {*input_types(node), *output_types(node)} <= INTEGERS:
                    return None
                stack.extend(self.resolve(r) for r in node.inputs)
        return found


def _same_in_every_call(ref: Ref) -> bool:
    """Whether an integer is a constant, or counted by another loop that runs in a launch."""
    return behind(ref, FORWARDING)[0].op == LOOP or _number(ref) is not None


def _number(ref: Ref) -> int | None:
    """The value of a constant integer; None of anything else."""
    node = behind(ref, FORWARDING)[0]
    if node.op != "Const" or output_types(node)[0] not in INTEGERS:
        return None
    tensor = attr(node, "value").tensor
    if tensor.tensor_shape.dim:
        return None
    return int(tensor_util.MakeNdarray(tensor))
