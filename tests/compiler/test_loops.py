"""Loop kernels against the interpreter: elementwise chains, views and reductions of all shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from habana_tf.compiler.codegen.generate import generate
from habana_tf.compiler.schedule import schedule
from habana_tf.hardware.cpu import target
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node, Program
from tests.compiler.running import check, check_range, compiled

QUICK = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 5, 16, 17, 33, 70]), min_size=0, max_size=4).filter(
    lambda s: math.prod(s) <= 20000
)
EDGES = np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e30, -1e30, 88.0, -88.0, 0.5], np.float32)


def _floats(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


UNARY = (
    "neg abs sign exp expm1 log log1p sqrt rsqrt tanh sigmoid sin cos tan asin acos atan sinh cosh asinh acosh atanh "
    "erf erfc floor ceil rint trunc isnan isinf isfinite"
).split()
BINARY = "add sub mul div max min pow floordiv floormod truncmod atan2 eq ne lt le gt ge".split()


@pytest.mark.parametrize("fn", UNARY)
def test_unary_functions_agree_on_numbers_and_edges(fn: str, isa: str) -> None:
    b = Builder()
    x = b.input((300,), DType.F32)
    values = np.concatenate([EDGES, _floats((288,)) * 4])
    with np.errstate(all="ignore"):
        check(Program(b.inputs, [b.map(fn, x)]), [values], rtol=4e-7, atol=1e-38)


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, -1.0, 0.5, -0.5, 0.0, 0.75])
def test_powers_by_a_constant_agree_on_numbers_and_edges(exponent: float, isa: str) -> None:
    b = Builder()
    x = b.input((300,), DType.F32)
    values = np.concatenate([EDGES, np.float32([2e13, -2e13]), _floats((286,)) * 4])
    program = Program(b.inputs, [b.map("pow", x, b.const(exponent, DType.F32, (300,)))])
    with np.errstate(all="ignore"):
        check(program, [values], rtol=4e-7, atol=1e-38)


@pytest.mark.parametrize("fn", ["sin", "cos"])
def test_of_many_turns_what_is_left_counts(fn: str, isa: str) -> None:
    """Within two units in the last place, as far as floats go; one lane far away takes the others along."""
    quarters = (np.arange(4000) * (np.pi / 2)).astype("f4")
    spread = [_floats((400,), k) * 10.0**k for k in range(13)]
    far = np.where(np.arange(64) % 16 == 3, np.float32(3e30), _floats((64,)))
    values = np.concatenate([quarters, *spread, far]).astype("f4")
    b = Builder()
    program = Program(b.inputs, [b.map(fn, b.input(values.shape, DType.F32))])
    (got,), _ = compiled(Program(program.outputs[0].src, program.outputs), [values])
    want = getattr(np, fn)(values.astype(np.longdouble))
    assert np.max(np.abs(got - want) / np.spacing(np.abs(want).astype("f4"))) < 2


ANGLES = {
    "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "sinh": "sinh", "cosh": "cosh",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "log1p": "log1p", "expm1": "expm1",
    "tanh": "tanh",
}  # fmt: skip
"""By NumPy's names."""


def _close(got: Any, want: Any) -> None:
    """Within four units in the last place of fp32; infinities, NaN and the sign of zero are the same."""
    rounded = want.astype("f4")
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    np.testing.assert_array_equal(np.signbit(got[finite]), np.signbit(rounded[finite]))
    normal = finite & (np.abs(rounded) >= np.finfo("f4").tiny)
    assert np.max(np.abs(got - want)[normal] / np.spacing(np.abs(rounded))[normal]) < 4


@pytest.mark.parametrize("fn", ANGLES)
def test_functions_of_angles_and_hyperbolas_and_what_they_are_made_of(fn: str, isa: str) -> None:
    sign = np.float32([1, -1])[:, None]
    near = [sign * np.geomspace(1e-30, 1, 700, dtype="f4"), sign * np.linspace(0, 1.1, 900, dtype="f4")]
    wide = [sign * np.geomspace(1, 3e38, 700, dtype="f4"), sign * np.linspace(0, 91, 900, dtype="f4")]
    if fn == "tan":
        wide = wide[1:]
    ends = np.float32([0.0, -0.0, 1, -1, np.nextafter(np.float32(1), 0), 1 - 2**-20, 1 + 2**-20])
    values = np.concatenate([ends, np.float32([np.inf, -np.inf, np.nan]), *(x.ravel() for x in (*near, *wide))])
    b = Builder()
    x = b.input(values.shape, DType.F32)
    (got,), _ = compiled(Program(b.inputs, [b.map(fn, x)]), [values])
    with np.errstate(all="ignore"):
        _close(got, getattr(np, ANGLES[fn])(values.astype(np.longdouble)))


