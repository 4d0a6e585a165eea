"""The meaning of each primitive: against NumPy spelled out by hand, and known vectors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.constant_folding import LARGEST_CONSTANT, constant
from habana_tf.ir.dtypes import DType
from habana_tf.ir.interpreter import bind, philox, run
from habana_tf.ir.primitives import Contraction, Node, Program

BF16 = ml_dtypes.bfloat16


def apply(make, *arrays, states=()):
    """Runs the primitive(s) that `make(builder, *nodes)` builds over `arrays`."""
    b = Builder()
    nodes = [b.input(a.shape, DType[_name(a)]) for a in arrays]
    out = make(b, *nodes)
    return run(Program(b.inputs, [out]), arrays, states)[0]


def _name(array):
    return {d.numpy: d.name for d in DType}[array.dtype]


def f32(*values):
    return np.array(values, np.float32)


def i32(*values):
    return np.array(values, np.int32)


def test_bfloat16_map_rounds_once_to_nearest_even():
    one, half_ulp = np.array([1.0], BF16), np.array([2.0**-8], BF16)
    assert apply(lambda b, x, y: b.map("add", x, y), one, half_ulp)[0] == BF16(1.0)  # tie goes to even
    odd = np.array([1.0 + 2.0**-7], BF16)
    assert apply(lambda b, x, y: b.map("add", x, y), odd, half_ulp)[0] == BF16(1.0 + 2.0**-6)


def test_bfloat16_sums_are_kept_in_float32():
    x = np.full(1000, 1.0, BF16)
    assert apply(lambda b, x: b.reduce("sum", x, [0]), x) == BF16(1000)  # a bfloat16 sum would stop at 256


def test_integers_wrap_and_survive_division_by_zero():
    low = np.iinfo(np.int32).min
    assert apply(lambda b, x, y: b.map("add", x, y), i32(2**31 - 1), i32(1))[0] == low
    for fn, want in (("div", [0, 0, low]), ("floordiv", [0, 0, low]), ("floormod", [0, 0, 0]), ("truncmod", [0, 0, 0])):
        got = apply(lambda b, x, y, fn=fn: b.map(fn, x, y), i32(5, -5, low), i32(0, 0, -1))
        np.testing.assert_array_equal(got, want, fn)


def test_signs_of_division():
    a, d = i32(7, -7, 7, -7), i32(2, 2, -2, -2)
    for fn, want in (
        ("div", [3, -3, -3, 3]),
        ("floordiv", [3, -4, -4, 3]),
        ("truncmod", [1, -1, 1, -1]),
        ("floormod", [1, 1, -1, -1]),
    ):
        np.testing.assert_array_equal(apply(lambda b, x, y, fn=fn: b.map(fn, x, y), a, d), want, fn)
        np.testing.assert_array_equal(
            apply(lambda b, x, y, fn=fn: b.map(fn, x, y), a.astype(np.float32), d.astype(np.float32)),
            [3.5, -3.5, -3.5, 3.5] if fn == "div" else want,
            fn,
        )


def test_integer_powers():
    got = apply(lambda b, x, y: b.map("pow", x, y), i32(2, -1, -1, 1, 5, 3, 7), i32(10, 3, 2, 9, 1, 0, 20))
    np.testing.assert_array_equal(got, [1024, -1, 1, 1, 5, 1, np.int64(7**20).astype(np.int32)])


def test_nan_rules():
    nan = np.nan
    a, c = f32(nan, 1, 2), f32(1, nan, 3)
    np.testing.assert_array_equal(apply(lambda b, x, y: b.map("max", x, y), a, c), [nan, nan, 3])
    np.testing.assert_array_equal(apply(lambda b, x, y: b.map("eq", x, y), a, a), [False, True, True])
    np.testing.assert_array_equal(apply(lambda b, x, y: b.map("ne", x, y), a, a), [True, False, False])
    assert np.isnan(apply(lambda b, x: b.reduce("min", x, [0]), a))
    assert apply(lambda b, x: b.reduce("argmax", x, [0]), c) == 1


@pytest.mark.parametrize("a,b", [(2**32 - 1, 2**32 - 1), (0xD2511F53, 123456789), (0, 7)])
def test_mulhi(a, b):
    got = apply(lambda bd, x, y: bd.map("mulhi", x, y), np.array([a], np.uint32), np.array([b], np.uint32))
    assert got[0] == (a * b) >> 32


def test_special_functions():
    x = f32(-2.5, -1, 0, 0.5, 3)
    np.testing.assert_allclose(apply(lambda b, x: b.map("erf", x), x)[[2, 3]], [0, 0.5204999], rtol=1e-6)
    np.testing.assert_allclose(apply(lambda b, x: b.map("erfc", x), x)[3], 0.4795001, rtol=1e-6)
    np.testing.assert_allclose(
        apply(lambda b, x: b.map("lgamma", x), x), [-0.05624371, np.inf, np.inf, 0.57236494, 0.6931472], rtol=1e-6
    )
    big = apply(lambda b, x: b.map("sigmoid", x), f32(-200, 0, 200))
    np.testing.assert_array_equal(big, [0, 0.5, 1])


def test_casts():
    x = f32(-1.7, 0.4, 2.9)
    np.testing.assert_array_equal(apply(lambda b, x: b.cast(x, DType.I32), x), [-1, 0, 2])
    np.testing.assert_array_equal(apply(lambda b, x: b.cast(x, DType.BOOL), f32(0, -0.0, 0.1, np.nan)), [0, 0, 1, 1])
    assert apply(lambda b, x: b.map("bitcast", x, dtype=DType.I32), f32(1.0))[0] == 0x3F800000


def test_empty_reductions():
    x = np.zeros((0, 2), np.float32)
    for kind, want in (("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf)):
        np.testing.assert_array_equal(apply(lambda b, x, k=kind: b.reduce(k, x, [0]), x), [want, want], kind)
    y = np.zeros((0,), np.int8)
    assert apply(lambda b, y: b.reduce("max", y, [0]), y) == -128


@pytest.mark.parametrize(
    "einsum,spec",
    [
        ("ik,kj->ij", Contraction((0, 2), (2, 1), (0, 1))),
        ("bki,bjk->bji", Contraction((0, 1, 2), (0, 3, 1), (0, 3, 2))),
        ("i,j->ji", Contraction((0,), (1,), (1, 0))),
        ("ij,ij->", Contraction((0, 1), (0, 1), ())),
    ],
)
def test_contract(einsum, spec):
    sizes = {0: 2, 1: 3, 2: 4, 3: 5}
    rng = np.random.default_rng(0)
    a = rng.normal(size=[sizes[i] for i in spec.a]).astype(np.float32)
    b = rng.normal(size=[sizes[i] for i in spec.b]).astype(np.float32)
    got = apply(lambda bd, x, y: bd.contract(x, y, spec), a, b)
    np.testing.assert_allclose(got, np.einsum(einsum, a, b), rtol=1e-5, atol=1e-5)


def test_gather_is_zero_out_of_range():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    got = apply(lambda b, x, i: b.gather(x, [i], [1]), x, i32(2, -1, 3, 0))
    assert got.shape == (4, 2, 4)
    np.testing.assert_array_equal(got[0], x[:, 2])
    np.testing.assert_array_equal(got[3], x[:, 0])
    assert not got[1:3].any()


def test_scatter_applies_in_order_and_ignores_out_of_range():
    x, u = f32(10, 20, 30), f32(1, 2, 3, 4)
    at = i32(1, 1, 7, 0)
    for kind, want in (("set", [4, 2, 30]), ("add", [14, 23, 30]), ("sub", [6, 17, 30]), ("mul", [40, 40, 30]),
                       ("max", [10, 20, 30]), ("min", [4, 1, 30]), ("div", [2.5, 10, 30])):  # fmt: skip
        got = apply(lambda b, x, u, i, k=kind: b.scatter(x, u, [i], [0], k), x, u, at)
        np.testing.assert_array_equal(got, want, kind)
    np.testing.assert_array_equal(x, [10, 20, 30])
    by = apply(lambda b, x, u, i: b.scatter(x, u, [i], [0], "div"), i32(-7, 9), i32(2, 0), i32(0, 1))
    np.testing.assert_array_equal(by, [-3, 0])


@pytest.mark.parametrize(
    "counter,key,want",
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_known_vectors(counter, key, want):
    state = np.array([*counter, *key], np.uint32)
    b = Builder()
    out = b.random(b.state(0), 4)
    np.testing.assert_array_equal(run(Program([], [out]), [], [state])[0], np.array(want, np.uint32))


def test_philox_counter_carries_through_all_words():
    ones = np.array([0xFFFFFFFF, 0xFFFFFFFF, 5, 0, 1, 2], np.uint32)
    after = np.array([0, 0, 6, 0, 1, 2], np.uint32)
    steps = np.arange(2, dtype=np.uint64)
    np.testing.assert_array_equal(philox(ones, steps)[1], philox(after, steps)[0])


def test_random_words_run_through_the_blocks_and_may_skip():
    state = np.array([7, 0, 0, 0, 1, 2], np.uint32)
    b = Builder()
    line, gaps = b.random(b.state(0), 10), b.random(b.state(0), 20, run=2, skip=5)
    got, skipped = run(Program([], [line, gaps]), [], [state])
    np.testing.assert_array_equal(got, philox(state, np.arange(3, dtype=np.uint64)).reshape(-1)[:10])
    want = philox(state, np.array([0, 1, 5, 6, 10], np.uint64)).reshape(-1)
    np.testing.assert_array_equal(skipped, want)


def test_shifts_by_too_much():
    x = i32(-8, 8, -8)
    np.testing.assert_array_equal(apply(lambda b, x, y: b.map("shr", x, y), x, i32(1, 40, 32)), [-4, 0, -1])
    np.testing.assert_array_equal(apply(lambda b, x, y: b.map("shl", x, y), x, i32(1, 40, -1)), [-16, 0, 0])


def test_sort_is_stable_both_ways():
    x = f32(1, 3, 1, 2, 3)
    np.testing.assert_array_equal(apply(lambda b, x: b.sort(x, 0), x), [0, 2, 3, 1, 4])
    np.testing.assert_array_equal(apply(lambda b, x: b.sort(x, 0, True), x), [1, 4, 3, 0, 2])


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(exclusive, reverse):
    got = apply(lambda b, x: b.scan("sum", x, 0, exclusive, reverse), f32(1, 2, 4))
    want = {
        (False, False): [1, 3, 7],
        (True, False): [0, 1, 3],
        (False, True): [7, 6, 4],
        (True, True): [6, 4, 0],
    }
    np.testing.assert_array_equal(got, want[exclusive, reverse])
    empty = np.zeros((0,), np.float32)
    assert apply(lambda b, x: b.scan("prod", x, 0, exclusive, reverse), empty).shape == (0,)


def test_views():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(
        apply(lambda b, x: b.slice(x, (2, 1), (3, 2), (-1, 2)), x), x[::-1, 1::2]
    )  # a negative step begins at the far end
    padded = apply(lambda b, x: b.pad(x, (1, 0), (0, 2), 7, (1, 0)), x)
    assert padded.shape == (6, 6)
    np.testing.assert_array_equal(padded[1::2, :4], x)
    assert (padded[0::2] == 7).all() and (padded[:, 4:] == 7).all()
    windows = apply(lambda b, x: b.window(x, (1,), (2,), (1,), (2,)), x)
    np.testing.assert_array_equal(windows, np.stack([x[:, :2], x[:, 2:]], axis=2))
    np.testing.assert_array_equal(apply(lambda b, x: b.concat([x, x], 1), x), np.concatenate([x, x], 1))
    np.testing.assert_array_equal(apply(lambda b, x: b.reverse(b.permute(x, (1, 0)), [0]), x), x.T[::-1])
    np.testing.assert_array_equal(apply(lambda b, x: b.iota(x.shape, 1), x), np.broadcast_to(np.arange(4), (3, 4)))


def test_run_checks_its_inputs():
    b = Builder()
    x = b.input((2,), DType.F32)
    with pytest.raises(ValueError, match="given an array"):
        run(Program([x], [b.map("neg", x)]), [np.zeros(3, np.float32)])


def test_constant_needs_fixed_inputs():
    b = Builder()
    x, y = b.input((2,), DType.I32), b.input((2,), DType.I32)
    total = b.map("add", x, b.literal(np.array([1, 2], np.int32)))
    fixed: dict[Node, np.ndarray] = {}
    assert constant(total, fixed) is None
    fixed[x] = i32(10, 20)
    np.testing.assert_array_equal(constant(total, fixed), [11, 22])
    assert constant(b.map("mul", total, y), fixed) is None
    assert constant(b.literal(np.array(3, np.int32)), {}).shape == ()


def test_constant_refuses_large_and_symbolic_values():
    b = Builder()
    assert constant(b.const(0, DType.F32, (LARGEST_CONSTANT,)), {}) is not None
    assert constant(b.const(0, DType.F32, (LARGEST_CONSTANT + 1,)), {}) is None
    assert constant(b.const(0, DType.F32, (ext.sym(0),)), {}) is None


def test_bind_replaces_symbols():
    b = Builder()
    n = ext.sym(0)
    x = b.input((n, 2), DType.F32)
    program = bind(Program([x], [b.reduce("sum", b.map("add", x, x), [0])], [n * 4]), [3])
    assert program.inputs[0].shape == (3, 2) and program.states == [12]
    np.testing.assert_array_equal(run(program, [np.ones((3, 2), np.float32)])[0], [6, 6])
