"""Compares the lowering of an op on variables with stock TensorFlow on the CPU: new values and outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from harness import BACKENDS, BF16, F32, compare

from habana_tf.cluster.lower import lower
from habana_tf.tensorflow.clusters.cluster import parse
from habana_tf.tensorflow.clusters.writer import of_node
from habana_tf.tensorflow.lowering.table import lookup

HALF_UNIT = 2.0**-8


def lowered(
    op: str, variables: dict[str, Any], inputs: dict[str, Any], attrs: dict[str, Any], shaped: bool = True
) -> tuple[Any, list[Any]]:
    """The program of the op as a cluster of one, and the arrays in the order of the program's inputs.

    shaped=False hides the shapes from TensorFlow, which then cannot refuse the arguments on its own.
    """
    values = {**variables, **inputs}
    with tf.Graph().as_default() as graph:
        holders = {n: tf.compat.v1.placeholder(tf.resource if n in variables else a.dtype, None if n in variables
                                               or not shaped else a.shape) for n, a in values.items()}  # fmt: skip
        getattr(tf.raw_ops, op)(**holders, **attrs)
        (node,) = (o for o in graph.get_operations() if o.type == op)
    names = {h.name: n for n, h in holders.items()}
    cluster = parse(of_node(node.node_def.SerializeToString()))
    slots = [slot for _, slot in cluster.nodes[0].inputs]
    arrays = [values[names[node.inputs[slots.index(k)].name]] for k in range(len(slots))]
    fixed = cluster.fixed_inputs()
    known = [a if i in fixed else None for i, a in enumerate(arrays)]
    return lower(cluster, [a.shape for a in arrays], known), arrays


def run(op: str, variables: dict[str, Any], inputs: dict[str, Any], **attrs: Any) -> list[list[Any]]:
    """For each backend, the new values of the updated variables (in the order of the row) and the outputs."""
    program, arrays = lowered(op, variables, inputs, attrs)
    return [backend(program, arrays, []) for backend in BACKENDS]


def reference(op: str, variables: dict[str, Any], inputs: dict[str, Any], **attrs: Any) -> tuple[Any, list[Any]]:
    """Stock TensorFlow: the values of all variables afterwards by name, and the outputs."""
    with tf.device("/CPU:0"):
        made = {n: tf.Variable(a) for n, a in variables.items()}
        given = {n: tf.constant(a) for n, a in inputs.items()}
        call: Callable[..., Any] = getattr(tf.raw_ops, op)
        out = call(**{n: v.handle for n, v in made.items()}, **given, **attrs)
    outputs = [t.numpy() for t in tf.nest.flatten(out) if isinstance(t, tf.Tensor)]
    return {n: v.numpy() for n, v in made.items()}, outputs


def check(
    op: str, variables: dict[str, Any], inputs: dict[str, Any], rtol: float = 0, atol: float = 0, **attrs: Any
) -> None:
    """Asserts that every updated variable and every output is what TensorFlow makes of it."""
    row = lookup(op)
    assert row is not None
    after, outputs = reference(op, variables, inputs, **attrs)
    for name in set(variables) - set(row.updates):
        np.testing.assert_array_equal(after[name], variables[name])
    for got in run(op, variables, inputs, **attrs):
        wanted = [*(after[name] for name in row.updates), *outputs]
        assert len(got) == len(wanted)
        for g, w in zip(got, wanted, strict=True):
            compare(g, w, rtol, atol)


def check_rounded(op: str, variables: dict[str, Any], inputs: dict[str, Any], atol: float, **attrs: Any) -> None:
    """bfloat16 (of these float32 arrays) against stock TensorFlow in float32 on the same values: see `rounding`."""

    def narrow(arrays: dict[str, Any]) -> dict[str, Any]:
        return {n: a.astype(BF16) if a.dtype == F32 else a for n, a in arrays.items()}

    def wide(arrays: dict[str, Any]) -> dict[str, Any]:
        return {n: a.astype(F32) if a.dtype == BF16 else a for n, a in arrays.items()}

    variables, inputs = narrow(variables), narrow(inputs)
    after, _ = reference(op, wide(variables), wide(inputs), **attrs)
    for got in run(op, variables, inputs, **attrs):
        for value, (name, want) in zip(got, after.items(), strict=True):
            assert value.dtype == variables[name].dtype
            np.testing.assert_allclose(value.astype(F32), want, rtol=HALF_UNIT + 1e-5, atol=atol, err_msg=name)
