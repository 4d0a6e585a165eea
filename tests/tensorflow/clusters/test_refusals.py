"""What stock TensorFlow refuses is refused with its own words, whatever the op.

Random arguments for every op of the table: where TensorFlow's CPU kernel refuses them, HPU raises the same class with
the same text; in a function, whose shapes are unknown until it runs, the error names the op as the user did.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from tensorflow.core.framework import node_def_pb2

from habana_tf.tensorflow.clusters import refusals
from habana_tf.tensorflow.clusters.loop_form import LoopForm
from habana_tf.tensorflow.clusters.loops import LoopBody, LoopOp
from habana_tf.tensorflow.lowering.table import LOOP
from tests.child import on_hpu
from tests.effort import THOROUGH

STOCK_STOPS = frozenset(["AccumulateNV2", "MaxPool", "MaxPool3D", "Transpose", "ConjugateTranspose", "DenseBincount"])
"""Ops whose CPU kernel stops the whole process on arguments that HPU takes (a division by zero, a failed CHECK);
AccumulateNV2 becomes others before it runs."""

DRAWS = 5 if THOROUGH else 3

NOT_SHAPES = (
    "not in the list of allowed values", "GraphDef version", "Cannot assign a device", "Requested more than 0 entries",
    "params must be at least a vector", "specified for empty output", "segment ids must be < num_segments",
    "must be a matrix with 2 columns", "minval must be 0-D",
)  # fmt: skip
"""What TensorFlow refuses in tensors without elements, or by values read on a device, and nobody meets."""


def bare(error: Exception) -> str:
    """Without what eager execution and functions add, the same on both devices."""
    text = re.sub(r"\{\{function_node [^}]*\}\} ?|(?<=input)/_\d+", "", str(error))
    text = re.sub(r"\n\t \[\[cluster_\w+\]\]", "", text)
    return re.sub(r" ?\[Op:\w+\]( name: .*)?$", "", text).strip()


def _run(draw: Any, device: str, fill: int | None = None) -> Exception | None:
    """The error of an op on arguments, by eager execution. fill: in the place of values that fix no shape."""
    import numpy as np
    import tensorflow as tf
    from tensorflow.python.eager import context, execute
    from tensorflow.python.framework import op_def_registry

    from habana_tf.tensorflow.lowering.table import lookup

    op_def, row = op_def_registry.get(draw.op), lookup(draw.op)
    assert row is not None
    outputs = 0
    for arg in op_def.output_arg:
        count = draw.attrs.get(arg.number_attr) if arg.number_attr else None
        outputs += count or (len(draw.attrs[arg.type_list_attr]) if arg.type_list_attr else 1)
    with tf.device(device):
        kept, inputs = [], []
        for name, variable, array in draw.inputs:
            given = array if fill is None or name in row.fixed else np.full_like(array, fill)
            kept.append(tf.Variable(given) if variable else tf.constant(given))
            inputs.append(kept[-1].handle if variable else kept[-1])
        flat = [x for pair in draw.attrs.items() for x in pair]
        try:
            execute.quick_execute(draw.op, outputs, inputs, tuple(flat), context.context())
        except tf.errors.OpError as error:
            return error
    return None


@pytest.mark.part
@on_hpu
def test_every_op_refuses_in_the_words_of_tensorflow() -> None:
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry

    from habana_tf.tensorflow.clusters import refusals as words
    from habana_tf.tensorflow.lowering.table import rows
    from tests.tensorflow.lowering.arguments import draw

    compared, wrong = set(), []
    for op, row in rows().items():
        if op_def_registry.get(op) is None or op == "Const" or op in STOCK_STOPS | words.RANKS_FIRST | words.NOT_ASKED:
            continue
        for number in range(DRAWS):
            arguments = draw(row, number)
            stock = _run(arguments, "/CPU:0")
            if stock is None or isinstance(stock, tf.errors.NotFoundError) or any(t in str(stock) for t in NOT_SHAPES):
                continue
            if any(str(_run(arguments, "/CPU:0", fill)) != str(stock) for fill in (0, 1)):
                continue  # it is about values, which a launch does not look at (docs/ops.md)
            ours = _run(arguments, "/HPU:0")
            compared.add(op)
            alone = re.sub(r"\n\t \[\[\{\{node \w+\}\}\]\]$", "", bare(ours) if ours is not None else "")
            if type(ours) is not type(stock) or bare(stock) != alone:
                wrong.append(f"{arguments}\n  stock {type(stock)} {stock}\n  HPU   {type(ours)} {ours}")
    assert not wrong, "\n".join([f"{len(wrong)} differ", *wrong[:20]])
    assert len(compared) > 200, len(compared)


def _cases() -> dict[str, tuple[Any, list[list[int]]]]:
    """Bad calls, one per family of ops: a function of tensors, and the shapes that do not fit."""
    import tensorflow as tf

    raw = tf.raw_ops
    return {
        "add": (lambda x, y: x + y, [[2, 3], [2, 2]]),
        "select": (lambda x, y: tf.where(x > 0, x, y), [[2, 3], [2, 2]]),
        "clip": (lambda x, y: tf.clip_by_value(x, y, 1.0), [[2, 3], [4, 3]]),
        "add_n": (lambda x, y: tf.add_n([x, y]), [[2, 3], [2, 2]]),
        "matmul": (tf.matmul, [[2, 3], [2, 3]]),
        "batched": (lambda x, y: raw.BatchMatMulV2(x=x, y=y), [[2, 2, 3], [3, 3, 2]]),
        "einsum": (lambda x, y: tf.einsum("ij,jk->ik", x, y), [[2, 3], [2, 2]]),
        "attention": (lambda x, y: tf.einsum("bqhd,bkhd->bhqk", x, y), [[2, 3, 2, 4], [2, 3, 2, 5]]),
        "concat": (lambda x, y: tf.concat([x, y], 0), [[2, 3], [2, 2]]),
        "stack": (lambda x, y: tf.stack([x, y]), [[2, 3], [2, 2]]),
        "reshape": (lambda x: tf.reshape(x, [4, 2]) + 1, [[2, 3]]),
        "transpose": (lambda x: tf.transpose(x, [1, 0]), [[2, 3, 4]]),
        "reduce": (lambda x: tf.reduce_sum(x, 2), [[2, 3]]),
        "argmax": (lambda x: raw.ArgMax(input=x, dimension=5) + 1, [[2, 3]]),
        "cumsum": (lambda x: tf.cumsum(x, 3), [[2, 3]]),
        "slice": (lambda x: tf.slice(x, [0, 2], [2, 2]), [[2, 3]]),
        "strided": (lambda x: x[:, 5], [[2, 3]]),
        "split": (lambda x: tf.split(x, 2, 1)[0], [[2, 3]]),
        "tile": (lambda x: tf.tile(x, [2, 2]), [[3]]),
        "pad": (lambda x: tf.pad(x, [[1, 1]]), [[2, 3]]),
        "gather": (lambda x, y: tf.gather(x, tf.cast(y, tf.int64), batch_dims=1), [[2, 3], [3, 2]]),
        "segments": (lambda x: tf.math.unsorted_segment_sum(x, [0, 1], 2), [[3, 2]]),
        "top_k": (lambda x: tf.math.top_k(x, 5)[0], [[2, 3]]),
        "bias": (tf.nn.bias_add, [[2, 3], [4]]),
        "softmax": (lambda x, y: tf.nn.softmax_cross_entropy_with_logits(x, y), [[2, 3], [2, 4]]),
        "sparse": (
            lambda x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(x, tf.int64), y), [[3], [2, 4]]
        ),
        "conv": (lambda x, y: tf.nn.conv2d(x, y, 1, "SAME"), [[2, 4, 4, 3], [3, 3, 2, 4]]),
        "pool": (lambda x: tf.nn.max_pool2d(x, 2, 2, "SAME"), [[2, 3, 4]]),
        "batch norm": (
            lambda x, y: raw.FusedBatchNormV3(x=x, scale=y, offset=y, mean=y, variance=y, is_training=False)[0],
            [[2, 2, 2, 3], [4]],
        ),
        "resize": (lambda x: tf.raw_ops.ResizeBilinear(images=x, size=[0, 2]), [[1, 2, 2, 1]]),
        "random": (lambda x: x + tf.random.stateless_uniform(tf.shape(x)[:1] - 5, [1, 2]), [[2]]),
        "blocks": (lambda x: raw.SpaceToDepth(input=x, block_size=2), [[1, 3, 3, 1]]),
        "diagonal": (lambda x: tf.linalg.diag_part(x), [[3]]),
        "sequence": (lambda x: tf.reverse_sequence(x, [1, 2, 3], 1, 0), [[2, 4]]),
    }  # fmt: skip


@on_hpu
def test_a_function_refuses_in_the_words_of_tensorflow_and_names_the_op() -> None:
    import tensorflow as tf

    wrong = []
    for name, (fn, shapes) in _cases().items():
        said = {}
        for device in ("/CPU:0", "/HPU:0"):

            def call(*xs: Any, fn: Any = fn) -> Any:
                with tf.name_scope("mine"):
                    return fn(*[tf.exp(x) for x in xs]) * 2

            with tf.device(device):
                given = [tf.ones(shape) for shape in shapes]
                traced = tf.function(call, input_signature=[tf.TensorSpec(None)] * len(shapes))
                try:
                    traced(*given)
                except tf.errors.OpError as error:
                    said[device] = type(error), bare(error)
        (kind, text), (our_kind, ours) = said.get("/CPU:0", (None, "")), said.get("/HPU:0", (None, ""))
        same = text == ours or (_eagerly(fn, given) or text) in ours.splitlines()
        if kind is None or kind is not our_kind or not same or "{{node mine/" not in ours:
            wrong.append(f"{name}\n  stock {kind} {text}\n  HPU   {our_kind} {ours}")
    assert not wrong, "\n".join(wrong)


def _eagerly(fn: Any, given: list[Any]) -> str:
    """What the op says on the CPU outside functions, where it is not oneDNN's kernel, which has words of its own."""
    import tensorflow as tf

    try:
        with tf.device("/CPU:0"):
            fn(*given)
    except tf.errors.OpError as error:
        return bare(error)
    return ""


