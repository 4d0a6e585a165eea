"""What models call most in eager mode, op by op, and the clusters and shapes that TensorFlow makes of it.

Each form below is one call of an op. Its program is over all shapes, so the sizes here say only which axes are
broadcast; of what models compute of `tf.shape(x)` it is the program itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from habana_tf.resolver.request import Request
from habana_tf.tensorflow.clusters.cluster import parse
from habana_tf.tensorflow.clusters.writer import of_node

if TYPE_CHECKING:
    import numpy as np

OpCall = tuple[Callable[..., Any], tuple[Any, ...]]
"""A call of an op, and its arguments as arrays; their values count where they decide shapes."""

_UNARY = (
    "Abs Ceil Cos Erf Exp Floor Log Log1p LogicalNot Neg Reciprocal Rsqrt Sigmoid Sign Sin Softplus Sqrt Square Tanh "
    "Relu Relu6 Elu Selu Softsign LeakyRelu".split()
)
_BINARY = "AddV2 Sub Mul RealDiv DivNoNan Maximum Minimum SquaredDifference".split()
_COMPARE = "Equal NotEqual Less LessEqual Greater GreaterEqual".split()
_BROADCAST = [
    ((8,), (8,)), ((8,), ()), ((), (8,)), ((), ()),  # alike, and with a number
    ((4, 8), (8,)), ((8,), (4, 8)), ((4, 8), (4, 1)), ((4, 1), (4, 8)), ((4, 1), (8,)), ((8,), (4, 1)),
]  # fmt: skip
_RANKS = range(1, 6)
_CASTS = [("bool", "float32"), ("int32", "float32"), ("int64", "float32"), ("float32", "int32"), ("int64", "int32"),
          ("int32", "int64"), ("uint8", "float32"), ("float32", "bool")]  # fmt: skip
_PADDINGS = [((0, 0), (1, 1), (1, 1), (0, 0)), ((0, 0), (0, 1), (0, 1), (0, 0))]
_EPSILONS = (1e-3, 1e-5, 1.001e-5)
"""Of batch normalization: Keras' default, the papers', and that of Keras' ResNets."""


