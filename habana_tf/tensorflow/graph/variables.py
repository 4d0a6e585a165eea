"""Splits each op that reads or updates variables into read, computation and assignment, so that HPU can compile it.

What: an op of the op table takes the values of its variables instead of their handles, and gives the new values. An
`AssignVariableOp` behind it, under the op's old name, assigns them; that only swaps the variable's buffer. A read
behind a write of the same step becomes the value written, and reads with no write before them become one; a write that
nothing reads before the next one goes (`variable_writes.py`). An op for
which HPU has no arithmetic is split in the same way and computes on the CPU (`cpu_updates.py`).

Why: an op that updates a variable in place cannot be in a recipe, and one outside cuts the step in pieces: Adam reads
every moment it has just written.

    v ─ AssignAdd(v, d) ··> ReadVariableOp(v) ─ mul
 -> v ─ ReadVariableOp ─ AssignAdd'(value, d) ─┬─ mul          (AssignAdd', mul: cluster)
    v ───────────────────────────────────────  └─ AssignVariableOp(v, .)

Order: a node that waited for an update by control waits for the assignment, which has the update's name. Candidates
without effect and reads need not wait, since nothing can observe when they run (a read takes its value by data): their
control edge from an update is dropped, and the first node behind them with an effect waits for the assignment in their
place (`postponed_controls.py`). So do nodes that take an update's results, which the computing half gives now.

Invariants: every path from an update to a node with an effect remains a path. An access sees the same writes as
before. A value is passed on only if it contains *all* writes of the variable that come before the reader; otherwise
the memory is read, at the place of the access. Within a loop or a branch an edge is dropped only if the node stays in
its class (`frames.py`) without it.
"""

from __future__ import annotations

from habana_tf.tensorflow.facts.opdefs import variable_type_of
from habana_tf.tensorflow.graph import cpu_updates
from habana_tf.tensorflow.graph.frames import ROOT, Flow
from habana_tf.tensorflow.graph.loop_updates import Loops
from habana_tf.tensorflow.graph.ops import argument_names, output_types
from habana_tf.tensorflow.graph.placement import Placement
from habana_tf.tensorflow.graph.postponed_controls import PendingControls
from habana_tf.tensorflow.graph.reasons import Reason
from habana_tf.tensorflow.graph.variable_handles import ASKS, PYTHON, Handles, VariableKey, accesses
from habana_tf.tensorflow.graph.variable_writes import VariableState, Write, Writes
from habana_tf.tensorflow.graph.view import Node, Ref, View, vanish
from habana_tf.tensorflow.lowering.row import Row

_Computed = tuple[Node, dict[int, Ref], list[Ref]]
"""What computes; what the variables hold afterwards, by input position; what stands for the outputs."""


def convert(view: View, flow: Flow, placement: Placement) -> int:
    """Rewrites the graph in one walk along `flow.order`; `flow.classes` learns of the nodes it makes.

    Returns how many ops it moved to the CPU.
    """
    taken = accesses(flow.order, placement)
    return _Walk(view, flow, placement, taken).run() if taken else 0


