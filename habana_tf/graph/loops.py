"""Turns loops into nodes: a loop whose body HPU takes as a whole becomes one `HpuLoop`, which is part of a cluster.

What: the frame of a loop (Enter, Merge, Switch, NextIteration, Exit) goes, with all that is in it, and a node stands
for it that has the loop as an attribute (`cluster/loop_form.py`). A list that the loop carries becomes a tensor with an
axis for its elements, also outside where it is made of a tensor or stacked to one. What else wants the list gets it
back.

    FromTensor(x) ── Enter ─ ... GetItem(i) ...
                                                           x ── HpuLoop ── y
    Reserve(n) ── Enter ─ ... SetItem(i) ... ─ Exit ── Stack = y

Why: an iteration by TensorFlow's executor costs two hundred microseconds, most of them for the list ops and the launch;
in a recipe it costs what its kernels cost.

Invariants: how often the body runs follows from integers that are known before it begins; the body has no effects and
no branches; what an iteration leaves to the next one keeps its shape. Every other loop stays, with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..cluster import cluster
from ..cluster.loop_form import Form, Slot
from ..ir.dtypes import DType, from_tf
from ..lowering.table import LOOP, lookup
from .frames import Flow
from .loop_lists import LIST_READS, Lists
from .ops import BOOL, FORWARDING, INT32, RESOURCE, VARIANT, argument_names, attr, input_types, output_types
from .placement import Placement
from .reasons import Reason
from .shapes import Shapes
from .view import Node, Ref, View

_INTEGERS = frozenset({INT32, 9, BOOL})
_RESIZES = frozenset({
    "Concat", "ConcatV2", "Pad", "PadV2", "MirrorPad", "Tile", "BroadcastTo", "Reshape", "StridedSlice", "Slice",
    "GatherV2", "Gather", "Pack", "ResourceGather",
})  # fmt: skip
_BY_SIZES = frozenset({"Sum", "Reshape", "BroadcastGradientArgs", "BroadcastTo"})
"""Ops of a gradient to which sizes are given, and not positions."""
_FRAME = frozenset({"Enter", "Merge", "Switch", "NextIteration", "LoopCond"})


class Left(Exception):
    """A loop that stays as it is."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


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
            node = _Loop(view, flow, placement, shapes, nodes, conditions[0]).convert()
            made += 1
            outer = flow.classes[node][0]
            if outer:
                frames[outer].append(node)
        except Left as why:
            for node in conditions:
                placement.reasons[node] = why.reason
    return made


@dataclass
class _Variable:
    """What a loop is given at an Enter, or reads from a variable of the program's.

    next: what an iteration leaves; None where it is the same in all of them.
    """

    enter: Node
    next: Ref | None = None
    exit: Node | None = None
    slot: Slot = field(default_factory=Slot)

    @property
    def given(self) -> Ref:
        return self.enter.inputs[0]

    @property
    def type(self) -> int:
        return int(attr(self.enter, "T" if self.enter.op == "Enter" else "dtype").type)