def forms() -> Iterator[OpCall]:
    """What models call."""
    import numpy as np
    from tensorflow import raw_ops as raw

    def ones(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray[Any, Any]:
        return np.ones(shape, dtype)

    for name in _UNARY:
        takes = "features" if name.startswith(("Relu", "Elu", "Selu", "Soft", "Leaky")) else "x"
        dtype = "bool" if name == "LogicalNot" else "float32"
        yield lambda x, name=name, takes=takes: getattr(raw, name)(**{takes: x}), (ones((8,), dtype),)
    for name in _BINARY:
        for left, right in _BROADCAST:
            yield lambda x, y, name=name: getattr(raw, name)(x=x, y=y), (ones(left), ones(right))
    for name in _COMPARE:
        for left, right in _BROADCAST[:4]:
            yield lambda x, y, name=name: getattr(raw, name)(x=x, y=y), (ones(left), ones(right))
    for name in ("AddV2", "Sub", "Mul"):
        for left, right in _BROADCAST[:4]:
            yield (
                lambda x, y, name=name: getattr(raw, name)(x=x, y=y), (ones(left, "int32"), ones(right, "int32"))
            )  # fmt: skip
    for source, target in _CASTS:
        yield lambda x, target=target: raw.Cast(x=x, DstT=target), (ones((8,), source),)
    yield lambda c, x, y: raw.SelectV2(condition=c, t=x, e=y), (ones((8,), "bool"), ones((8,)), ones((8,)))
    yield lambda x: raw.Softmax(logits=x), (ones((32, 256)),)
    yield lambda x: raw.LogSoftmax(logits=x), (ones((32, 256)),)
    yield lambda x, b: raw.BiasAdd(value=x, bias=b), (ones((4, 8)), ones((8,)))
    for epsilon in _EPSILONS:
        yield (
            lambda x, *s, epsilon=epsilon: raw.FusedBatchNormV3(
                x=x, scale=s[0], offset=s[1], mean=s[2], variance=s[3], epsilon=epsilon, is_training=False
            ),
            (ones((1, 4, 4, 8)), *[ones((8,))] * 4),
        )
    for paddings in _PADDINGS:
        yield lambda x, p: raw.Pad(input=x, paddings=p), (ones((1, 4, 4, 8)), np.array(paddings, "int32"))
    for dtype in ("float32", "int32", "int64"):
        yield lambda x, s: raw.Reshape(tensor=x, shape=s), (ones((2, 4), dtype), np.array([8], "int32"))
        yield lambda x: raw.ExpandDims(input=x, axis=0), (ones((8,), dtype),)
    for dtype in ("float32", "int32"):
        yield lambda x: raw.Pack(values=[x]), (ones((8,), dtype),)
    yield from _products()
    yield from _parts_of_shapes()
    for rank in (0, *_RANKS):  # of no axes are the weights of Keras' metrics
        for dtype in ("float32", "int32"):
            yield lambda d, v: raw.Fill(dims=d, value=v), (np.full((rank,), 2, "int32"), ones((), dtype))
    for rank in _RANKS:
        shape = np.full((rank,), 2, "int32")
        for name in ("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2"):
            yield (
                lambda s, k, c, a, name=name: getattr(raw, name)(shape=s, key=k, counter=c, alg=a),
                (shape, ones((1,), "uint64"), ones((2,), "uint64"), np.array(1, "int32")),
            )
    yield lambda s: raw.StatelessRandomGetKeyCounter(seed=s), (ones((2,), "int32"),)


def _parts_of_shapes() -> Iterator[OpCall]:
    """What models compute of `tf.shape(x)`: x[k], and a shape of several sizes."""
    import numpy as np
    from tensorflow import raw_ops as raw

    for rank in _RANKS:
        shape = np.ones((rank,), "int32")
        for k in range(rank):
            at = [np.array([n], "int32") for n in (k, k + 1, 1)]
            yield (
                lambda x, a, b, c: raw.StridedSlice(input=x, begin=a, end=b, strides=c, shrink_axis_mask=1),
                (shape, *at),
            )
        yield lambda *n: raw.Pack(values=n), tuple(shape)


def _products() -> Iterator[OpCall]:
    """Matmuls, convolutions and Keras' einsums, whose sizes are data (see `ir.loop_nest`)."""
    import numpy as np
    from tensorflow import raw_ops as raw

    def ones(*shape: int) -> np.ndarray[Any, Any]:
        return np.ones(shape, "float32")

    for rows in (1, 8):
        yield lambda x, y: raw.MatMul(a=x, b=y), (ones(rows, 96), ones(96, 64))
    yield lambda x, y: raw.MatMul(a=x, b=y, transpose_b=True), (ones(8, 96), ones(64, 96))
    yield lambda x, y: raw.BatchMatMulV2(x=x, y=y), (ones(2, 8, 96), ones(2, 96, 64))
    yield lambda x, y: raw.BatchMatMulV2(x=x, y=y, adj_y=True), (ones(2, 8, 96), ones(2, 64, 96))
    for size, channels in ((3, 3), (3, 32), (1, 32)):
        for step in (1, 2):
            for padding in ("VALID", "SAME"):
                given = (ones(1, 12, 12, channels), ones(size, size, channels, 64))
                yield (
                    lambda x, f, step=step, padding=padding: raw.Conv2D(
                        input=x, filter=f, strides=[1, step, step, 1], padding=padding
                    ),
                    given,
                )
    for step in (1, 2):
        for padding in ("VALID", "SAME"):
            yield (
                lambda x, f, step=step, padding=padding: raw.DepthwiseConv2dNative(
                    input=x, filter=f, strides=[1, step, step, 1], padding=padding
                ),
                (ones(1, 12, 12, 64), ones(3, 3, 64, 1)),
            )
    for equation, left, right in (
        ("abc,cde->abde", (1, 8, 96), (96, 4, 64)),  # a projection of multi-head attention
        ("aecd,abcd->acbe", (1, 128, 4, 64), (1, 128, 4, 64)),  # its scores
        ("acbe,aecd->abcd", (1, 4, 128, 128), (1, 128, 4, 64)),  # what they weigh
        ("abcd,cde->abe", (1, 8, 4, 64), (4, 64, 96)),  # and the way out
    ):
        yield lambda x, y, e=equation: raw.Einsum(inputs=[x, y], equation=e), (ones(*left), ones(*right))


def met_by(form: OpCall) -> Request:
    """The cluster of the op that a form calls, and what it meets."""
    import tensorflow as tf

    call, arrays = form
    with tf.Graph().as_default() as graph:
        holders = [tf.compat.v1.placeholder(a.dtype, a.shape) for a in arrays]
        call(*holders)
        *constants, op = [op for op in graph.get_operations() if op.type != "Placeholder"]
    cluster = parse(of_node(op.node_def.SerializeToString()))
    values = {h.name: a for h, a in zip(holders, arrays, strict=True)}
    values |= {c.outputs[0].name: tf.make_ndarray(c.get_attr("value")) for c in constants}
    slots = [slot for _, slot in cluster.nodes[0].inputs]
    given = [values[op.inputs[slots.index(k)].name] for k in range(len(slots))]
    fixed = cluster.fixed_inputs()
    return Request(cluster, [a.shape for a in given], [a if i in fixed else None for i, a in enumerate(given)])
