"""Every op that a Keras training step of a small convolutional network puts into its graph has a row.

Traced under stock TensorFlow with whichever Keras is installed (2.15 or 3), for each optimizer it has. Left out:
what moves data in, calls and control flow, which the graph pass deals with, and bookkeeping that stays on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from habana_tf.ir.dtypes import DType, from_number
from habana_tf.tensorflow.lowering.table import rows
from tests.versions import KERAS_3

NOT_COMPUTED = {
    "Placeholder", "NoOp", "Identity", "IdentityN", "Const", "ReadVariableOp", "AssignVariableOp", "VarIsInitializedOp",
    "PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While", "StatelessWhile", "Switch", "Merge",
    "IteratorGetNext", "OptionalHasValue", "OptionalGetValue", "IteratorGetNextAsOptional", "Assert", "StringFormat",
    "_Arg", "_Retval", "OptionalFromValue", "OptionalNone",
}  # fmt: skip
"""Identity, Const and the reads and final assigns of variables are the cluster's own edges."""


def network(dtype: str) -> Any:
    k = tf.keras
    k.mixed_precision.set_global_policy(dtype)
    try:
        return k.Sequential(
            [
                k.Input((28, 28, 1)), k.layers.Conv2D(8, 3, activation="relu"), k.layers.BatchNormalization(),
                k.layers.MaxPooling2D(), k.layers.Dropout(0.25), k.layers.Conv2D(8, 3, strides=2, padding="same"),
                k.layers.ReLU(), k.layers.GlobalAveragePooling2D(), k.layers.Dense(16, activation="gelu"),
                k.layers.Dense(10, dtype="float32"),
            ]
        )  # fmt: skip
    finally:
        k.mixed_precision.set_global_policy("float32")


def functions_of(graph_def: Any) -> list[Any]:
    """The NodeDefs of a graph and of every function in its library."""
    return [*graph_def.node, *(n for f in graph_def.library.function for n in f.node_def)]


def missing(nodes: list[Any]) -> set[str]:
    """Ops without a row, and ops whose row does not take the element type used."""
    out = set()
    for n in nodes:
        row = rows().get(n.op)
        if n.op in NOT_COMPUTED:
            continue
        if row is None:
            out.add(n.op)
            continue
        for name, allowed in row.types.items():
            if n.attr[name].type and from_number(n.attr[name].type) not in allowed:
                out.add(f"{n.op}({name}={tf.as_dtype(n.attr[name].type).name})")
    return out


def step_graph(optimizer: Any, dtype: str, evaluate: bool = False) -> Any:
    """The graph of one training (or test) step, gradients, update and metrics included."""
    model = network(dtype)
    model.compile(
        optimizer=optimizer, loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"],
        **({"jit_compile": False} if KERAS_3 else {}),
    )  # fmt: skip
    x, y = tf.TensorSpec((None, 28, 28, 1)), tf.TensorSpec((None,), tf.int64)
    if KERAS_3:  # metrics and slots are made by fit, outside the step
        model.optimizer.build(model.trainable_variables)
        model._symbolic_build(data_batch=(np.zeros((2, 28, 28, 1), np.float32), np.zeros(2, np.int64)))
    step = model.test_step if evaluate else model.train_step
    concrete = tf.function(lambda a, b: step((a, b))).get_concrete_function(x, y)
    return concrete.graph.as_graph_def()


def optimizers() -> dict[str, Any]:
    k = tf.keras.optimizers
    made = {
        "SGD": lambda: k.SGD(0.1), "momentum": lambda: k.SGD(0.1, momentum=0.9),
        "nesterov": lambda: k.SGD(0.1, momentum=0.9, nesterov=True), "RMSprop": lambda: k.RMSprop(0.01, momentum=0.9),
        "centered": lambda: k.RMSprop(0.01, centered=True), "Adam": lambda: k.Adam(),
        "amsgrad": lambda: k.Adam(amsgrad=True), "AdamW": lambda: k.AdamW(0.01),
        "clipped": lambda: k.Adam(clipnorm=1.0),
        "global norm": lambda: k.Adam(global_clipnorm=1.0),
        "schedule": lambda: k.SGD(k.schedules.CosineDecay(0.1, 100)),
    }  # fmt: skip
    if not KERAS_3:
        old = k.legacy
        made |= {
            "legacy SGD": lambda: old.SGD(0.1), "legacy momentum": lambda: old.SGD(0.1, momentum=0.9),
            "legacy RMSprop": lambda: old.RMSprop(0.01, momentum=0.9), "legacy Adam": lambda: old.Adam(),
            "legacy centered": lambda: old.RMSprop(0.01, centered=True), "legacy Adagrad": lambda: old.Adagrad(),
            "legacy amsgrad": lambda: old.Adam(amsgrad=True), "legacy Adadelta": lambda: old.Adadelta(),
            "legacy Adamax": lambda: old.Adamax(), "legacy Ftrl": lambda: old.Ftrl(),
            "legacy Nadam": lambda: old.Nadam(),
        }  # fmt: skip
    return made


