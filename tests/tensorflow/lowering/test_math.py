"""Elementwise ops against stock TensorFlow: every op, drawn shapes and values, infinities and NaN."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from elementwise import ACTIVATIONS, FLOATS, binary, raw, unary
from harness import (
    BF16,
    F32,
    SHAPES,
    arrays,
    broadcastable,
    check,
    compare,
    evaluate,
    make_cluster,
    quick,
    reference,
    refusal,
)
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from rounding import check_rounded

from habana_tf.cluster.lower import lower
from habana_tf.cluster.lowering_context import LoweringError
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.interpreter import bind, run
from habana_tf.tensorflow.clusters.any_shape import generalize
from habana_tf.tensorflow.lowering.table import lookup

# Functions with their range of meaning; the rest of the line is drawn as well, where results are NaN or infinite.
EVERYWHERE = ["Exp", "Expm1", "Sin", "Cos", "Atan", "Sinh", "Cosh", "Asinh", "Tanh", "Sigmoid", "Erf", "Erfc",
              "Floor", "Ceil", "Rint", "Round", "Neg", "Abs", "Square", "IsNan", "IsInf", "IsFinite", "Reciprocal",
              "Inv", *ACTIVATIONS]  # fmt: skip
SOMEWHERE = ["Log", "Log1p", "Sqrt", "Rsqrt", "Asin", "Acos", "Acosh", "Atanh", "Sign", "Lgamma", "Tan"]


NO_BFLOAT16 = ["Rint", "Lgamma", "Mod", "TruncateMod", "Atan2"]
"""Ops whose CPU kernel in TensorFlow has no bfloat16."""


@FLOATS
@pytest.mark.parametrize("name", [*EVERYWHERE, *SOMEWHERE])
def test_unary(name, dtype):
    if dtype == BF16 and name in NO_BFLOAT16:
        return

    @quick
    @given(arrays(dtype, special=True))
    def compare(x):
        if dtype == BF16 and name == "Softplus":
            check_rounded(unary(name), x)  # TensorFlow takes x for softplus(x) from 2.85 on in bfloat16
        else:
            check(unary(name), x, rtol=2e-5 if dtype == F32 else None, nan=name in EVERYWHERE)

    compare()


@FLOATS
def test_leaky_relu_slope(dtype):
    check(unary("LeakyRelu", alpha=0.3), np.array([-2, -0.0, 0, 3, np.inf, -np.inf], dtype))


BINARY = ["AddV2", "Add", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "SquaredDifference", "Atan2", "Xdivy", "MulNoNan",
          "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"]  # fmt: skip
BINARY_FINITE = ["FloorDiv", "FloorMod", "Mod", "TruncateMod", "Maximum", "Minimum", "Xlogy", "Xlog1py"]


@FLOATS
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    @quick
    @given(broadcastable(dtype, special=True))
    def compare(xy):
        check(binary(name), *xy)

    if dtype != BF16 or name not in NO_BFLOAT16:
        compare()


@FLOATS
@pytest.mark.parametrize("name", BINARY_FINITE)
def test_binary_without_nan(name, dtype):
    @quick
    @given(broadcastable(dtype, low=0.25))
    def compare(xy):
        check(binary(name), *xy, nan=False)

    if dtype != BF16 or name not in NO_BFLOAT16:
        compare()


@FLOATS
@pytest.mark.parametrize("name", ["FloorMod", "FloorDiv"])
def test_quotients_and_remainders_of_floats(name, dtype):
    """Of either sign; the last quotient is 2.994, which is 3 in bfloat16."""
    x = np.array([7, -7, 7, -7, 5.5, -5.5, 6, 1], dtype)
    y = np.array([2, 2, -2, -2, -1.5, 1.5, -3, 0.333984], dtype)
    check(binary(name), x, y)


@FLOATS
def test_pow(dtype):
    @quick
    @given(broadcastable(dtype, low=0.125))
    def compare(xy):
        check(binary("Pow"), *xy, rtol=2e-5 if dtype == F32 else None)

    compare()
    check(binary("Pow"), np.array([-2, -2, 0, 0, 1, np.nan], dtype), np.array([3, 0.5, 0, -1, np.nan, 0], dtype))


def test_equality_of_shapes_that_do_not_broadcast():
    x, y = np.zeros(2, F32), np.zeros(3, F32)
    for op in (raw.Equal, raw.NotEqual):
        check(lambda x, y, op=op: op(x=x, y=y, incompatible_shape_error=False), x, y)
    cluster, _ = make_cluster(binary("Equal"), [x, x])
    with pytest.raises(LoweringError, match=r"Equal.*do not broadcast"):
        lower(cluster, [x.shape, y.shape], [None, None])


def test_approximate_equal():
    x, y = np.array([1, 2, 3, np.nan], F32), np.array([1.005, 2.5, 3, np.nan], F32)
    check(lambda x, y: raw.ApproximateEqual(x=x, y=y, tolerance=0.01), x, y)


GRADS = ["TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"]
FEATURE_GRADS = ["ReluGrad", "Relu6Grad", "SoftplusGrad", "SoftsignGrad", "LeakyReluGrad"]
OUTPUT_GRADS = ["EluGrad", "SeluGrad"]


@FLOATS
@pytest.mark.parametrize("name", [*GRADS, *FEATURE_GRADS, *OUTPUT_GRADS])
def test_gradients(name, dtype):
    fn = getattr(raw, name)
    if name in GRADS:
        call = lambda a, g: fn(y=a, dy=g)
    elif name in OUTPUT_GRADS:
        call = lambda a, g: fn(gradients=g, outputs=a)
    else:
        call = lambda a, g: fn(gradients=g, features=a)

    @quick
    @given(st.data(), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    def compare(data, shape):
        low = 0.125 if name in ("SqrtGrad", "RsqrtGrad") else -1.5
        a, g = (data.draw(arrays(dtype, shape, low=low)) for _ in range(2))
        if dtype == F32:
            check(call, a, g, atol=1e-5)
        else:
            check_rounded(call, a, g, atol=1e-5)

    compare()


@pytest.mark.parametrize("name", GRADS)
def test_gradients_of_as_many_elements(name):
    """TensorFlow compares the numbers of elements; the result has the first input's shape."""
    call = lambda a, g: getattr(raw, name)(y=a, dy=g)
    y, dy = np.arange(1, 7, dtype=F32).reshape(2, 3), np.arange(6, dtype=F32).reshape(3, 2)
    check(call, y, dy)
    check(call, y[:1], dy.reshape(-1)[:3])
    assert "one shape" in refusal(call, y[:1], y)


