"""The whole pass: whatever the graph, the result is acyclic, stable, and computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensorflow.core.framework import graph_pb2

from habana_tf.tensorflow.graph import pipeline
from habana_tf.tensorflow.graph.view import View
from tests.effort import THOROUGH
from tests.tensorflow.graph.harness import Item, build, inferred, read, run, v1, variable

VARIABLES = ("v0", "v1", "v2")
FEED = {"x": np.array([1.0, -2.0], "f4"), "p": True, "q": False}
VALUES = {"v0": [0.5, 1.0], "v1": [2.0, -1.0], "v2": [3.0, 4.0]}


def optimized(graph: graph_pb2.GraphDef, item: Item) -> graph_pb2.GraphDef | None:
    out = pipeline.optimize(graph.SerializeToString(), item)
    return None if out is None else graph_pb2.GraphDef.FromString(out)


class Program:
    """A random program, built as TensorFlow would: accesses of one variable are ordered by control edges."""

    def __init__(self, steps: list[tuple[Any, ...]]) -> None:
        self.steps = steps
        self.cpu: set[str] = set()

    def build(self) -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        self.tests = [v1.placeholder(tf.bool, (), "p"), v1.placeholder(tf.bool, (), "q")]
        self.handles = [variable(name, (2,)) for name in VARIABLES]
        self.values: list[tf.Tensor] = [x]
        self.done: list[tf.Operation] = []
        self.written: list[list[tf.Operation]] = [[] for _ in VARIABLES]
        self.readers: list[list[tf.Operation]] = [[] for _ in VARIABLES]
        for k, (kind, a, b, wait, cpu) in enumerate(self.steps):
            before = [self.done[wait % len(self.done)]] if wait is not None and self.done else []
            self.name = f"n{k}"
            if cpu:
                self.cpu.add(self.name)
            with tf.control_dependencies(before):
                self.step(kind, a, b)
        with tf.control_dependencies(self.done[-3:]):
            last = tf.identity(self.values[-1], "last")
        with tf.control_dependencies([last.op, *self.done]):
            tf.no_op("all")

    def value(self, k: int) -> tf.Tensor:
        return self.values[k % len(self.values)]

    def step(self, kind: str, a: int, b: int) -> None:
        which = b % len(VARIABLES)
        if kind == "unary":
            made = (tf.nn.relu, tf.negative, tf.tanh, tf.identity)[b % 4](self.value(a), name=self.name)
        elif kind == "binary":
            made = (tf.add, tf.subtract, tf.multiply)[b % 3](self.value(a), self.value(b), name=self.name)
        elif kind == "select":
            made = self.cond(a, b)
        elif kind == "write":
            made = self.write(a, b)
        elif kind == "loop":
            made = self.loop(a, b)
        elif kind == "group":
            made = tf.no_op(self.name)
        elif kind == "constant":
            made = tf.constant([float(a % 3), 1.0], name=self.name)
        elif kind == "read":
            with tf.control_dependencies(self.written[which]):
                made = read(self.handles[which], self.name)
            self.readers[which].append(made.op)
        else:
            self.cpu.discard(self.name)  # it stays where its variable is
            with tf.control_dependencies(self.written[which] + self.readers[which]):
                handle = self.handles[which]
                if kind == "descend":
                    made = tf.raw_ops.ResourceApplyGradientDescent(
                        var=handle, alpha=0.5, delta=self.value(a), name=self.name
                    )
                else:
                    op = {"add": tf.raw_ops.AssignAddVariableOp, "sub": tf.raw_ops.AssignSubVariableOp,
                          "assign": tf.raw_ops.AssignVariableOp, "foreign": tf.raw_ops.AssignSubVariableOp,
                          }[kind]  # fmt: skip
                    if kind == "foreign":  # an update that no cluster can take
                        self.cpu.add(self.name)
                    made = op(resource=handle, value=self.value(a), name=self.name)
            self.written[which], self.readers[which] = [made], []
        if isinstance(made, tf.Tensor):
            self.values.append(made)
            made = made.op
        self.done.append(made)

    def cond(self, a: int, b: int) -> tf.Tensor:
        value, which = self.value(a), b % len(VARIABLES)
        with tf.control_dependencies(self.written[which]):
            pred = tf.identity(self.tests[b % 2], f"{self.name}_pred")

        def yes() -> tf.Tensor:
            return value * 2.0

        def no() -> tf.Tensor:
            return read(self.handles[which], f"{self.name}_read") if a % 2 else value + 1.0

        made = v1.cond(pred, yes, no, name=self.name)
        self.readers[which].append(made.op)
        return made

    def write(self, a: int, b: int) -> tf.Tensor:
        """A cond whose branches write a variable or leave it, as their own reads stand before or behind that."""
        value, which = self.value(a), b % len(VARIABLES)
        handle = self.handles[which]
        with tf.control_dependencies(self.written[which] + self.readers[which]):
            pred = tf.identity(self.tests[b % 2], f"{self.name}_pred")
        writes = (tf.raw_ops.AssignVariableOp, tf.raw_ops.AssignAddVariableOp, tf.raw_ops.AssignSubVariableOp)

        def branch(kind: int) -> tf.Tensor:
            if kind == 0:
                return value + 1.0
            out = new = read(handle, f"{self.name}_old") * value if kind % 2 else value
            for again in range(1 + kind // 4):
                with tf.control_dependencies([out]):
                    done = writes[(kind + again) % 3](resource=handle, value=new)
                with tf.control_dependencies([done]):
                    out = new = read(handle, f"{self.name}_new") if kind > 1 else tf.identity(value)
            return out

        made = v1.cond(pred, lambda: branch(a % 7), lambda: branch(a // 7 % 7), name=self.name)
        self.written[which], self.readers[which] = [made.op], []
        return made

    def loop(self, a: int, b: int) -> tf.Tensor:
        """A loop that starts with one value and reads another, and may update a variable."""
        start, value, which = self.value(a), self.value(b), b % len(VARIABLES)

        def body(i: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            waits = []
            if a % 3 == 0:
                handle = self.handles[which]
                waits = [tf.raw_ops.AssignAddVariableOp(resource=handle, value=y * 0.125, name=f"{self.name}_update")]
            with tf.control_dependencies(waits):
                return i + 1, tf.tanh(y * 0.5 + value)

        with tf.control_dependencies(self.written[which] + self.readers[which]):
            first = tf.identity(start, f"{self.name}_start")
        made = v1.while_loop(lambda i, y: i < 3, body, [0, first], name=self.name)[1]
        if a % 3 == 0:
            self.written[which], self.readers[which] = [made.op], []
        return made


KINDS = ["unary"] * 3 + ["binary"] * 4 + ["read"] * 3 + ["add", "sub", "assign", "descend", "foreign"] + [
    "select", "select", "write", "write", "loop", "group", "constant"]  # fmt: skip
STEP = st.tuples(
    st.sampled_from(KINDS),
    st.integers(0, 48),
    st.integers(0, 48),
    st.one_of(st.none(), st.integers(0, 40)),
    st.integers(0, 6).map(lambda k: k == 0),
)


def pruned(graph: graph_pb2.GraphDef, fetch: str) -> graph_pb2.GraphDef:
    """What TensorFlow leaves of a graph before the pass sees it, and the variables with their inputs."""
    keep = [fetch, "x", "p", "q", *VARIABLES]
    return v1.graph_util.extract_sub_graph(graph, keep)


@pytest.mark.part
@given(st.lists(STEP, min_size=3, max_size=25), st.booleans(), st.booleans())
@settings(max_examples=150 if THOROUGH else 50, deadline=None, suppress_health_check=list(HealthCheck))
def test_computes_the_same(steps: list[tuple[Any, ...]], function: bool, everything: bool) -> None:
    program = Program(steps)
    graph = build(program.build, cpu=program.cpu)
    fetch = "all" if everything else "last"
    graph = pruned(graph, fetch)
    # a function's effects are preserved by name, a session's graph has nothing but what it fetches
    effects = [n.name for n in graph.node if n.op.startswith(("Assign", "ReadVar", "ResourceApply"))]
    item = Item(preserve=effects if function else [], fetch=[fetch], shapes=inferred(graph))
    out = optimized(graph, item)
    if out is None:
        return
    assert {n.name for n in graph.node if n.name in item.preserve} <= {n.name for n in out.node}
    View(out).topological()
    assert optimized(out, item) is None
    expected = run(graph, [fetch], FEED, VALUES)
    got = run(out, [fetch], FEED, VALUES)
    if fetch == "last":
        np.testing.assert_allclose(got[0][0], expected[0][0], rtol=1e-6)
    for name in VARIABLES:
        np.testing.assert_allclose(got[1][name], expected[1][name], rtol=1e-6, err_msg=name)