class _Loop:
    """One loop to be replaced. Nothing is changed before it is known that it can be."""

    def __init__(
        self, view: View, flow: Flow, placement: Placement, shapes: Shapes, nodes: list[Node], condition: Node
    ) -> None:
        self.view, self.flow, self.placement, self.shapes = view, flow, placement, shapes
        self.condition = condition
        self.consumers = view.consumers()
        self.variables: list[_Variable] = []
        self.at: dict[Ref, int] = {}
        """The number of the variable that a tensor in the frame is."""
        self.frame = nodes
        self.body = [n for n in nodes if n.op not in _FRAME and n.op not in FORWARDING and n.op != "NoOp"]

    def convert(self) -> Node:
        self._find_variables()
        self._check_body()
        self._find_reads()
        self.body = self._used()
        lists = Lists(self.body, self.resolve)
        for k, variable in enumerate(self.variables):
            if variable.type == VARIANT:
                slot = lists.slot(k, variable.enter, variable.next, variable.exit)
                if slot is None:
                    raise Left(Reason.LOOP_LIST)
                variable.slot = slot
            elif variable.type == RESOURCE and variable.next is None:
                variable.slot = Slot("unused")
            elif from_tf(variable.type) is None:
                raise Left(Reason.LOOP_EFFECT)
            else:
                variable.slot = Slot("same" if variable.next is None else "value")
                if variable.next is not None:
                    self._check_shape(variable)
        self._check_work()
        self._check_condition()
        self._check_arguments()
        self._fix(lists.positions)
        return self._replace(lists)

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

    def _find_variables(self) -> None:
        for node in self.frame:
            if node.op == "Enter":
                self.at[node, 0] = len(self.variables)
                self.variables.append(_Variable(node))
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

    def _check_body(self) -> None:
        for node in self.frame:
            if node.op == "Exit" or node.op == "_SwitchN":
                raise Left(Reason.LOOP_BRANCH)
            if node.name in self.view.preserved:
                raise Left(Reason.LOOP_BRANCH)

    def _find_reads(self) -> None:
        """Variables that the body reads are read before the loop: nothing in it assigns one."""
        for node in self.body:
            if node.op == "ReadVariableOp":
                source = self.resolve(node.inputs[0])[0]
                if source.op != "Enter" or self.variables[self.at[source, 0]].next is not None:
                    raise Left(Reason.LOOP_EFFECT)
                self.at[node, 0] = len(self.variables)
                self.variables.append(_Variable(node))
        self.body = [n for n in self.body if n.op != "ReadVariableOp"]

    def _used(self) -> list[Node]:
        """The nodes that the condition and what the iterations leave depend on, sources first. HPU must take them."""
        roots = [self.condition.inputs[0], *(v.next for v in self.variables if v.next is not None)]
        seen: dict[Node, None] = {}
        stack = [(self.resolve(ref)[0], False) for ref in reversed(roots)]
        while stack:
            node, done = stack.pop()
            if done:
                seen[node] = None
            elif node not in seen and (node, 0) not in self.at:
                stack.append((node, True))
                stack.extend((self.resolve(ref)[0], False) for ref in reversed(node.inputs))
        for node in self.body:
            row = self.placement.row(node)
            if row is not None and (row.updates or row.variables or row.stateful_random) or node.virtual:
                raise Left(Reason.LOOP_EFFECT)
            if node not in seen:
                if row is None and node.op != "Const" and not _pure(node):
                    raise Left(Reason.LOOP_EFFECT)
            elif node.op == "Const":
                if from_tf(output_types(node)[0]) is None or not cluster.readable(attr(node, "value").tensor):
                    raise Left(Reason.LOOP_OP)
            elif node.op not in LIST_READS and (row is None or node.device != self.condition.device):
                raise Left(Reason.LOOP_OP)
        return list(seen)

    def _check_shape(self, variable: _Variable) -> None:
        """What an iteration leaves must be of the shape of what it was given: a tensor may grow in a loop.

        Of what is computed from the elements of lists TensorFlow knows no shape; these have one (`loop_lists.py`).
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
        for n in self._sources(node):
            if (n, 0) in self.at:
                variable = self.variables[self.at[n, 0]]
                if variable.next is not None and variable.type not in _INTEGERS and variable.type != VARIANT:
                    return True
        return False

    def _sources(self, node: Node) -> set[Node]:
        """What a node is computed from."""
        seen: set[Node] = set()
        stack = [node]
        while stack:
            n = stack.pop()
            if n not in seen:
                seen.add(n)
                if (n, 0) not in self.at:
                    stack.extend(self.resolve(r)[0] for r in n.inputs)
        return seen

    def _from_elements(self, ref: Ref) -> bool:
        """Whether a tensor is computed from an element of a list whose shape is not known."""
        seen: set[Node] = set()
        stack = [self.resolve(ref)]
        while stack:
            node, output = stack.pop()
            if node.op in ("TensorListGetItem", "TensorListPopBack") and self.shapes.get((node, output)) is None:
                return True
            if node not in seen and (node, 0) not in self.at:
                seen.add(node)
                stack.extend(self.resolve(r) for r in node.inputs)
        return False

    # -- how often it runs ----------------------------------------------------------------------------------

    def _check_work(self) -> None:
        """A loop over nothing but a few integers is the host's."""
        for node in self.body:
            types = {*input_types(node), *output_types(node)} - {VARIANT}
            if node.op not in LIST_READS and not types <= _INTEGERS:
                return
        raise Left(Reason.TRIVIAL)

    def _check_condition(self) -> None:
        found = self._integers(self.condition.inputs[0])
        if found is None:
            raise Left(Reason.LOOP_BY_DATA)
        for k in found:
            self.variables[k].slot.fixed = True

    def _check_arguments(self) -> None:
        """What fixes a shape in the body must be the same in every iteration; but for the position of an element."""
        for node in self.body:
            row = self.placement.row(node)
            fixed = set(row.fixed) if row is not None else set()
            if fixed and self._is_element(node) and self._integers(node.inputs[1]) is not None:
                self._fix([node.inputs[1]])
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
                if self.variables[k].next is not None or self.variables[k].type not in _INTEGERS:
                    raise Left(Reason.LOOP_OP)
                found.add(k)
            elif sizes and node.op == "TensorListPopBack" and output_types(node)[1] in _INTEGERS:
                found.add(self.at[self.resolve(node.inputs[0])[0], 0])  # sizes that the forward loop has kept
            elif node.op not in cluster.SHAPE_ONLY and node.op != "TensorListLength":
                stack.extend(self.resolve(r) for r in node.inputs)
        return found

    def _fix(self, positions: list[Ref]) -> None:
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
                if variable.type not in _INTEGERS:
                    return None
                if k not in found:
                    found.add(k)
                    if variable.next is not None:
                        stack.append(self.resolve(variable.next))
            elif node.op == "TensorListPopBack" and output == 1 and output_types(node)[1] in _INTEGERS:
                found.add(self.at[self.resolve(node.inputs[0])[0], 0])
            elif node not in seen:
                seen.add(node)
                if not {*input_types(node), *output_types(node)} <= _INTEGERS:
                    return None
                stack.extend(self.resolve(r) for r in node.inputs)
        return found

    # -- what stands for it ---------------------------------------------------------------------------------

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
                given.append(variable.given if variable.type != VARIANT else lists.tensor(self.view, k, variable.given))
            if slot.kind == "set":
                given[-1] = lists.count(k)
                slot.fixed = True
        order = [k for fixed in (False, True) for k, ref in enumerate(given)
                 if ref is not None and self.variables[k].slot.fixed is fixed]  # fmt: skip
        results = [k for k, v in enumerate(self.variables) if v.next is not None and v.exit is not None
                   and self.consumers[v.exit]]  # fmt: skip
        form = Form([v.slot for v in self.variables], order, results)
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
        lists.sweep(self.view, [v.given[0] for v in self.variables if v.type == VARIANT])
        return node

    def _read(self, inside: Node, controls: list[Node], outside: tuple[int, int]) -> Node:
        """The read of a variable before the loop, for one in it."""
        handle = self.variables[self.at[self.resolve(inside.inputs[0])]].given
        node = self.view.add(f"{inside.name}/before", "ReadVariableOp", inside.device)
        node.proto.attr["dtype"].type = attr(inside, "dtype").type
        node.inputs, node.controls = [handle], list(controls)
        self.flow.classes[node] = outside
        self.placement.reasons[node] = None
        return node

    def _outside(self) -> tuple[int, int]:
        """The class of what stands for the loop."""
        for variable in self.variables:
            if variable.exit is not None:
                return self.flow.classes[variable.exit]
        raise Left(Reason.LOOP_EFFECT)

    def _behind(self, k: int, made: Ref, lists: Lists) -> None:
        """Gives a result to those who used the Exit of the variable."""
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
        writer = cluster.Writer("loop")
        text: dict[Ref, str] = {}
        for variable in self.variables:
            slot = variable.slot
            if slot.kind in ("push", "set", "unused"):
                continue
            tf_type = lists.element(self.at[variable.enter, 0]) if variable.type == VARIANT else variable.type
            text[variable.enter, 0] = writer.arg(cluster.Arg(_dtype(tf_type), False))
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
        writer.result(text[self.resolve(self.condition.inputs[0])], cluster.Arg(DType.BOOL, False))
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
                writer.result(text[ref], cluster.Arg(_dtype(kind), False))
        return writer.bytes()


def _name(condition: Node) -> str:
    """The name of what stands for a loop."""
    return f"{condition.name}/loop"


def _result_type(ref: Ref) -> int:
    node, output = ref
    if node.op == "TensorListSetItem":
        return int(attr(node, "element_dtype").type)
    return output_types(node)[output]


def _dtype(tf_type: int) -> DType:
    dtype = from_tf(tf_type)
    if dtype is None:
        raise Left(Reason.LOOP_OP)
    return dtype


def _pure(node: Node) -> bool:
    """Whether a node that nobody reads may go."""
    from .ops import facts

    known = facts(node.op)
    return known is not None and not known.stateful
