"""Any graph under any lists, against TensorFlow on the CPU with the casts written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.core.framework import graph_pb2

from tests.tensorflow.graph.bf16_graphs import BF16, F32, FEED, X, config, converted, x
from tests.tensorflow.graph.harness import build, run

UNARY: dict[str, Callable[..., tf.Tensor]] = {
    "Relu": tf.nn.relu, "Tanh": tf.tanh, "Neg": tf.negative, "Square": tf.square,
}  # fmt: skip
BINARY: dict[str, Callable[..., tf.Tensor]] = {"AddV2": tf.add, "Mul": tf.multiply, "Maximum": tf.maximum}
OPS = [*UNARY, *BINARY]
STEP = st.tuples(st.sampled_from(OPS), st.integers(0, 30), st.integers(0, 30))
LIST = st.lists(st.sampled_from(OPS), max_size=3, unique=True)
NAMES = st.lists(st.integers(0, 12), max_size=2)


def expected_bf16(steps: list[tuple[str, int, int]], cfg: dict[str, Any]) -> set[int]:
    """Which steps are bf16, by trying the lists' definitions until nothing changes."""
    keep = {pair[0] for pair in cfg["non_convertible_exceptions"]}
    force = {pair[0] for pair in cfg["convertible_exceptions"]}
    sources = [[a % (k + 1), b % (k + 1)] if op in BINARY else [a % (k + 1)] for k, (op, a, b) in enumerate(steps)]
    out: set[int] = set()
    while True:
        before = set(out)
        for k, (op, _, _) in enumerate(steps):
            mine = [s - 1 in out for s in sources[k]]  # value 0 is the placeholder, value k + 1 is step k
            users = [u in out for u in range(len(steps)) if k + 1 in sources[u]]
            if f"n{k}" in keep:
                continue
            if (
                op in cfg["allowlist"]
                or f"n{k}" in force
                or (op in cfg["conditional_list"] and any(mine + users))
                or (op in cfg["strict_conditional_list"] and all(mine))
            ):
                out.add(k)
        if out == before:
            return out


@given(st.lists(STEP, min_size=1, max_size=12), LIST, LIST, LIST, NAMES, NAMES, st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_any_graph_under_any_lists(
    steps: list[tuple[str, int, int]], allow: list[str], conditional: list[str], strict: list[str], keep: list[int],
    force: list[int], shuffle: Any,
) -> None:  # fmt: skip
    cfg = {
        "allowlist": allow, "conditional_list": conditional, "strict_conditional_list": strict,
        "non_convertible_exceptions": [[f"n{k}", ""] for k in keep],
        "convertible_exceptions": [[f"n{k}", steps[k][0] if k < len(steps) else ""] for k in force],
    }  # fmt: skip

    def make() -> None:
        values = [x()]
        for k, (op, a, b) in enumerate(steps):
            args = [values[a % len(values)], values[b % len(values)]] if op in BINARY else [values[a % len(values)]]
            values.append((BINARY | UNARY)[op](*args, name=f"n{k}"))

    graph = build(make)
    out, done = converted(graph, config(**cfg))
    inside = expected_bf16(steps, cfg)
    assert {f"n{k}" for k in inside} == {n for (n, _), why in done.verdicts.items() if why.converted}

    with tf.device("/CPU:0"):
        values = [tf.constant(X)]
        for k, (op, a, b) in enumerate(steps):
            args = [values[i % len(values)] for i in ((a, b) if op in BINARY else (a,))]
            values.append((BINARY | UNARY)[op](*[tf.cast(v, BF16 if k in inside else F32) for v in args]))
    for n in out.node:
        if n.op == "Cast":  # no detour between two bf16 ops
            source = next(m for m in out.node if m.name == n.input[0])
            assert source.op != "Cast"
    # what leaves the graph is float32: fetch each step through an fp32 op of its own
    for k in range(len(steps)):
        fetch = out.node.add(name=f"f{k}", op="Cast", input=[f"n{k}"])
        fetch.attr["SrcT"].type = (BF16 if k in inside else F32).as_datatype_enum
        fetch.attr["DstT"].type = F32.as_datatype_enum
    got, _ = run(out, [f"f{k}" for k in range(len(steps))], FEED)
    for have, want in zip(got, values[1:], strict=True):
        np.testing.assert_array_equal(have, tf.cast(want, F32).numpy())

    # once more changes nothing, and the order of the nodes in the graph does not matter
    _, second = converted(out, config(**cfg))
    assert second.casts == 0 and not any(why.converted for (n, _), why in second.verdicts.items() if n[0] == "n")
    mixed = graph_pb2.GraphDef()
    nodes = list(graph.node)
    shuffle.shuffle(nodes)
    mixed.node.extend(nodes)
    a, b = converted(graph, config(**cfg))[0], converted(mixed, config(**cfg))[0]
    assert sorted(map(str, a.node)) == sorted(map(str, b.node))
