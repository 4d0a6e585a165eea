"""Random programs of nested control flow as data: which ops, on what, in which loops and conds.

They work on integers held in floats (and other types), kept small by clipping: sums and products are exact, results
must be equal, and no predicate depends on rounding.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

F32, F64, BF16, I32, I64, BOOL = tf.float32, tf.float64, tf.bfloat16, tf.int32, tf.int64, tf.bool


def clip(x: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(x, tf.cast(-4, x.dtype), tf.cast(4, x.dtype))


def _lookup(v: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
    return tf.gather(v, tf.math.floormod(i, 3))


OPS: list[tuple[str, str, str, Callable[..., tf.Tensor]]] = [
    ("add", "vv", "v", lambda a, b: clip(a + b)),
    ("sub", "vv", "v", lambda a, b: clip(a - b)),
    ("mul", "vv", "v", lambda a, b: clip(a * b)),
    ("relu", "v", "v", tf.nn.relu),
    ("max", "vv", "v", tf.maximum),
    ("scale", "vf", "v", lambda a, b: clip(a * b)),
    ("where", "cvv", "v", tf.where),
    ("pick", "bvv", "v", lambda p, a, b: tf.where(p, a, b)),
    ("rows", "m", "v", lambda m: clip(tf.reduce_sum(m, 0))),
    ("reverse", "v", "v", lambda v: v[::-1]),
    ("stack", "vv", "m", lambda a, b: tf.stack([a, b])),
    ("times", "mm", "m", lambda a, b: clip(tf.matmul(tf.matmul(a, b, transpose_b=True), b))),
    ("row", "mi", "v", lambda m, i: m[tf.math.floormod(i, 2)]),
    ("total", "v", "f", lambda v: clip(tf.reduce_sum(v))),
    ("sum", "u", "f", lambda u: clip(tf.reduce_sum(u))),
    ("halve", "f", "f", lambda f: tf.floor(f / 2)),
    ("element", "vi", "f", _lookup),
    ("head", "vi", "u", lambda v, i: v[: tf.math.floormod(i, 4)]),
    ("join", "uv", "u", lambda u, v: tf.concat([u, v], 0)[:5]),
    ("tail", "u", "u", lambda u: u[1:]),
    ("square", "u", "u", lambda u: clip(u * u)),
    ("narrow", "v", "h", lambda v: tf.cast(v, BF16)),
    ("half", "hh", "h", lambda a, b: clip(a + b)),
    ("wide", "h", "v", lambda h: tf.cast(h, F32)),
    ("double", "vd", "d", lambda v, d: clip(tf.cast(v, F64) - d)),
    ("single", "d", "v", lambda d: tf.cast(d, F32)),
    ("count", "i", "i", lambda i: tf.math.floormod(i + 1, 5)),
    ("plus", "ii", "i", lambda a, b: tf.math.floormod(a + b, 5)),
    ("size", "u", "i", tf.size),
    ("round", "f", "i", lambda f: tf.cast(f, I32)),
    ("float", "i", "f", lambda i: tf.cast(i, F32)),
    ("ints", "v", "j", lambda v: tf.cast(v, I32)),
    ("addi", "jj", "j", lambda a, b: clip(a + b)),
    ("most", "j", "i", lambda j: tf.math.floormod(tf.reduce_max(j), 5)),
    ("long", "j", "l", lambda j: tf.cast(j, I64)),
    ("addl", "ll", "l", lambda a, b: clip(a - b)),
    ("short", "l", "j", lambda x: tf.cast(x, I32)),
    ("positive", "f", "b", lambda f: f > 0),
    ("three", "v", "b", lambda v: tf.equal(tf.shape(v)[0], 3)),
    ("flat", "m", "b", lambda m: tf.shape(m)[0] > tf.shape(m)[1]),
    ("many", "u", "b", lambda u: tf.size(u) > 2),
    ("odd", "i", "b", lambda i: tf.equal(tf.math.floormod(i, 2), 1)),
    ("any", "c", "b", tf.reduce_any),
    ("not", "b", "b", tf.logical_not),
    ("both", "bb", "b", tf.logical_and),
    ("above", "vv", "c", lambda a, b: a > b),
    ("nota", "c", "c", tf.logical_not),
]  # fmt: skip
"""Name, kinds of the operands, kind of the result, meaning. All exact on the small integers a program works on."""


@dataclass
class Block:
    """Steps that see the values around them and add their own; `results` are indices among all of those."""

    steps: list[tuple[Any, ...]] = field(default_factory=list)
    results: list[int] = field(default_factory=list)


class Draw:
    """Draws a program. rng: `random.Random`, or hypothesis' own, which shrinks."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.length = rng, rng.randint(2, 6)
        self.inputs = list("vmfibdju")
        self.main = self._block(self.inputs, rng.choice([1, 2, 2, 3]), None)
        self.gradients = rng.random() < 0.4

    def _block(self, around: Sequence[str], depth: int, results: Sequence[str] | None) -> Block:
        """results: the kinds of the results wanted; None for all that the block computes."""
        kinds = list(around)
        block = Block()
        for _ in range(self.rng.randint(0 if results is not None else 2, self.length)):
            step, made = self._step(kinds, depth)
            if step is not None:
                block.steps.append(step)
                kinds.extend(made)
        block.results = (
            [self._one(kinds, kind, len(around)) for kind in results]
            if results is not None else list(range(len(around), len(kinds)))
        )  # fmt: skip
        return block

    def _one(self, kinds: Sequence[str], kind: str, new: int = 0) -> int:
        """The index of a value of a kind, mostly one of the latest; some of the block's own if it has any."""
        fitting = [k for k, other in enumerate(kinds) if other == kind]
        own = [k for k in fitting if k >= new]
        return self.rng.choice(own if own and self.rng.random() < 0.8 else fitting)

    def _some(self, kinds: Sequence[str], least: int) -> list[str]:
        there = sorted(set(kinds))
        return [self.rng.choice(there) for _ in range(self.rng.randint(least, 3))]

    def _step(self, kinds: list[str], depth: int) -> tuple[tuple[Any, ...] | None, list[str]]:
        rng = self.rng
        choice = rng.random()
        if depth and choice < 0.16:
            made = self._some(kinds, 0)
            sides = tuple(self._block(kinds, depth - 1, made) for _ in range(2))
            return ("cond", self._one(kinds, "b"), *sides), made
        if depth and choice < 0.2:
            made = self._some(kinds, 1)
            sides = tuple(self._block(kinds, depth - 1, made) for _ in range(rng.randint(1, 4)))
            return ("case", self._one(kinds, "i"), sides), made
        if depth and choice < 0.4:
            made = self._some(kinds, 0)
            starts = [self._one(kinds, kind) for kind in made]
            inside = [*kinds, "i", *made]  # behind the counter stand the loop variables
            test = self._block(inside, 0, ["b"]) if rng.random() < 0.4 else None
            body = self._block(inside, depth - 1, made)
            limit = self._one(kinds, "i") if rng.random() < 0.7 else None
            most = rng.choice([None, None, 2])
            return ("while", limit, starts, made, test, body, rng.choice([1, 10]), most), made
        if depth and choice < 0.47:
            kind = rng.choice([k for k in "vfihd" if k in kinds])
            body = self._block([*kinds, "i"], depth - 1, [kind])
            return ("list", self._one(kinds, "i"), kind, body), [kind, "i"]
        if depth and choice < 0.5:
            made = self._some(kinds, 1)
            return ("call", self._block(kinds, depth - 1, made), rng.random() < 0.5), made
        if choice < 0.56:
            return ("write", rng.choice(["assign_add", "assign_sub", "assign"]), self._one(kinds, "v")), []
        if choice < 0.6:
            return ("read",), ["v"]
        name, takes, gives, _ = rng.choice([op for op in OPS if set(op[1]) <= set(kinds)])
        return ("op", name, [self._one(kinds, kind) for kind in takes]), [gives]

    def __repr__(self) -> str:
        return f"gradients: {self.gradients}\n" + _text(self.main, len(self.inputs), 0)


def _text(block: Block, first: int, indent: int) -> str:
    """A block for people: one step a line, named by the values it makes."""
    lines = []
    for step in block.steps:
        shown = [s for s in step if not isinstance(s, Block | tuple)]
        lines.append("    " * indent + f"{shown}")
        for part in (p for s in step for p in (s if isinstance(s, tuple) else (s,)) if isinstance(p, Block)):
            lines.append(_text(part, first, indent + 1))
    return "\n".join([*lines, "    " * indent + f"-> {block.results}"])