ONE_SHAPE = {
    **dict.fromkeys(FEATURE_GRADS, ("gradients", "features")),
    **dict.fromkeys(OUTPUT_GRADS, ("gradients", "outputs")),
    "ApproximateEqual": ("x", "y"),
}


@pytest.mark.parametrize("name", [*ONE_SHAPE, "AddN"])
@pytest.mark.parametrize("shapes", [((1, 3), (3,)), ((2, 3), (3, 2)), ((3,), ()), ((1,), ()), ((1, 3), (2, 3))])
def test_ops_that_do_not_broadcast(name, shapes):
    """Neither compiled for these shapes nor through the form over symbolic ones, which drops axes of size 1."""

    def call(*xs):
        if name in ONE_SHAPE:
            return getattr(raw, name)(**dict(zip(ONE_SHAPE[name], xs, strict=True)))
        return getattr(raw, name)(inputs=list(xs))

    xs = [np.ones(s, F32) for s in shapes]
    with pytest.raises(tf.errors.InvalidArgumentError):
        reference(call, *xs)
    message = refusal(call, *xs)
    assert message.startswith(name) and ", ".join(str(list(s)) for s in shapes) in message
    cluster, _ = make_cluster(call, xs, shaped=False)
    assert generalize(lookup(name), cluster.nodes[0], shapes, [None] * 2) is None
    assert generalize(lookup(name), cluster.nodes[0], [(2, 3)] * 2, [None] * 2) is not None


@pytest.mark.parametrize("shapes", [((1, 3), (3,), ()), ((3,), (1,), ()), ((2, 3), (1, 3), (2, 3))])
def test_clip_by_value_refuses(shapes):
    call = lambda x, lo, hi: raw.ClipByValue(t=x, clip_value_min=lo, clip_value_max=hi)
    xs = [np.ones(s, F32) for s in shapes]
    with pytest.raises(tf.errors.InvalidArgumentError):
        reference(call, *xs)
    assert "must be scalars or have the shape of t" in refusal(call, *xs)
    cluster, _ = make_cluster(call, xs, shaped=False)
    assert generalize(lookup("ClipByValue"), cluster.nodes[0], shapes, [None] * 3) is None