def test_the_angle_of_two_sides(isa: str) -> None:
    ends = np.float32([0.0, -0.0, 1, -1, 1e-30, -1e-30, 2e38, -2e38, np.inf, -np.inf])
    y, x = (np.concatenate([v.ravel(), _floats((3000,), k)]) for k, v in enumerate(np.meshgrid(ends, ends)))
    y, x = np.append(y, np.float32([np.nan, 1, np.nan])), np.append(x, np.float32([1, np.nan, np.nan]))
    b = Builder()
    sides = [b.input(y.shape, DType.F32), b.input(x.shape, DType.F32)]
    (got,), _ = compiled(Program(b.inputs, [b.map("atan2", *sides)]), [y, x])
    _close(got, np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble)))


@pytest.mark.parametrize("fn", BINARY)
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.I32, DType.I64, DType.U8], ids=str)
def test_binary_functions_agree(fn: str, dtype: DType) -> None:
    if fn == "atan2" and not dtype.is_float:
        return
    rng = np.random.default_rng(1)
    if dtype.is_float:
        x, y = (rng.normal(size=200) * 3 for _ in range(2))
        x[:4], y[:4] = [np.nan, np.inf, 0.0, -0.0], [1.0, np.inf, 0.0, 2.0]
    else:
        low = 0 if dtype.kind == "u" or fn == "pow" else -20
        x, y = (rng.integers(low, 20, 200) for _ in range(2))
        y[:3] = 0
        if fn == "pow":
            y = y % 5
    b = Builder()
    p = [b.input((200,), dtype), b.input((200,), dtype)]
    tolerance = 8e-3 if dtype is DType.BF16 else 1e-6
    with np.errstate(all="ignore"):
        check(Program(b.inputs, [b.map(fn, *p)]), [v.astype(dtype.numpy) for v in (x, y)], rtol=tolerance)


@QUICK
@given(shape=SHAPES, data=st.data())
def test_broadcast_chains_agree(isa: str, shape: list[int], data: st.DataObject) -> None:
    small = tuple(n if data.draw(st.booleans()) else 1 for n in shape)
    b = Builder()
    x, y = b.input(shape, DType.F32), b.input(small, DType.F32)
    z = b.binary("add", b.map("tanh", x), b.binary("mul", y, b.const(3, DType.F32)))
    check(Program(b.inputs, [z, b.binary("max", z, b.const(0, DType.F32))]), [_floats(tuple(shape)), _floats(small, 1)])


