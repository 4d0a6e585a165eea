"""Turns loops into nodes: a loop whose whole body HPU takes becomes one `HpuLoop`, which is part of a cluster.

What: the frame of a loop (Enter, Merge, Switch, NextIteration, Exit) and all nodes in it become a node that has the
loop as an attribute (`tensorflow/clusters/loop_form.py`). A list that the loop carries becomes a tensor with an axis
for its elements, also outside the loop where it is made of a tensor or stacked to one. For other uses the list is made
again.

    FromTensor(x) ── Enter ─ ... GetItem(i) ...
                                                           x ── HpuLoop ── y
    Reserve(n) ── Enter ─ ... SetItem(i) ... ─ Exit ── Stack = y

Why: an iteration by TensorFlow's executor costs two hundred microseconds, mostly for list ops and the launch; in a
recipe it costs no more than its kernels.

Invariants: the number of iterations follows from integers known before the loop; the body has no effects and no
branches; values carried to the next iteration keep their shape. Every other loop stays, with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from habana_tf.cluster.cluster import Arg
from habana_tf.ir.dtypes import DType, from_number
from habana_tf.tensorflow.clusters.loop_form import LoopForm, LoopSlot
from habana_tf.tensorflow.clusters.writer import ClusterWriter
from habana_tf.tensorflow.graph.frames import Flow
from habana_tf.tensorflow.graph.loop_checks import LoopChecks
from habana_tf.tensorflow.graph.loop_frame import Left
from habana_tf.tensorflow.graph.loop_lists import Lists, makes_list
from habana_tf.tensorflow.graph.ops import INT32, RESOURCE, VARIANT, attr, output_types
from habana_tf.tensorflow.graph.placement import Placement
from habana_tf.tensorflow.graph.reasons import Reason
from habana_tf.tensorflow.graph.shapes import Shapes
from habana_tf.tensorflow.graph.view import Node, Ref, View
from habana_tf.tensorflow.lowering.table import LOOP, lookup


def convert(
    view: View, flow: Flow, placement: Placement, shapes: Shapes, excluded: Mapping[str, Reason] | None = None
) -> int:
    """Replaces the loops it can, inner ones first; returns how many.

    excluded: nodes that a former round found to be in no cluster, by name: those of loops among them.
    """
    frames: dict[int, list[Node]] = {}
    for node in flow.order:
        if node.alive and flow.classes[node][0]:
            frames.setdefault(flow.classes[node][0], []).append(node)
    made = 0
    depths: dict[int, int] = {0: 0}
    for frame, nodes in frames.items():  # outer ones come first
        depths[frame] = 1 + max(depths[flow.classes[n.inputs[0][0]][0]] for n in nodes if n.op == "Enter")
    ends = {node: k for k, node in enumerate(flow.order)}
    last = {frame: max(ends[n] for n in nodes) for frame, nodes in frames.items()}
    for frame in sorted(frames, key=lambda f: (-depths[f], last[f])):  # what a loop gives the next one is a tensor then
        nodes = [n for n in frames[frame] if n.alive]
        conditions = [n for n in nodes if n.op == "LoopCond"]
        try:
            if len(conditions) != 1:
                raise Left(Reason.LOOP_BRANCH)
            if excluded and (why := excluded.get(_name(conditions[0]))) is not None:
                raise Left(why)
            node = _LoopConversion(view, flow, placement, shapes, nodes, conditions[0]).convert()
            made += 1
            outer = flow.classes[node][0]
            if outer:
                frames[outer].append(node)
        except Left as why:
            for node in conditions:
                placement.reasons[node] = why.reason
    return made


class _LoopConversion(LoopChecks):
    """One loop to be replaced. Nothing is changed before it is known that it can be."""

    def convert(self) -> Node:
        self.find_variables()
        self.check_body()
        self.find_reads()
        self.body = self.used()
        lists = Lists(self.body, self.resolve)
        for k, variable in enumerate(self.variables):
            if variable.type == VARIANT:
                slot = lists.slot(k, variable.enter, variable.next, variable.exit)
                if slot is None:
                    raise Left(Reason.LOOP_LIST)
                variable.slot = slot
            elif variable.type == RESOURCE and variable.next is None:
                variable.slot = LoopSlot("unused")
            elif from_number(variable.type) is None:
                raise Left(Reason.LOOP_EFFECT)
            else:
                variable.slot = LoopSlot("same" if variable.next is None else "value")
                if variable.next is not None:
                    self.check_shape(variable)
        self.check_work()
        self.check_condition()
        self.check_arguments()
        self.fix(lists.positions)
        return self._replace(lists)

    def _replace(self, lists: Lists) -> Node:
        device, outside, body = self.condition.device, self._outside(), self._body(lists)
        entered = list(dict.fromkeys(c for v in self.variables if v.enter.op == "Enter" for c in v.enter.controls))
        given: list[Ref | None] = []
        for k, variable in enumerate(self.variables):
            slot = variable.slot
            if variable.enter.op == "ReadVariableOp":
                given.append((self._read(variable.enter, entered, outside), 0))
            elif slot.kind == "unused":
                given.append(None)
            else:
                given.append(variable.given if variable.type != VARIANT else self._tensor(k, lists, outside))
            if slot.kind == "set":
                given[-1] = lists.count(k)
                slot.fixed = True
        order = [k for fixed in (False, True) for k, ref in enumerate(given)
                 if ref is not None and self.variables[k].slot.fixed is fixed]  # fmt: skip
        results = [k for k, v in enumerate(self.variables) if v.next is not None and v.exit is not None
                   and self.consumers[v.exit]]  # fmt: skip
        form = LoopForm([v.slot for v in self.variables], order, results)
        node = self.view.add(_name(self.condition), LOOP, device)
        node.proto.attr["form"].s = form.text()
        node.proto.attr["body"].s = body
        fixed = [k for k in order if self.variables[k].slot.fixed]
        types = {k: lists.element(k) if v.type == VARIANT else v.type for k, v in enumerate(self.variables)}
        types.update({k: INT32 for k, v in enumerate(self.variables) if v.slot.kind == "set" and k in fixed})
        elements = {k: lists.element(k) if v.type == VARIANT else v.type for k, v in enumerate(self.variables)}
        node.proto.attr["Tin"].list.type.extend(types[k] for k in order if k not in fixed)
        node.proto.attr["Tfixed"].list.type.extend(types[k] for k in fixed)
        node.proto.attr["Tout"].list.type.extend(elements[k] for k in results)
        for k in order:
            ref = given[k]
            assert ref is not None
            node.inputs.append(ref)
        for control in entered:
            node.add_control(control)
        self.flow.classes[node] = outside
        self.placement.rows[node] = lookup(LOOP)
        for place, k in enumerate(results):
            self._behind(k, (node, place), lists)
        for variable in self.variables:
            if variable.next is None and variable.exit is not None:
                self._use(variable.exit, variable.given, node)
        for n in (*self.frame, *(v.exit for v in self.variables if v.exit is not None)):
            self.view.remove(n)
            self.placement.rows.pop(n, None)
            self.placement.reasons.pop(n, None)
        self.view.sweep([v.given[0] for v in self.variables if v.type == VARIANT], makes_list)
        return node

    def _tensor(self, k: int, lists: Lists, outside: tuple[int, int]) -> Ref | None:
        """What a list is when the loop begins."""
        made = lists.tensor(self.view, k, self.variables[k].given)
        if made is not None and made[0].op == "ZerosLike":
            self.flow.classes[made[0]] = outside
            self.placement.rows[made[0]] = lookup("ZerosLike")
        return made

    def _read(self, inside: Node, controls: list[Node], outside: tuple[int, int]) -> Node:
        """The read of a variable before the loop, for one in it."""
        handle = self.variables[self.at[self.resolve(inside.inputs[0])]].given
        dtype = attr(inside, "dtype").type
        node = self.view.add(f"{inside.name}/before", "ReadVariableOp", inside.device, [handle], dtype=dtype)
        node.controls = list(controls)
        self.flow.classes[node] = outside
        self.placement.reasons[node] = None
        return node

    def _outside(self) -> tuple[int, int]:
        """The class of the node that replaces the loop."""
        for variable in self.variables:
            if variable.exit is not None:
                return self.flow.classes[variable.exit]
        raise Left(Reason.LOOP_EFFECT)

    def _behind(self, k: int, made: Ref, lists: Lists) -> None:
        """Replaces the Exit of a variable by a result."""
        exit_ = self.variables[k].exit
        assert exit_ is not None
        if self.variables[k].type == VARIANT:
            for stack in [c for c in self.consumers[exit_] if c.op == "TensorListStack"]:
                if stack.name not in self.view.preserved:
                    self._use(stack, made, made[0])
                    self.view.remove(stack)
            if any(c.alive for c in self.consumers[exit_]):
                made = lists.back(self.view, k, made)
                self.flow.classes[made[0]] = self.flow.classes[exit_]
        self._use(exit_, made, made[0])

    def _use(self, old: Node, new: Ref, control: Node) -> None:
        for consumer in self.consumers[old]:
            consumer.inputs = [new if ref == (old, 0) else ref for ref in consumer.inputs]
            consumer.controls = list(dict.fromkeys(control if c is old else c for c in consumer.controls))

    def _body(self, lists: Lists) -> bytes:
        """The cluster of an iteration: the variables in order (but lists that are only written), then the condition and
        what the variables become."""
        writer = ClusterWriter("loop")
        text: dict[Ref, str] = {}
        for variable in self.variables:
            slot = variable.slot
            if slot.kind in ("push", "set", "unused"):
                continue
            tf_type = lists.element(self.at[variable.enter, 0]) if variable.type == VARIANT else variable.type
            text[variable.enter, 0] = writer.arg(Arg(_dtype(tf_type), False))
        for node in self.body:
            if node.op == "TensorListPopBack":
                text[node, 1] = text[self.resolve(node.inputs[0])]
                continue
            if node.op == "TensorListPushBack" or lists.only_written(node):
                continue
            refs = [self.resolve(ref) for ref in node.inputs]
            made = writer.node(node.proto, [text[ref] for ref in refs])
            for j in range(len(output_types(node))):
                text[node, j] = f"{made}:{j}" if j else made
        writer.result(text[self.resolve(self.condition.inputs[0])], Arg(DType.BOOL, False))
        for variable in self.variables:
            if variable.next is None or variable.slot.kind == "pop":
                continue
            node = self.resolve(variable.next)[0]
            left = [self.resolve(variable.next)]
            if variable.slot.kind == "push":
                left = [self.resolve(node.inputs[1])]
            elif variable.slot.kind == "set":
                left = [self.resolve(node.inputs[1]), self.resolve(node.inputs[2])]
            for ref in left:
                kind = lists.element(self.at[ref[0], 0]) if (ref[0], 0) in self.at and (
                    self.variables[self.at[ref[0], 0]].type == VARIANT) else _result_type(ref)  # fmt: skip
                writer.result(text[ref], Arg(_dtype(kind), False))
        return writer.bytes()


def _name(condition: Node) -> str:
    """The name of the node that replaces a loop."""
    return f"{condition.name}/loop"


def _result_type(ref: Ref) -> int:
    node, output = ref
    if node.op == "TensorListSetItem":
        return int(attr(node, "element_dtype").type)
    return output_types(node)[output]


def _dtype(tf_type: int) -> DType:
    dtype = from_number(tf_type)
    if dtype is None:
        raise Left(Reason.LOOP_OP)
    return dtype