QUICK = ("centered", "amsgrad", "schedule", "legacy Ftrl")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.rest) for name in optimizers()]
)
def test_a_training_step(name: str) -> None:
    graph = step_graph(optimizers()[name](), "float32")
    nodes = functions_of(graph)
    assert {"Conv2DBackpropFilter", "MaxPoolGrad", "BiasAddGrad"} <= {n.op for n in nodes}
    assert missing(nodes) == set()


def test_a_training_step_in_mixed_precision() -> None:
    nodes = functions_of(step_graph(tf.keras.optimizers.Adam(), "mixed_bfloat16"))
    assert any(n.op == "Conv2D" and from_number(n.attr["T"].type) is DType.BF16 for n in nodes)
    assert missing(nodes) == set()


def test_a_test_step() -> None:
    nodes = functions_of(step_graph(tf.keras.optimizers.SGD(), "float32", evaluate=True))
    assert missing(nodes) == set()


def test_rows_list_no_type_that_tensorflow_does_not() -> None:
    """The table of supported ops is made from them."""
    from tensorflow.python.framework import op_def_registry

    for row in rows().values():
        op_def = op_def_registry.get(row.op)
        for attr in op_def.attr if op_def is not None else ():
            if attr.name in row.types and attr.HasField("allowed_values"):
                listed = {d.number for d in row.types[attr.name]}
                assert listed <= set(attr.allowed_values.list.type), (row.op, attr.name)


GAUDI = """
Abs Add AddN AddV2 All Any Acos Acosh AdjustContrastv2 ArgMax ArgMin BatchMatMul BatchMatMulV2 BiasAdd BiasAddGrad
Concat ConcatV2 Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2 Conv3DBackpropInputV2
Cumprod Cumsum DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput
DynamicStitch Equal EuclideanNorm Exp ExpandDims Fill FloorDiv FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormGradV2
FusedBatchNormGradV3 GatherNd GatherV2 Greater GreaterEqual Identity IdentityN IsFinite L2Loss LeakyRelu LeakyReluGrad
Less LessEqual Log Log1p LogSoftmax MatMul MatrixBandPart Max MaxPool MaxPoolV2 MaxPoolGrad MaxPoolGradV2 Maximum Mean
Minimum Mul Neg NotEqual Pack Pad PadV2 Pow RandomStandardNormal RandomUniform Rank RealDiv Reciprocal Relu Relu6
Relu6Grad ReluGrad Reshape ResizeNearestNeighbor ResizeNearestNeighborGrad Round Rsqrt RsqrtGrad Select SelectV2 Shape
ShapeN Sigmoid SigmoidGrad Sign Size Slice Snapshot Softmax SoftmaxCrossEntropyWithLogits
SparseSegmentSumWithNumSegments SparseSoftmaxCrossEntropyWithLogits Split SplitV Sqrt Square SquaredDifference Squeeze
StridedSlice StridedSliceGrad Sub Sum Tanh TanhGrad TensorScatterUpdate Tile Transpose Unpack ZerosLike
""".split()
"""The TensorFlow ops in the bf16 configurations that Habana published over all releases, which its card ran, and those
in the public part of its operator table. Without a row: Conv3DBackpropFilter and Conv3DBackpropInput (TensorFlow itself
refuses them in graphs of this age), and that table's iterators (the host's) and Apply... ops on reference variables
(refused by the card too, unless told otherwise)."""

GAUDI_TYPES = {
    "Abs": ("T", {DType.BF16, DType.F32, DType.I32}),
    **{name: ("T", {DType.BF16, DType.F32, DType.I16, DType.I32}) for name in ("Add", "AddN", "AddV2")},
    **{name: ("T", {DType.F32}) for name in ("Acos", "Acosh", "AdjustContrastv2")},
    **{name: ("Tidx", {DType.I32, DType.I64}) for name in ("All", "Any")},
}
"""The element types that its operator table names."""


def test_every_op_that_the_card_ran_has_a_row() -> None:
    assert set(GAUDI) - set(rows()) == set()
    for name, (attr, types) in GAUDI_TYPES.items():
        assert types <= set(rows()[name].types[attr]), name


def test_no_row_takes_float64_and_indices_may_be_int64() -> None:
    assert not [row.op for row in rows().values() if any(DType.F64 in types for types in row.types.values())]
    for name, attr in (("GatherV2", "Tindices"), ("ScatterNd", "Tindices"), ("OneHot", "TI"), ("Sum", "Tidx"),
                       ("SparseSoftmaxCrossEntropyWithLogits", "Tlabels"), ("ResourceGather", "Tindices")):  # fmt: skip
        assert {DType.I32, DType.I64} <= set(rows()[name].types[attr]), name
