"""A loop being lowered: carried values, sliced and whole inputs, and stacked results, by variable."""

from __future__ import annotations

from dataclasses import dataclass, field

from habana_tf.ir.builder import Builder
from habana_tf.ir.primitives import Loop, Node, Op, Program, Rows

ResultKey = tuple[int, int]
"""(variable, 0), or of a list that is written at positions that are not known (variable, 1) for these."""


@dataclass
class Carried:
    """A value that an iteration leaves to the next one. first: when the loop begins, in the program around it."""

    first: Node
    inner: Node
    left: Node


@dataclass
class Draft:
    """carried: by variable. sliced: (tensor, its row in the body, which rows). wholes: (tensor, input of the body).
    stacked: (row in the body, which rows). kept: what of these is read behind the loop."""

    trips: int
    b: Builder
    carried: dict[int, Carried] = field(default_factory=dict)
    sliced: list[tuple[Node, Node, Rows]] = field(default_factory=list)
    wholes: list[tuple[Node, Node]] = field(default_factory=list)
    stacked: dict[ResultKey, tuple[Node, Rows]] = field(default_factory=dict)
    kept: set[ResultKey] = field(default_factory=set)

    def nodes(self) -> list[Node]:
        """All nodes of the body, sources first."""
        return Program(
            [], [*(c.left for c in self.carried.values()), *(row for row, _ in self.stacked.values())]
        ).nodes()

    def replace(self, new: dict[Node, Node]) -> None:
        """Puts other nodes in the place of some of the body."""
        made = dict(new)
        for n in self.nodes():
            if n not in made:
                src = [made.get(s, s) for s in n.src]
                same = all(a is b for a, b in zip(src, n.src, strict=True))
                made[n] = n if same else self.b.again(n, src)
        for value in self.carried.values():
            value.left = made.get(value.left, value.left)
        self.stacked = {key: (made.get(row, row), rows) for key, (row, rows) in self.stacked.items()}

    def prune(self, results: set[int]) -> None:
        """Drops what is carried or stacked and never read. results: the variables that are read behind the loop."""
        self.kept |= {(k, 0) for k in results}
        self.stacked = {key: made for key, made in self.stacked.items() if key in self.kept}
        live = {k for k in self.carried if (k, 0) in self.kept}
        while True:
            roots = [*(self.carried[k].left for k in sorted(live)), *(row for row, _ in self.stacked.values())]
            read = set(Program([], roots).nodes())
            more = {k for k, value in self.carried.items() if k in live or value.inner in read}
            if more == live:
                break
            live = more
        self.carried = {k: value for k, value in self.carried.items() if k in live}
        self.sliced = [x for x in self.sliced if x[1] in read]
        self.wholes = [x for x in self.wholes if x[1] in read]

    def build(self, b: Builder) -> dict[ResultKey, Node]:
        """The loop in the program around it: its outputs."""
        inputs = [c.inner for c in self.carried.values()]
        inputs += [*(inner for _, inner, _ in self.sliced), *(inner for _, inner in self.wholes)]
        outputs = [*(c.left for c in self.carried.values()), *(row for row, _ in self.stacked.values())]
        left = {n for n in self.nodes() if n.op is Op.INPUT} - set(inputs)
        assert not left, f"a loop reads {left}, which is none of its inputs"
        loop = Loop(
            self.trips, Program(inputs, outputs), len(self.carried), tuple(rows for _, _, rows in self.sliced),
            tuple(rows for _, rows in self.stacked.values()),
        )  # fmt: skip
        src = [*(c.first for c in self.carried.values()), *(x for x, _, _ in self.sliced), *(x for x, _ in self.wholes)]
        return dict(zip([*((k, 0) for k in self.carried), *self.stacked], b.loop(loop, src), strict=True))
