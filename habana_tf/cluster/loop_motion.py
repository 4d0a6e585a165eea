"""Moves products out of loops (loop-invariant code motion and batching over iterations).

    before the loop    a product that needs nothing an iteration leaves: x[t] @ w for all t is one product. And whatever
                       is the same in every iteration.
    behind it          a product that no later iteration needs: what is only stacked (dx[t] = dz[t] @ w), and sums over
                       all iterations (dw = dw + x[t] @ dz[t], one product whose sum goes over t too; in bf16 it is
                       rounded once, not in every iteration)

What stays is what an iteration needs of the one before. Elementwise work stays too: it joins the kernels that are
there. What a product behind the loop is made of is stacked, if it is not there as a tensor already.

In which order tensors have their rows is one `Rows` for all: that of the tensors the loop is given, so that none need
be turned round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from habana_tf.cluster.loop_draft import Draft, ResultKey
from habana_tf.ir.builder import Builder
from habana_tf.ir.primitives import Contraction, Node, Op, Program, Rows, Scan, postorder

_BEHIND = 1 << 20
"""Variables of the draft from here on are tensors that products behind the loop read."""
_SOURCES = frozenset({Op.INPUT, Op.CONST, Op.IOTA, Op.EXTENT})
_VIEWS = frozenset({Op.RESHAPE, Op.EXPAND, Op.PERMUTE, Op.SLICE, Op.PAD, Op.CONCAT})


def move(draft: Draft, b: Builder) -> dict[ResultKey, Node]:
    """The outputs of the loop, in the program around it."""
    if draft.trips < 2:
        return draft.build(b)
    steps = _AllSteps(draft, b)
    _before(draft, steps)
    behind = _Behind(draft, b, steps)
    behind.take_out()
    made = draft.build(b)
    return behind.put_back(made)


class _AllSteps:
    """Nodes of the body over all iterations at once, in the program around the loop: with an axis for them in front.

    known: of nodes of the body, (node around the loop, whether it has that axis).
    """

    def __init__(self, draft: Draft, b: Builder) -> None:
        self.trips, self.b = draft.trips, b
        whole = [rows for x, _, rows in draft.sliced if x.shape[0] == draft.trips]
        back = (draft.trips - 1, -1)
        self.rows: Rows = back if whole and all(rows == back for rows in whole) else (0, 1)
        self.known: dict[Node, tuple[Node, bool]] = {inner: (outer, False) for outer, inner in draft.wholes}
        for outer, inner, rows in draft.sliced:
            self.known[inner] = self.turned(outer, rows), True

    def turned(self, x: Node, rows: Rows) -> Node:
        """A tensor with its rows in the order of all."""
        if rows == self.rows and x.shape[0] == self.trips:
            return x
        first, last = rows[0], rows[0] + (self.trips - 1) * rows[1]
        begin, step = (first, rows[1]) if self.rows == (0, 1) else (last, -rows[1])
        zeros, ones = [0] * (x.rank - 1), [1] * (x.rank - 1)
        return self.b.slice(x, [begin, *zeros], [self.trips, *x.shape[1:]], [step, *ones])

    def can(self, node: Node, given: Collection[Node] = ()) -> bool:
        """Whether a node can be computed for all iterations. given: what is stacked for it."""
        varies: dict[Node, bool] = {}
        for n in _until(node, given):
            if n in given:
                varies[n] = True
            elif n.op in _SOURCES:
                if n.op is Op.INPUT and n not in self.known:
                    return False
                varies[n] = n in self.known and self.known[n][1]
            else:
                varies[n] = any(varies[s] for s in n.src)
                same = {Op.GATHER: n.src[:1], Op.PAD: n.src[1:2]}.get(n.op, ())  # in all iterations
                if varies[n] and (n.op not in _LIFTS or any(varies[s] for s in same)):
                    return False
        return True

    def make(self, node: Node) -> Node:
        """A node that can be, with the axis in front."""
        for n in _until(node, self.known):
            if n not in self.known:
                src = [self.known[s] for s in n.src]
                if any(varies for _, varies in src):
                    self.known[n] = self._lifted(n, src), True
                else:
                    self.known[n] = self.b.again(n, [s for s, _ in src]), False
        return self._with_axis(*self.known[node])

    def _with_axis(self, x: Node, varies: bool) -> Node:
        return x if varies else self.b.expand(self.b.reshape(x, (1, *x.shape)), (self.trips, *x.shape))

    def _lifted(self, n: Node, src: list[tuple[Node, bool]]) -> Node:
        shape = (self.trips, *n.shape)
        if n.op is Op.CONTRACT:
            return self.product(n, src, summed=False)
        if n.op is Op.GATHER:
            nodes = [src[0][0], *(self._with_axis(*s) for s in src[1:])]
        elif n.op is Op.PAD:
            nodes = [self._with_axis(*src[0]), src[1][0]]
        else:
            nodes = [self._with_axis(*s) for s in src]
        if n.op is Op.RESHAPE:
            return self.b.reshape(nodes[0], shape)
        return self.b._node(n.op, nodes, shape, n.dtype, _LIFTS[n.op](n.arg))

    def product(self, n: Node, src: list[tuple[Node, bool]], summed: bool) -> Node:
        """A product for all iterations, or the sum of those."""
        spec: Contraction = n.arg
        t = max((*spec.a, *spec.b, -1)) + 1
        (a, first), (c, second) = src
        mine = (t, *spec.a) if first else spec.a, (t, *spec.b) if second else spec.b
        out = spec.out if summed else (t, *spec.out)
        return self.b.contract(a, c, Contraction(*mine, out, spec.accumulator, spec.largest), n.dtype)


def _same(arg: object) -> object:
    return arg


_LIFTS: dict[Op, Callable[..., object]] = {
    Op.MAP: _same,
    Op.CONTRACT: _same,
    Op.GATHER: _same,
    Op.RESHAPE: _same,
    Op.EXPAND: _same,
    Op.PERMUTE: lambda arg: (0, *(axis + 1 for axis in arg)),
    Op.SLICE: lambda arg: ((0, *arg[0]), (1, *arg[1])),
    Op.PAD: lambda arg: tuple((0, *sizes) for sizes in arg),
    Op.CONCAT: lambda axis: axis + 1,
    Op.REDUCE: lambda arg: (arg[0], tuple(axis + 1 for axis in arg[1])),
    Op.SORT: lambda arg: replace(arg, axis=arg.axis + 1),
    Op.SCAN: lambda arg: Scan(arg.kind, arg.axis + 1, arg.exclusive, arg.reverse),
}
"""What becomes of the argument of a node with an axis more in front."""


def _until(node: Node, given: Collection[Node]) -> list[Node]:
    """A node and what it is made of, sources first, no further than what is given."""
    return postorder([node], lambda n: () if n in given else n.src[::-1])


def _before(draft: Draft, steps: _AllSteps) -> None:
    """Products that need nothing that an iteration leaves, and what is the same in all iterations."""
    states = {value.inner for value in draft.carried.values()}
    depends: set[Node] = set()
    varies: set[Node] = {inner for _, inner, _ in draft.sliced}
    nodes = draft.nodes()
    for n in nodes:
        if n in states or any(s in depends for s in n.src):
            depends.add(n)
        if n in depends or any(s in varies for s in n.src):
            varies.add(n)
    new: dict[Node, Node] = {}
    roots = {value.left for value in draft.carried.values()} | {row for row, _ in draft.stacked.values()}
    used = {s for n in nodes if n in varies for s in n.src} | roots
    for n in nodes:
        if n.op in _SOURCES or n in depends or not steps.can(n):
            continue
        if n.op is Op.CONTRACT and n in varies:
            row = draft.b.input(n.shape, n.dtype)
            draft.sliced.append((steps.make(n), row, steps.rows))
            steps.known[row] = draft.sliced[-1][0], True
            new[n] = row
        elif n not in varies and n in used and n.op not in _VIEWS and not _scalar(n):
            steps.make(n)
            same = draft.b.input(n.shape, n.dtype)
            draft.wholes.append((steps.known[n][0], same))
            steps.known[same] = steps.known[n]
            new[n] = same
    draft.replace(new)
    draft.prune(set())


def _scalar(n: Node) -> bool:
    return isinstance(n.numel, int) and n.numel <= 1


class _Behind:
    """Products that no later iteration needs."""

    def __init__(self, draft: Draft, b: Builder, steps: _AllSteps) -> None:
        self.draft, self.b, self.steps = draft, b, steps
        self.rows: dict[ResultKey, tuple[Node, Rows]] = {}
        self.sums: dict[ResultKey, tuple[Node, Node]] = {}
        self.boundary: dict[Node, ResultKey] = {}

    def take_out(self) -> None:
        """Takes them out of the body."""
        draft = self.draft
        sums = {k: f for k in draft.carried if (f := self._added(k)) is not None}
        needed = [v.left for k, v in draft.carried.items() if k not in sums]
        core = set(Program([], needed).nodes())
        for key, (row, rows) in list(draft.stacked.items()):
            late = [n for n in _until(row, core) if n.op is Op.CONTRACT and n not in core]
            if (late or self._free(row, core)) and self._cut(row, core):
                self.rows[key] = row, rows
                del draft.stacked[key]
        for k, added in sums.items():
            if added.op is Op.CONTRACT and all(self._varies(s) for s in added.src):
                cut = self._cut(added.src[0], core) and self._cut(added.src[1], core)
            else:
                cut = added.op is Op.REDUCE and added.arg[0] == "sum" and self._cut(added, core)
            if cut:
                self.sums[k, 0] = draft.carried[k].first, added
                del draft.carried[k]
        draft.prune(set())

    def _free(self, row: Node, core: Collection[Node]) -> bool:
        """Whether a row follows from what the loop is given, and no iteration computes it for its own sake."""
        states = {v.inner for v in self.draft.carried.values()}
        made = Program([], [row]).nodes()
        return not any(n in states for n in made) and not any(n.op is Op.MAP and n in core for n in made)

    def _added(self, k: int) -> Node | None:
        """What an iteration adds to a value that is a sum and nothing else."""
        value = self.draft.carried[k]
        left = _widened(value.left)
        if left.op is not Op.MAP or left.arg != "add" or not left.dtype.is_float:
            return None
        terms = [_widened(s) for s in left.src]
        if value.inner not in terms:
            return None
        others = [v.left for j, v in self.draft.carried.items() if j != k]
        others += [row for row, _ in self.draft.stacked.values()]
        (added,) = [s for s in terms if s is not value.inner] or [value.inner]
        if added.dtype is not value.inner.dtype:
            return None
        return None if value.inner in Program([], [*others, added]).nodes() else added

    def _varies(self, node: Node) -> bool:
        """Whether a node is another one in each iteration."""
        sliced = {inner for _, inner, _ in self.draft.sliced}
        states = {v.inner for v in self.draft.carried.values()}
        return any(n in sliced or n in states for n in Program([], [node]).nodes())

    def _cut(self, node: Node, core: Collection[Node]) -> bool:
        """Whether a node can be computed behind the loop. What it needs of the body is stacked."""
        states = {v.inner for v in self.draft.carried.values()}
        depends: set[Node] = set()
        for n in Program([], [node]).nodes():
            if n in states or any(s in depends for s in n.src):
                depends.add(n)
        edge = {n for n in _until(node, [n for n in core if n in depends]) if n in core and n in depends}
        if not self.steps.can(node, edge):
            return False
        for n in [n for n in _until(node, edge) if n in edge]:
            if n not in self.boundary:
                key = next((key for key, made in self.draft.stacked.items() if made == (n, self.steps.rows)), None)
                self.boundary[n] = key or (_BEHIND + len(self.boundary), 0)
                self.draft.stacked[self.boundary[n]] = n, self.steps.rows
                self.draft.kept.add(self.boundary[n])
        return True

    def put_back(self, made: dict[ResultKey, Node]) -> dict[ResultKey, Node]:
        """All outputs. made: those of the loop that is left."""
        for n, key in self.boundary.items():
            self.steps.known[n] = made[key], True
        out = dict(made)
        for key, (row, rows) in self.rows.items():
            x = self.steps.make(row)
            out[key] = x if rows == self.steps.rows else self.b.reverse(x, (0,))
        for key, (first, added) in self.sums.items():
            if added.op is Op.CONTRACT:
                src = [(self.steps.make(s), True) for s in added.src]
                total = self.steps.product(added, src, summed=True)
            else:
                axes = (0, *(axis + 1 for axis in added.arg[1]))
                total = self.b.reduce("sum", self.steps.make(added.src[0]), axes)
            wide = first.dtype.accumulator
            added_up = self.b.map("add", self.b.cast(first, wide), self.b.cast(total, wide))
            out[key] = self.b.cast(added_up, first.dtype)
        return out


def _widened(n: Node) -> Node:
    """A float as it was before it was only made wider, or rounded, by a cast."""
    cast = n.op is Op.MAP and n.arg == "cast" and n.dtype.is_float and n.src[0].dtype.is_float
    return n.src[0] if cast else n