@on_hpu
def test_what_stops_the_process_under_stock_tensorflow_is_an_error() -> None:
    """Shapes of a wrong rank, on which TensorFlow's own kernels of convolutions fail a CHECK."""
    import tensorflow as tf

    for fn, shapes, text in (
        (lambda x, y: tf.nn.conv2d(x, y, 1, "SAME"), [[2, 3], [3, 3, 2, 4]], "Shape must be rank 4 but is rank 2"),
        (lambda x, y: tf.nn.conv3d(x, y, [1] * 5, "SAME"), [[], [3, 3, 3, 2, 4]], "Shape must be rank 5 but is rank 0"),
        (
            lambda x, y: tf.raw_ops.Conv2DBackpropInput(
                input_sizes=[2, 4, 4, 3], filter=x, out_backprop=y, strides=[1, 1, 1, 1], padding="SAME"
            ),
            [[2], [2, 4, 4, 4]], "Shape must be rank 4 but is rank 1",
        ),
        (lambda x, y: tf.tensor_scatter_nd_add(x, [[0]], y), [[3, 2], [1, 3]], "must match dimensions [1,2) of"),
    ):  # fmt: skip
        try:
            fn(*map(tf.ones, shapes))
        except tf.errors.InvalidArgumentError as error:
            assert text in str(error), error
        else:
            raise AssertionError("nothing was raised")