NAMES = ["float32", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"]


@pytest.mark.parametrize("source", NAMES)
def test_cast(source):
    x = np.array([0, 1, 3, 100, 0.4, 1.7]).astype(BF16 if source == "bfloat16" else source)
    for target in NAMES:
        check(lambda x, t=target: raw.Cast(x=x, DstT=getattr(tf, t)), x, rtol=0, atol=0)


def test_cast_rounds_to_even_or_truncates():
    x = np.array([1.00390625, 1.01171875, -1.005, 3.3e38, np.inf, np.nan], F32)
    for truncate in (False, True):
        check(lambda x, t=truncate: raw.Cast(x=x, DstT=tf.bfloat16, Truncate=t), x, rtol=0, atol=0)
    check(lambda x: raw.Cast(x=x, DstT=tf.int32), np.array([-1.7, -0.5, 2.9, 1e9], F32))


@pytest.mark.parametrize("source,target", [("float32", "int32"), ("int32", "uint8"), ("uint8", "float32"),
                                           ("int16", "bfloat16"), ("int64", "float32"), ("float32", "int16"),
                                           ("int32", "int32")])  # fmt: skip
def test_bitcast(source, target):
    x = np.array([[1, 100, 7, 250], [3, 4, 5, 66]]).astype(source)
    check(lambda x: raw.Bitcast(input=x, type=getattr(tf, target)), x)


@pytest.mark.parametrize("dtype", [F32, BF16, np.dtype("int32"), np.dtype("bool")], ids=str)
def test_select_v2(dtype):
    @quick
    @given(st.data(), hnp.mutually_broadcastable_shapes(num_shapes=3, min_side=0, max_side=3, max_dims=3))
    def compare(data, shapes):
        c, t, e = (data.draw(arrays(d, s)) for d, s in zip((np.bool_, dtype, dtype), shapes.input_shapes, strict=True))
        check(lambda c, t, e: raw.SelectV2(condition=c, t=t, e=e), c, t, e)

    compare()


def test_select():
    t = np.arange(6, dtype=F32).reshape(2, 3)
    for condition in (np.array(True), np.array([True, False]), t > 2):
        check(lambda c, t, e: raw.Select(condition=c, x=t, y=e), condition, t, -t)


@FLOATS
def test_clip_by_value(dtype):
    x = np.array([[-3, 0.5], [2, 9]], dtype)
    for low, high in ((dtype.type(-1), dtype.type(2)), (x - dtype.type(1), x * dtype.type(0) + dtype.type(1))):
        check(
            lambda x, lo, hi: raw.ClipByValue(t=x, clip_value_min=lo, clip_value_max=hi),
            x, np.asarray(low, dtype), np.asarray(high, dtype),
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [F32, BF16, np.dtype("int32")], ids=str)
def test_add_n(dtype):
    @quick
    @given(st.data(), SHAPES, st.integers(1, 4))
    def sums(data, shape, count):
        def fn(*xs):
            return raw.AddN(inputs=list(xs))

        xs = [data.draw(arrays(dtype, shape)) for _ in range(count)]
        if dtype != BF16:
            check(fn, *xs)
            return
        want = fn(*(tf.cast(x, tf.float32) for x in xs)).numpy().astype(BF16)  # TensorFlow rounds after every term
        for outputs in evaluate(fn, *xs):
            compare(outputs[0], want)

    sums()


@quick
@given(st.data(), SHAPES, st.integers(1, 4))
def test_accumulate_n(data, shape, count):
    """Its kernel on the CPU is what TensorFlow's optimizer makes of it in a graph."""

    def fn(*xs):
        return raw.AccumulateNV2(inputs=list(xs), shape=shape)

    xs = [data.draw(arrays(F32, shape)) for _ in range(count)]
    with tf.device("/CPU:0"):
        want = tf.function(fn)(*xs).numpy()
    for outputs in evaluate(fn, *xs):
        compare(outputs[0], want)


def test_elementwise_ops_lower_over_symbolic_shapes():
    """Eager elementwise ops share one recipe over all shapes."""
    x = np.ones((2, 3), F32)
    for fn, count in ((unary("Softplus"), 1), (binary("AddV2"), 2), (binary("Xdivy"), 2)):
        cluster, _ = make_cluster(fn, [x] * count)
        program = lower(cluster, [(ext.sym(0),)] * count, [None] * count)
        y = np.arange(1, 5, dtype=F32)
        got = run(bind(program, [4]), [y] * count)[0]
        np.testing.assert_allclose(got, fn(*[y] * count).numpy(), rtol=1e-5)
        assert program.inputs[0].dtype is DType.F32


@pytest.mark.parametrize("name", ["SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"])
def test_no_gradient_is_none_at_a_pole(name):
    dy, y = (a.reshape(-1) for a in np.meshgrid(*[np.array([0, 1, np.inf, -np.inf, np.nan, -0.0], F32)] * 2))
    check(lambda y, dy: getattr(tf.raw_ops, name)(y=y, dy=dy), y, dy)


def test_a_bound_that_is_nan_is_none():
    x, low, high = np.array([1, 2, np.nan, 3], F32), np.array([np.nan, 3, 1, 1], F32), np.array([0, 9, 2, np.nan], F32)
    check(lambda x, a, b: tf.raw_ops.ClipByValue(t=x, clip_value_min=a, clip_value_max=b), x, low, high)


@pytest.mark.parametrize("name", ["ReluGrad", "Relu6Grad"])
def test_a_gradient_that_is_not_finite_is_nan_where_the_unit_is_off(name):
    gradients = np.array([np.nan, np.inf, -np.inf, -1, 1] * 4, F32)
    features = np.repeat(np.array([-1, 0, 2, np.nan], F32), 5)
    check(lambda g, x: getattr(raw, name)(gradients=g, features=x), gradients, features)