@QUICK
@given(
    shape=SHAPES.filter(bool), kind=st.sampled_from(["sum", "prod", "max", "min", "argmax", "argmin"]), data=st.data()
)
def test_reductions_agree(isa: str, shape: list[int], kind: str, data: st.DataObject) -> None:
    count = 1 if kind.startswith("arg") else len(shape)
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=count, unique=True))
    if kind.startswith("arg") and shape[axes[0]] == 0:
        return
    b = Builder()
    x = b.input(shape, DType.F32)
    values = np.round(_floats(tuple(shape)) * 2) / 2 if kind.startswith("arg") else _floats(tuple(shape)) * 0.5 + 1
    check(Program(b.inputs, [b.reduce(kind, b.map("abs", x), axes)]), [values], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "shape, axes", [((64, 26, 26, 32), (0, 1, 2)), ((300000,), (0,)), ((7, 40000), (1,)), ((40000, 7), (0,))]
)
def test_large_reductions_stay_accurate(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    b = Builder()
    x = b.input(shape, DType.F32)
    program = Program(b.inputs, [b.reduce("sum", x, axes), b.reduce("sum", b.map("mul", x, x), axes)])
    values = _floats(shape)
    got, _ = compiled(program, [values])
    exact = [np.sum(v.astype(np.float64), axes) for v in (values, values.astype(np.float64) ** 2)]
    scale = np.sum(np.abs(values.astype(np.float64)), axes)
    assert (np.abs(got[0] - exact[0]) <= 2e-6 * scale).all()
    np.testing.assert_allclose(got[1], exact[1], rtol=2e-6)


def test_nan_is_the_extreme_and_the_first_one_wins() -> None:
    b = Builder()
    x = b.input((3, 40), DType.F32)
    values = np.zeros((3, 40), np.float32)
    values[0, [7, 20]] = np.nan
    values[1, [5, 30]] = 2.0
    check(Program(b.inputs, [b.reduce(k, x, [1]) for k in ("argmax", "argmin", "max", "min")]), [values])


def _views(b: Builder, x: Node, data: st.DataObject) -> Node:
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(["permute", "slice", "pad", "reverse", "merge", "split", "expand", "map"]))
        dims = [int(n) for n in x.shape]
        if kind == "permute":
            x = b.permute(x, data.draw(st.permutations(range(x.rank))))
        elif kind == "slice" and dims and min(dims) > 1:
            begin = [data.draw(st.integers(0, n - 1)) for n in dims]
            step = [data.draw(st.sampled_from([1, 2, 3])) for _ in dims]
            size = [-(-(n - s) // t) for n, s, t in zip(dims, begin, step, strict=True)]
            x = b.slice(x, begin, size, step)
        elif kind == "pad":
            low = [data.draw(st.integers(0, 2)) for _ in dims]
            high = [data.draw(st.integers(0, 2)) for _ in dims]
            inner = [data.draw(st.integers(0, 1)) if n else 0 for n in dims]
            if math.prod(dims) < 2000:
                x = b.pad(x, low, high, value=1.5, interior=inner)
        elif kind == "reverse" and dims:
            x = b.reverse(x, [data.draw(st.integers(0, len(dims) - 1))])
        elif kind == "merge" and len(dims) > 1:
            k = data.draw(st.integers(0, len(dims) - 2))
            x = b.reshape(x, [*dims[:k], dims[k] * dims[k + 1], *dims[k + 2 :]])
        elif kind == "split" and dims and dims[-1] and dims[-1] % 2 == 0:
            x = b.reshape(x, [*dims[:-1], 2, dims[-1] // 2])
        elif kind == "expand" and len(dims) < 4 and math.prod(dims) < 2000:
            x = b.expand(x, (3, *dims))
        elif kind == "map":
            x = b.map("neg", x)
    return x


@QUICK
@given(shape=SHAPES, data=st.data())
def test_any_chain_of_views_agrees(isa: str, shape: list[int], data: st.DataObject) -> None:
    b = Builder()
    x = b.input(shape, DType.F32)
    y = _views(b, b.map("abs", x), data)
    outputs = [y] + ([b.reduce("sum", y, [y.rank - 1])] if y.rank else [])
    check(Program(b.inputs, outputs), [_floats(tuple(shape))], rtol=1e-4)


def test_windows_gathers_concats_and_iota_agree(isa: str) -> None:
    b = Builder()
    x = b.input((3, 13, 11, 5), DType.F32)
    i = b.input((7,), DType.I32)
    pooled = b.reduce("max", b.window(x, (1, 2), (3, 2), (2, 1), (1, 2)), [4, 5])
    picked = b.gather(x, [i], [1])
    joined = b.concat([x, b.map("neg", x)], 3)
    count = b.binary("mul", b.cast(b.iota((13, 11), 1), DType.F32), b.reshape(b.reduce("sum", x, [0, 3]), (13, 11)))
    values = [_floats((3, 13, 11, 5)), np.array([0, 12, 13, -1, 5, 5, 2], np.int32)]
    check(Program(b.inputs, [pooled, picked, joined, count]), values, rtol=1e-4, atol=1e-4)


LENGTHS = [[1], [15], [16], [17], [33], [8192], [8193], [40000]]


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.I8, DType.U16, DType.I32, DType.I64])
def test_an_op_over_a_symbol_works_for_every_length(dtype: DType, isa: str) -> None:
    b = Builder()
    x, y = b.input((ext.sym(0),), dtype), b.input((ext.sym(0),), dtype)
    check_range(Program(b.inputs, [b.binary("add", x, y)]), LENGTHS, rtol=1e-2 if dtype is DType.BF16 else 1e-6)


@pytest.mark.parametrize("kind", ["sum", "max", "prod", "argmax"])
def test_rows_of_any_length_are_reduced(kind: str, isa: str) -> None:
    b = Builder()
    x = b.input((ext.sym(0), ext.sym(1)), DType.F32)
    sizes = [[1, 1], [3, 15], [2, 16], [5, 17], [3, 70], [1, 1000], [40, 2]]
    check_range(Program(b.inputs, [b.reduce(kind, x, (1,))]), sizes, rtol=1e-4)


def test_an_op_over_symbols_alone_is_written_once() -> None:
    """What is compiled for every size has no second form for the last vector."""
    b = Builder()
    x = b.input((ext.sym(0),), DType.F32)
    modules: list[str] = []
    generate(schedule(Program(b.inputs, [b.map("sqrt", x)])), target(), modules.append, 1 << 20)
    assert "".join(modules).count("call <16 x float> @llvm.sqrt") == 1 or target().vector_bytes < 64


def test_lanes_run_where_what_is_large_is_contiguous() -> None:
    """The gradient of a loss and of the bias before it: the sums go over rows, along which only small operands lie in
    order. Lanes along these would gather and scatter the large ones."""
    b = Builder()
    logits, rows, scale = b.input((96, 64), DType.F32), b.input((96, 1), DType.F32), b.input((96, 1), DType.F32)
    gradient = b.binary("mul", b.binary("sub", logits, rows), scale)
    program = Program(b.inputs, [gradient, b.reduce("sum", gradient, [0])])
    modules: list[str] = []
    generate(schedule(program), target(), modules.append, 1 << 20)
    assert len(schedule(program).kernels) == 1
    assert "gather" not in "".join(modules) and "scatter" not in "".join(modules)
    check(program, [_floats((96, 64)), _floats((96, 1), 1), _floats((96, 1), 2)], rtol=1e-4, atol=1e-4)
