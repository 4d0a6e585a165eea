"""Runs a cluster as a function of TensorFlow's own ops on the CPU, where it cannot be lowered.

What: the cluster's ops in a function of TensorFlow's, placed on the CPU. An op that takes variables gets temporary ones
that hold the values.

Why: an op that TensorFlow takes and our lowering does not (a case that was not thought of, a defect of ours) must not
end a program. And where TensorFlow does not take it either, its own error is the one that says what is wrong.

Invariants: shapes are those TensorFlow gives, found in one run on zeros: all that fixes a shape is known by its value.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from habana_tf.cluster.cluster import Cluster, InvalidArguments, OtherWay
from habana_tf.tensorflow.clusters.op import TensorFlowOp
from habana_tf.tensorflow.facts import opdefs


def function(cluster: Cluster, shapes: Sequence[Sequence[int]], values: Sequence[Any | None]) -> OtherWay:
    """A cluster as TensorFlow runs it. values: of the inputs that fix shapes. Raises InvalidArguments."""
    import numpy as np
    import tensorflow as tf

    def run(arrays: Sequence[Any]) -> list[Any]:
        with tf.init_scope(), tf.device("/CPU:0"):
            return [t.numpy() for t in concrete(*(tf.constant(a) for a in arrays))]

    def fitting(a: Any, shape: Sequence[int], value: Any) -> Any:
        return np.zeros(shape, a.dtype.numpy) if value is None else np.asarray(value, a.dtype.numpy)

    try:
        try:
            concrete = _function(cluster, None)
        except ValueError:  # a shape function that needs to know ranks, and how many numbers an argument has
            pairs = zip(shapes, values, strict=True)
            concrete = _function(cluster, tuple((None,) * len(s) if v is None else tuple(s) for s, v in pairs))
        zeros = [fitting(a, s, v) for a, s, v in zip(cluster.inputs, shapes, values, strict=True)]
        results = run(zeros)
    except (tf.errors.OpError, ValueError) as why:
        raise InvalidArguments(getattr(why, "message", str(why))) from why
    kinds = [(a.dtype.number, list(r.shape)) for a, r in zip(cluster.results, results, strict=True)]
    return OtherWay(kinds, run)


@functools.lru_cache(maxsize=64)
def _function(cluster: Cluster, shapes: tuple[tuple[int | None, ...], ...] | None) -> Any:
    """A cluster as a function of TensorFlow's, for all shapes, or those of this form: it is the kernels that shall
    complain of one, as they would have where the program runs."""
    import tensorflow as tf

    def replay(*inputs: Any) -> list[Any]:
        with tf.device("/CPU:0"):
            return _replay(cluster, inputs)

    with tf.init_scope():
        known = shapes or (None,) * len(cluster.inputs)
        specs = [tf.TensorSpec(s, a.dtype.numpy) for s, a in zip(known, cluster.inputs, strict=True)]
        return tf.function(replay, autograph=False).get_concrete_function(*specs)


def _replay(cluster: Cluster, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a cluster, as ops of the graph at hand."""
    made: dict[tuple[int, int], Any] = {(-1, k): t for k, t in enumerate(inputs)}
    for node in cluster.nodes:
        assert isinstance(node, TensorFlowOp)
        for k, tensor in enumerate(_op(node, [made[ref] for ref in node.inputs])):
            made[node.index, k] = tensor
    return [made[ref] for ref in cluster.outputs]


def _op(node: TensorFlowOp, inputs: list[Any]) -> list[Any]:
    """One op; of one that updates variables the new values come first, as in a cluster."""
    import tensorflow as tf

    row = node.row
    handles: dict[str, Any] = {}
    before = []
    for name in (*row.variables, *row.updates) if row is not None else ():
        at = node.arg_slices[name].start
        dtype = node.variable_type()
        handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=inputs[at].shape, shared_name=opdefs.ANONYMOUS)
        before.append(tf.raw_ops.AssignVariableOp(resource=handle, value=inputs[at]))
        inputs[at] = handles[name] = handle
    attrs = {k: v for k, v in node.proto.attr.items() if not k.startswith("_")}
    types = opdefs.known(node.op).output_types(node.proto)
    with tf.control_dependencies(before):
        op = tf.compat.v1.get_default_graph().create_op(node.op, inputs, types, attrs=attrs)
    with tf.control_dependencies([op]):
        dtype = node.variable_type() if row is not None and row.updates else 0
        updated = [tf.raw_ops.ReadVariableOp(resource=handles[n], dtype=dtype) for n in (row.updates if row else ())]
    return [*updated, *op.outputs]