class _Walk:
    def __init__(self, view: View, flow: Flow, placement: Placement, accesses: dict[Node, Handles]) -> None:
        self.view, self.flow, self.placement, self.accesses = view, flow, placement, accesses
        self.pending = PendingControls(view, flow)
        self.writes = Writes()
        self.asides = 0
        self.instead: dict[Ref, Ref] = {}
        self.instead_control: dict[Node, Node] = {}
        self.assigns: set[Node] = set()
        self.preserved = {n for n in flow.order if n.name in view.preserved}
        self.managed: dict[Node, Row | None] = {n: row for n in accesses if (row := self._row(n)) is not None}
        self.managed.update((n, None) for n, taken in accesses.items() if self._runs_aside(n, taken))
        self.loops = Loops(view, flow)
        for node in self.loops.unordered([n for n, row in self.managed.items() if self._updates(n, row)]):
            if self.managed.pop(node) is not None:
                placement.refuse(node, Reason.ORDER)

    def _row(self, node: Node) -> Row | None:
        """The row of a candidate whose handles are all known, different, and variables of the row."""
        row = self.placement.row(node)
        if row is None:
            return None
        names = argument_names(node)
        taken = self.accesses[node]
        ours = {*row.variables, *row.updates}
        if None in taken.values() or len(set(taken.values())) < len(taken) or any(names[k] not in ours for k in taken):
            self.placement.refuse(node, Reason.ORDER)
            return None
        return row

    def _runs_aside(self, node: Node, taken: Handles) -> bool:
        """Whether an op that is no candidate is split too, and computes on the CPU (`cpu_updates.py`).

        Where its kernel can do so in one step, the op stays as it is: between a read and an assignment the updates of
        other threads would be lost."""
        if node.op in ("ReadVariableOp", "AssignVariableOp", *ASKS) or node in self.managed:
            return False
        if self.placement.reasons.get(node) is Reason.ORDER or cpu_updates.in_one_step(node, taken):
            return False
        return cpu_updates.possible(node, taken)

    def _updates(self, node: Node, row: Row | None) -> list[int]:
        """The positions of the variables that an op assigns, in the order of its new values."""
        taken = self.accesses[node]
        if row is None:
            return [] if cpu_updates.reads_only(node) else list(taken)
        names = argument_names(node)
        return [k for name in row.updates for k in taken if names[k] == name]

    def run(self) -> int:
        for node in self.flow.order:
            before = pending = 0
            for source in self.loops.ends.get(node, ()):  # behind a loop all its writes are done
                before |= self.writes.before[source]
            for source in node.sources():
                before |= self.writes.before.get(source, 0)  # a loop's back edge has none yet
                pending |= self.pending.of.get(source, 0)
            self.writes.before[node] = before
            if self.instead:
                node.inputs = [self.instead.get(ref, ref) for ref in node.inputs]
            if self.instead_control and node.controls:
                node.controls = list(dict.fromkeys(self.instead_control.get(c, c) for c in node.controls))
            taken = self.accesses.get(node)
            if taken is None:
                self._settle(node, pending)
            elif node.op == "ReadVariableOp":
                self._read(node, taken[0], pending)
            elif node in self.managed:
                self._compute(node, taken, self.managed[node], pending)
            else:
                self._other(node, taken)
                self.pending.attach(node, pending)
        unneeded = [n for n in self.writes.overwritten() if n.name not in self.view.fetched]
        vanish(self.view, {n: [*n.controls, n.inputs[1][0]] for n in unneeded})
        return self.asides

    def _settle(self, node: Node, pending: int) -> None:
        """A node that has nothing to do with variables waits, or, if it cannot be seen, owes."""
        if node.op in PYTHON:
            self.writes.unknown |= self.writes.mark(node)
        if (node.op == "NoOp" or self.placement.takes(node)) and node not in self.preserved:
            if any(c in self.assigns for c in node.controls):
                pending |= self._drop(node, self.assigns)
            self.pending.of[node] = pending
        else:
            self.pending.attach(node, pending)

    def _drop(self, node: Node, which: set[Node] | None) -> int:
        """Drops control inputs (those in `which`, or all) and returns them as a pending.

        Drops none if the node would leave its loop or branch.
        """
        dropped = [c for c in node.controls if which is None or c in which]
        kept = [c for c in node.controls if c not in dropped]
        cls = self.flow.classes[node]
        if cls != ROOT and not self.flow.holds(cls, node.inputs, kept):
            return 0
        node.controls = kept
        pending = 0
        for source in dropped:
            pending |= self.pending.bit(source)
        return pending

    # --- reads ---

    def _read(self, node: Node, key: VariableKey | None, pending: int) -> None:
        cls = self.flow.classes[node]
        if key is None:
            self.pending.attach(node, pending)
            return
        variable = self.writes.of(key)
        prior = self.writes.prior(node, variable)
        write = variable.latest(cls, prior)
        if prior and (write is None or write.value is None or prior & ~write.cover):
            self.writes.seen |= prior
            self.pending.attach(node, pending)  # it reads the memory, where it stands
        elif write is not None and write.value is not None:
            self._replace(node, write.value, write.node, pending)
        elif cls[0]:  # in a loop the control edges also order the iterations
            if cls in variable.reads and set(node.controls) <= set(variable.reads[cls].controls):
                self._replace(node, (variable.reads[cls], 0), variable.reads[cls], pending)
            else:
                self.pending.attach(node, pending)
                variable.reads.setdefault(cls, node)
        elif cls in variable.reads:
            self._replace(node, (variable.reads[cls], 0), variable.reads[cls], pending)
        elif node in self.preserved and (pending or node.controls):
            fresh = self._new_read(node, node.inputs[0], [])
            self._drop(fresh, None)
            variable.reads[cls] = fresh
            self._replace(node, (fresh, 0), fresh, pending)
        else:
            self.pending.of[node] = pending | self._drop(node, None)
            variable.reads[cls] = node

    def _replace(self, node: Node, value: Ref, control: Node, pending: int) -> None:
        """A read is not needed: `value` is its data, and who waited for it waits for `control`."""
        self.instead[node, 0] = value
        if node not in self.preserved:
            self._vanish(node, control, pending)
            return
        node.add_control(control)
        self._keep_pending(node, pending)
        self.pending.attach(node, pending)
        if node.name not in self.view.fetched:
            node.become_noop()

    def _keep_pending(self, node: Node, pending: int) -> None:
        """Those who take another tensor than this node's, now, still have to wait for what it waited for."""
        for source in node.controls:
            pending |= self.pending.bit(source)
        self.pending.of[node] = pending

    def _vanish(self, node: Node, control: Node, pending: int) -> None:
        """Removes a node; those behind it inherit what it waited for."""
        self.instead_control[node] = control
        self._keep_pending(node, pending)
        self.view.remove(node)

    def _new_read(self, near: Node, handle: Ref, controls: list[Node]) -> Node:
        dtype = variable_type_of(near.proto)
        read = self.view.add(f"{near.name}/read", "ReadVariableOp", near.device, [handle], dtype=dtype)
        read.controls = list(controls)
        self.flow.classes[read] = self.flow.classes[near]
        self.loops.hold(read)
        return read

    # --- ops of the table that take variables ---

    def _compute(self, node: Node, taken: Handles, row: Row | None, pending: int) -> None:
        """Splits an op into what computes, which goes into a cluster (without a row: to the CPU), and what assigns."""
        cls = self.flow.classes[node]
        handles = {k: node.inputs[k] for k in taken}
        names = argument_names(node)
        updates = self._updates(node, row)
        values: dict[int, Ref] = {}
        covers: dict[int, int] = {}
        for k, key in taken.items():
            assert key is not None
            values[k], covers[k] = self._value(node, self.writes.of(key), handles[k], k in updates, pending)
        inner, news, results = self._aside(node, values) if row is None else self._inside(node, values, updates)
        for at, ref in enumerate(results):
            self.instead[node, at] = ref
        if not updates:
            self._replace_reader(node, inner, pending)
            return
        bit = self.writes.mark(node)
        others = [self._assign(node, f"{node.name}/{names[k]}", handles[k], news[k]) for k in updates[1:]]
        node.become("AssignVariableOp", dtype=variable_type_of(node.proto))
        node.inputs = [handles[updates[0]], news[updates[0]]]
        for other in others:
            other.controls = list(node.controls)
            self.pending.attach(other, pending)
        self.pending.attach(node, pending)
        for other in others:
            node.add_control(other)
        if results:  # who took its data now takes another node's, and would leave the assignment behind
            self.pending.of[node] = self.pending.bit(node)
        for k in updates:
            key = taken[k]
            assert key is not None
            self.writes.of(key).add(Write(bit, node, cls, news[k], covers[k] | bit))
        self.assigns.add(node)

    def _inside(self, node: Node, values: dict[int, Ref], updates: list[int]) -> _Computed:
        """What computes in a cluster: it takes values, and gives the new ones before its results."""
        inputs = [values.get(k, ref) for k, ref in enumerate(node.inputs)]
        inner = self.view.add(f"{node.name}/compute", node.op, node.device, inputs, node.proto)
        inner.virtual = True
        self.placement.follow(node, inner)
        self.flow.classes[inner] = self.flow.classes[node]
        inner.controls = list(node.controls)
        self._drop(inner, None)
        self._drop(inner, self.assigns)
        news = {k: (inner, at) for at, k in enumerate(updates)}
        return inner, news, [(inner, len(updates) + at) for at in range(len(output_types(node)))]

    def _aside(self, node: Node, values: dict[int, Ref]) -> _Computed:
        """What computes on the CPU."""
        inner, news = cpu_updates.compute(self.view, self.flow, node, values)
        self.placement.follow(node, inner)
        self.placement.reasons[node] = None
        self.asides += 1
        return inner, news, [(inner, at) for at in range(len(output_types(node)))]

    def _replace_reader(self, node: Node, inner: Node, pending: int) -> None:
        """An op that only read its variables has no effect left."""
        if node in self.preserved:
            self._keep_pending(node, pending)
            self.pending.attach(node, pending)
            if node.name in self.view.fetched and len(output_types(node)) == 1:
                node.become("Identity", T=output_types(node)[0])
                node.inputs = [(inner, 0)]
            else:
                node.become_noop()
                node.add_control(inner)
            return
        self._vanish(node, inner, pending)

    def _value(self, node: Node, variable: VariableState, handle: Ref, updated: bool, pending: int) -> tuple[Ref, int]:
        """A variable's value as a node must see it, and the writes that are in it.

        An update takes the value of the last update even if no edge orders the two: each must happen.
        """
        cls = self.flow.classes[node]
        prior = self.writes.prior(node, variable)
        write = variable.latest(cls, -1 if updated else prior)
        if write is not None and write.value is not None and not prior & ~write.cover:
            if updated:
                node.add_control(write.node)
            return write.value, write.cover
        if not prior and write is None:
            if cls not in variable.reads:
                # in a loop its iteration is all it waits for
                controls = [] if self.loops.is_body(cls) else node.controls
                variable.reads[cls] = self._new_read(node, handle, controls)
                self._drop(variable.reads[cls], None if not cls[0] else self.assigns)
            return (variable.reads[cls], 0), 0
        self.writes.seen |= prior
        read = self._new_read(node, handle, node.controls)
        for source, _ in node.inputs:  # the order may lie in what the op is given
            if source is not handle[0]:
                read.add_control(source)
        if write is not None:
            read.add_control(write.node)
        self.pending.attach(read, pending)
        return (read, 0), prior | (write.cover if write is not None else 0)

    def _assign(self, near: Node, name: str, handle: Ref, value: Ref) -> Node:
        dtype = variable_type_of(near.proto)
        node = self.view.add(name, "AssignVariableOp", near.device, [handle, value], dtype=dtype)
        self.flow.classes[node] = self.flow.classes[near]
        return node

    # --- everything else that takes a handle ---

    def _other(self, node: Node, taken: Handles) -> None:
        if node.op in ASKS:
            return
        bit = self.writes.mark(node)
        cls = self.flow.classes[node]
        for key in taken.values():
            if key is None:
                self.writes.unknown |= bit
                continue
            variable = self.writes.of(key)
            if node.op == "AssignVariableOp":
                variable.add(Write(bit, node, cls, node.inputs[1], self.writes.prior(node, variable) | bit))
                if cls == ROOT:
                    self.assigns.add(node)
            else:
                self.writes.seen |= self.writes.prior(node, variable)
                variable.add(Write(bit, node, cls))