@on_hpu
def test_an_error_changes_nothing_for_the_user() -> None:
    """Neither the tape nor the device of the thread, nor what runs next."""
    import tensorflow as tf

    x = tf.Variable(tf.ones([2, 3]))
    with tf.GradientTape() as tape:
        try:
            x + tf.ones([2, 2])
            raise AssertionError("nothing was raised")
        except tf.errors.InvalidArgumentError as error:
            assert "Incompatible shapes: [2,3] vs. [2,2]" in str(error)
        y = tf.reduce_sum(x * x)
    assert y.device.endswith("HPU:0")
    assert tape.gradient(y, x).numpy().tolist() == [[2.0] * 3] * 2


@on_hpu
def test_a_refusal_of_bfloat16_has_words_where_the_cpu_has_no_such_kernel() -> None:
    import tensorflow as tf

    images = tf.cast(tf.ones([1, 3, 3, 1]), tf.bfloat16)
    try:
        tf.raw_ops.LRNGrad(input_grads=images[:, 1:], input_image=images, output_image=images)
    except tf.errors.InvalidArgumentError as error:
        assert "must be" in str(error) or "should" in str(error), error
    else:
        raise AssertionError("nothing was raised")


def test_of_a_loop_tensorflow_is_not_asked() -> None:
    """It has no such op, and would say so where another op of the cluster refuses."""
    body = LoopBody(LoopForm([], [], []), [], [])
    loop = LoopOp(0, LOOP, "while/loop", (), {}, {}, node_def_pb2.NodeDef(op=LOOP), body)
    assert refusals._shape_function(loop, [], []) == ""
