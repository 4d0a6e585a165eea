"""Replaces conds with cheap, pure branches by selects: both branches are computed.

What: a lowered cond, Switch nodes in front and Merge nodes behind, whose branches hold only cheap ops is computed on
both sides, and each Merge becomes a SelectV2 on the predicate. A write of a small variable on one branch becomes a
write in any case, of the variable's present value if the other branch is taken.

Why: Keras puts two conds on the batch size behind every batch normalization ("keep the old moving mean if the batch is
empty"), one into every update of Nadam (for the product of momenta) and one into a learning rate with a warmup. A
launch cannot reach across a Merge, so each of them would split the training step in three.

Invariants: nothing with an effect or a possible error runs on the branch not taken. So every op on a branch must be
total (`TOTAL`, or elementwise on operands of equal shape), reads of variables included, unless the graph tests whether
the variable is initialized. Writes are taken only outside loops and inner conds, of variables with at most `SMALL`
elements, since each costs a copy per step, that the graph reads before, since a write may be the initialization. (A
write by another thread's step between that read and the write is lost, as for any assignment.) Both sides of a Merge
must have the same shape, known before the run, because SelectV2 broadcasts. Conds on the CPU are left alone. Inner
conds come first.

    batch_mean ─ Switch(p):1 ─ Identity ────────┐                 batch_mean ─ Identity ─┐
    handle ───── Switch(p):0 ─ ReadVariableOp ──┴ Merge    ->     handle ─ ReadVariableOp ┴ SelectV2(p, ., .)

    u ─ Switch(p):1 ─ AssignVariableOp(u, x)               ->     AssignVariableOp(u, SelectV2(p, x, ReadVariableOp(u)))
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from habana_tf.ir.dtypes import from_number
from habana_tf.tensorflow.graph.frames import Flow, analyse, predicate
from habana_tf.tensorflow.graph.ops import FORWARDING, RESOURCE, attr, device_type, input_types, output_types
from habana_tf.tensorflow.graph.shapes import Shapes
from habana_tf.tensorflow.graph.variable_handles import VariableKey, handle_key
from habana_tf.tensorflow.graph.view import Node, Ref, View, controls_past
from habana_tf.tensorflow.lowering.table import lookup

TOTAL = FORWARDING | frozenset({
    "Const", "NoOp", "ReadVariableOp", "Shape", "Size", "Rank", "ExpandDims",
})  # fmt: skip
"""Ops that succeed on every input their types allow, beside the elementwise ones."""

_PARTIAL = frozenset({"Div", "FloorDiv", "TruncateDiv", "FloorMod", "Mod", "TruncateMod", "Pow"})
"""Elementwise ops that fail on some integers."""

_WRITES = {"AssignVariableOp": None, "AssignAddVariableOp": "AddV2", "AssignSubVariableOp": "Sub"}
"""Ops that write a variable -> what they compute from its value and their own."""

SMALL = 1024
"""A variable that a branch may write has at most so many elements."""


def convert(view: View, flow: Flow, shapes: Shapes) -> Flow:
    """Rewrites the conds it can; returns the flow of the graph as it is then (the same object if nothing changed)."""
    if not flow.resolved:
        return flow
    conds: dict[Ref, _Cond] = {}
    for merge, (node, output, branch) in flow.resolved.items():
        conds.setdefault((node, output), _Cond((node, output))).merges[merge] = branch
    depth = dict.fromkeys(conds, 0)
    for node in flow.order:
        condition = flow.condition(node)
        for literal in condition:
            if (key := literal[:2]) in conds and literal[2] >= 0:
                conds[key].inside.append(node)
                depth[key] = max(depth[key], len(condition))
        if node.op == "Switch" and (key := predicate(node)) in conds:
            conds[key].switches.append(node)
    edit = _Edit(view, flow, shapes)
    changed = False
    for key in sorted(conds, key=lambda k: -depth[k]):  # the innermost are the deepest
        if edit.only_selects(conds[key]):
            edit.flatten(conds[key])
            changed = True
    return analyse(view) if changed else flow


@dataclass
class _Cond:
    """One cond: its predicate, the nodes on its branches, its Switches, and the Merges that end it.

    A Merge comes with the branch of its first input. Switches of inner conds are among `inside` only.
    """

    key: Ref
    inside: list[Node] = field(default_factory=list)
    switches: list[Node] = field(default_factory=list)
    merges: dict[Node, int] = field(default_factory=dict)


class _Edit:
    """Checks and rewrites conds of one graph, with its consumers kept up to date."""

    def __init__(self, view: View, flow: Flow, shapes: Shapes) -> None:
        self.view, self.flow, self.shapes = view, flow, shapes
        self.consumers = view.consumers()

    def only_selects(self, cond: _Cond) -> bool:
        """Whether a cond may be replaced by selects."""
        cond.inside = [n for n in cond.inside if n.alive]
        everything = {*cond.inside, *cond.switches, *cond.merges}
        if any(n.name in self.view.preserved for n in everything):
            return False
        switches = set(cond.switches)
        for node in cond.inside:
            if node not in switches and not self._harmless(node) and not self._writes(node):
                return False
        for node in (*cond.inside, *cond.switches):
            if any(c.op == "Merge" and c.alive and c not in cond.merges for c in self.consumers[node]):
                return False
        return all(self._selects(m) for m in cond.merges)

    def _harmless(self, node: Node) -> bool:
        if node.op == "ReadVariableOp" and self._asked & {None, handle_key(node.inputs[0])}:
            return False  # there may be nothing to read where the graph asks whether there is
        if node.op in TOTAL:
            return True
        row = lookup(node.op)
        if row is None or row.generic != "elementwise" or RESOURCE in input_types(node):
            return False
        dtypes = [from_number(t) for t in input_types(node)]
        if node.op in _PARTIAL and not all(d is not None and d.is_float for d in dtypes):
            return False
        if len(node.inputs) == 1:
            return True
        shapes = {s for ref in node.inputs if (s := self.shapes.get(ref)) != ()}
        return len(shapes) <= 1 and None not in shapes

    def _writes(self, node: Node) -> bool:
        """Whether a node writes a variable that may as well be written on every step."""
        if node.op not in _WRITES or device_type(node.device) != "HPU":
            return False
        if self.flow.classes[node][0] or len(self.flow.condition(node)) != 1:
            return False
        shape = self.shapes.variable(node.inputs[0])
        if shape is None or prod(shape) > SMALL or self.shapes.get(node.inputs[1]) != shape:
            return False
        return _selectable(attr(node, "dtype").type) and self._initialized(node)

    def _initialized(self, write: Node) -> bool:
        """Whether the graph takes it that a variable has a value when it gets to a write: it may be the first."""
        condition = self.flow.condition(write)
        for node in self._accesses.get(handle_key(write.inputs[0]), ()):
            if node is write:
                return write.op != "AssignVariableOp"
            if node.op != "AssignVariableOp" and self.flow.condition(node) <= condition:
                return True
        return False

    @cached_property
    def _asked(self) -> set[VariableKey | None]:
        """The variables of which the graph asks whether they have a value; None for one that is not known."""
        return {handle_key(n.inputs[0]) for n in self.flow.order if n.op == "VarIsInitializedOp"}

    @cached_property
    def _accesses(self) -> dict[VariableKey | None, list[Node]]:
        """Reads and writes of each variable, a node before those behind it; of none that is not known."""
        out: dict[VariableKey | None, list[Node]] = {}
        for node in self.flow.order:
            if node.op == "ReadVariableOp" or node.op in _WRITES:
                out.setdefault(handle_key(node.inputs[0]), []).append(node)
        out.pop(None, None)
        return out

    def _outputs_used(self, node: Node) -> set[int]:
        return {k for c in self.consumers[node] if c.alive for n, k in c.inputs if n is node}

    def _selects(self, merge: Node) -> bool:
        uses = self._outputs_used(merge)
        if not uses:
            return True
        if uses != {0} or device_type(merge.device) != "HPU":
            return False
        if not _selectable(output_types(merge)[0]):
            return False
        first, second = (self.shapes.get(ref) for ref in merge.inputs)
        return first is not None and first == second

    def flatten(self, cond: _Cond) -> None:
        """Lets both sides run, and selects where a Merge was."""
        # a control edge from one of these told which branch is taken, and nothing else
        pivots = {n for n in cond.switches if n.inputs[0] == n.inputs[1]}
        tells: set[Node] = set()
        for node in cond.inside:
            folded = node.op == "Const" and tells.issuperset(node.controls)  # by constant folding
            if folded or (node.op == "Identity" and node.inputs[0][0] in pivots):
                tells.add(node)
        edges, asked = _edges(cond, tells)
        telling = {m for m in cond.merges if not self._outputs_used(m)}
        written: dict[VariableKey | None, list[Node]] = {}
        for node, (inputs, waited) in edges.items():
            if node.op == "ReadVariableOp":  # what the predicate waited for may be a write of this variable
                waited.extend(n for n, _ in asked[node])
            self._connect(node, inputs, waited)
            if node.op in _WRITES:
                branch = next(side for *key, side in self.flow.condition(node) if tuple(key) == cond.key)
                earlier = written.setdefault(handle_key(inputs[0]), [])
                self._write_anyway(node, list(asked[node]), branch, earlier)
                earlier.append(node)
        for merge, branch in cond.merges.items():
            # two conds may have one predicate, behind Identity nodes that wait for different things
            pred, *others = asked[merge]
            self.shapes.know(pred, ())
            for other, _ in others:
                merge.add_control(other)
            if merge in telling:
                self._junction(merge, pred[0], tells)
            else:
                self._select(merge, pred, branch)
        self._sweep([*cond.switches, *cond.inside])

    def _connect(self, node: Node, inputs: list[Ref], controls: list[Node]) -> None:
        node.inputs, node.controls = inputs, controls
        for source in node.sources():
            self.consumers[source].append(node)

    def _select(self, merge: Node, pred: Ref, branch: int) -> None:
        yes, no = merge.inputs if branch == 1 else merge.inputs[::-1]
        merge.become("SelectV2", T=output_types(merge)[0])
        self._connect(merge, [pred, yes, no], merge.controls)
        self.shapes.know((merge, 0), self.shapes.get(yes))

    def _write_anyway(self, node: Node, asked: list[Ref], branch: int, earlier: list[Node]) -> None:
        """Lets a write of one branch happen in any case, of what the variable holds if the other branch is taken.

        What it holds is read where the write stands, behind all that this waits for. asked: the predicate, which may
        stand behind several Identity nodes. earlier: writes of the variable by either branch, one of which would be
        undone by what was read before it.
        """
        handle, given = node.inputs
        dtype = attr(node, "dtype").type
        shape = self.shapes.variable(handle)
        old = self._add(node, "old", "ReadVariableOp", [handle], dtype=dtype)
        for before in (given[0], *node.controls, *(n for n, _ in asked), *earlier):
            old.add_control(before)
            self.consumers[before].append(old)
        new = given
        if (computes := _WRITES[node.op]) is not None:
            new = self._add(node, "new", computes, [(old, 0), given], T=dtype), 0
            node.become("AssignVariableOp", dtype=dtype)
        sides = [new, (old, 0)] if branch == 1 else [(old, 0), new]
        select = self._add(node, "select", "SelectV2", [asked[0], *sides], T=dtype)
        for made in {(old, 0), new, (select, 0)}:
            self.shapes.know(made, shape)
        self._connect(node, [handle, (select, 0)], node.controls)

    def _add(self, near: Node, name: str, op: str, inputs: list[Ref], **types: int) -> Node:
        node = self.view.add(f"{near.name}/{name}", op, near.device, inputs, None, **types)
        self.consumers[node] = []
        self._connect(node, inputs, [])
        return node

    def _junction(self, merge: Node, pred: Node, tells: set[Node]) -> None:
        """A Merge that only tells "the cond is done" becomes a NoOp that waits for both sides and the predicate."""
        waiting = dict.fromkeys((pred, *(n for n, _ in merge.inputs if n not in tells), *merge.controls))
        merge.become("NoOp")
        self._connect(merge, [], list(waiting))

    def _sweep(self, nodes: list[Node]) -> None:
        """Removes nodes without uses, users first."""
        for node in reversed(nodes):
            if not node.alive or not (node.op in FORWARDING or node.op in ("Switch", "NoOp", "Const")):
                continue
            if not any(c.alive and node in c.sources() for c in self.consumers[node]):
                self.view.remove(node)


def _edges(
    cond: _Cond, tells: set[Node]
) -> tuple[dict[Node, tuple[list[Ref], list[Node]]], dict[Node, dict[Ref, None]]]:
    """The inputs and control inputs that the nodes of a cond have without its Switches, and the predicates (the same
    one, behind several Identity nodes) of the Switches before each. tells: nodes that only tell which branch is taken.
    """
    switches = set(cond.switches)
    through = {n: n.inputs[0] for n in cond.switches}

    def past(ref: Ref) -> Ref:
        while ref[0] in through:
            ref = through[ref[0]]
        return ref

    def waits(node: Node) -> list[Node]:
        return controls_past(node, lambda n: [s for s, _ in n.inputs] if n in tells else () if n in switches else None)

    edges: dict[Node, tuple[list[Ref], list[Node]]] = {}
    asked: dict[Node, dict[Ref, None]] = {}
    for node in (*cond.inside, *cond.merges):
        controls = dict.fromkeys(waits(node))
        asked[node] = {}
        for source, _ in node.inputs:
            if source in switches:
                controls.update(dict.fromkeys(waits(source)))
        for source in node.sources():
            asked[node].update(asked.get(source, {}))
            if source in switches:
                asked[node][past(source.inputs[1])] = None
        edges[node] = ([past(ref) for ref in node.inputs], list(controls))
    return edges, asked


def _selectable(tf_type: int) -> bool:
    """Whether HPU selects between tensors of a type."""
    row, dtype = lookup("SelectV2"), from_number(tf_type)
    return row is not None and dtype is not None and dtype in row.types.get("T", ())
