"""bfloat16 inside a kernel keeps float32's digits until it is stored, and no function may tell that it does: what is
compared, cast or ordered is what was stored. The oracle is NumPy on the outputs that were stored beside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from habana_tf.compiler.codegen.generate import generate
from habana_tf.compiler.point_values import Apply
from habana_tf.compiler.schedule import schedule
from habana_tf.hardware import cpu
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node, Op, Program
from tests.child import on_hpu
from tests.compiler.running import MATMUL, check, compiled

BF16, F32 = DType.BF16, DType.F32
SHAPE = (16, 48)


def _product(b: Builder) -> Node:
    """Numbers with more digits than bfloat16 has, of a map."""
    return b.map("mul", b.map("mul", b.input(SHAPE, BF16), b.input(SHAPE, BF16)), b.input(SHAPE, BF16))


def _contraction(b: Builder) -> Node:
    """The same, of a product whose epilogue goes on with them."""
    sums = b.contract(b.input((SHAPE[0], 20), BF16), b.input((20, SHAPE[1]), BF16), MATMUL)
    return b.map("add", sums, b.expand(b.reshape(b.input(SHAPE[1:], BF16), (1, SHAPE[1])), SHAPE))


def _run(make: Callable[[Builder], Node], see: Callable[[Builder, Node], Node]) -> tuple[np.ndarray, np.ndarray]:
    """What is stored, in float32, and what a function saw: the same where nothing else wants it stored, which changes
    what else a product's epilogue rounds."""
    b, rng = Builder(), np.random.default_rng(0)
    x = make(b)
    arrays = [rng.standard_normal([int(n) for n in i.shape]).astype(BF16.numpy) for i in b.inputs]
    alone = Program(b.inputs, [see(b, x)])
    (stored, seen), _ = compiled(Program(b.inputs, [x, *alone.outputs]), arrays)
    if not any(n.op is Op.CONTRACT for n in alone.nodes()):
        np.testing.assert_array_equal(compiled(alone, arrays)[0][0], seen)
    return stored.astype(np.float32), seen


@pytest.fixture(params=["auto", "avx2", "portable"])
def any_isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an instruction that rounds, and without; with masks for lanes of 16 bits, and without."""
    if request.param == "avx2" and cpu.Isa.AVX2 not in cpu.host().instruction_sets:
        pytest.skip("this CPU has no AVX2")
    monkeypatch.setenv("HABANA_SIM_ISA", request.param)


@pytest.mark.parametrize("make", [_product, _contraction])
@pytest.mark.usefixtures("any_isa")
def test_casts_and_rounding(make: Callable[[Builder], Node]) -> None:
    stored, seen = _run(make, lambda b, x: b.cast(b.map("stored", x), F32))
    np.testing.assert_array_equal(seen, stored)
    stored, seen = _run(make, lambda b, x: b.cast(b.map("stored", x), DType.I32))
    np.testing.assert_array_equal(seen, stored.astype(np.int32))
    stored, seen = _run(make, lambda b, x: b.map("floor", x))
    np.testing.assert_array_equal(seen.astype(np.float32), np.floor(stored))
    stored, seen = _run(make, lambda b, x: b.cast(b.map("stored", b.map("max", x, b.map("neg", x))), F32))
    np.testing.assert_array_equal(seen, np.abs(stored))


@pytest.mark.parametrize("make", [_product, _contraction])
def test_a_number_is_equal_to_itself_stored(make: Callable[[Builder], Node]) -> None:
    """The gradient of a maximum goes to the elements that are equal to it."""

    def best(b: Builder, x: Node) -> Node:
        most = b.expand(b.reshape(b.reduce("max", x, [1]), (SHAPE[0], 1)), SHAPE)
        return b.map("eq", x, most)

    stored, seen = _run(make, best)
    np.testing.assert_array_equal(seen, stored == stored.max(1, keepdims=True))


def test_what_is_infinite_once_it_is_stored() -> None:
    """Between bfloat16's largest number and float32's: a scaled loss asks whether its gradients are finite."""
    b = Builder()
    x, y = b.input((16,), BF16), b.input((16,), BF16)
    product = b.map("mul", x, y)
    program = Program(b.inputs, [b.map("isinf", product), b.map("isfinite", product)])
    root = 181 / 128  # its square is 1.99957, which rounds to 2
    arrays = [np.array([root, 1.0] * 8, np.float32) * np.float32(2.0**63), np.full(16, root * 2.0**64, np.float32)]
    (inf, finite), _ = compiled(program, [a.astype(BF16.numpy) for a in arrays])
    want = (arrays[0] * arrays[1]).astype(BF16.numpy).astype(np.float32)
    np.testing.assert_array_equal(inf, np.isinf(want))
    np.testing.assert_array_equal(finite, [False, True] * 8)


@pytest.mark.parametrize("make", [_product, _contraction])
def test_order(make: Callable[[Builder], Node]) -> None:
    """Of numbers that are equal once they are stored, the first comes first."""

    def coarse(b: Builder) -> Node:
        far = b.expand(b.const(512.0, BF16), SHAPE)
        return b.map("add", make(b), far)  # steps of 2 or 4

    stored, seen = _run(coarse, lambda b, x: b.sort(x, 1))
    np.testing.assert_array_equal(seen, np.argsort(stored, 1, kind="stable"))
    stored, seen = _run(coarse, lambda b, x: b.reduce("argmax", x, [1], DType.I64))
    np.testing.assert_array_equal(seen, stored.argmax(1))


def test_what_has_no_more_digits_is_not_rounded_again() -> None:
    """The maximum of two numbers in bfloat16, computed in float32 as a formula does, is one: what is stored is rounded
    by storing it."""
    b = Builder()
    x, y = b.input((64,), BF16), b.input((64,), BF16)
    most = b.cast(b.map("max", b.cast(x, F32), b.cast(y, F32)), BF16)
    (kernel,) = schedule(Program(b.inputs, [b.map("select", b.map("gt", most, x), most, y)])).kernels
    casts = [v for v in kernel.values if isinstance(v, Apply) and v.fn == "cast"]
    assert len(casts) == 3 and all(v.is_free for v in casts)


def test_storing_rounds() -> None:
    b = Builder()
    x, y = b.input((64,), BF16), b.input((64,), BF16)
    total = b.cast(b.map("add", b.cast(x, F32), b.cast(y, F32)), BF16)
    (kernel,) = schedule(Program(b.inputs, [total])).kernels
    (store,) = kernel.stores
    assert isinstance(store.value, Apply) and store.value.fn == "add"


@on_hpu
def test_in_a_function_as_eagerly() -> None:
    b = tf.cast(tf.constant([0.1, 0.3, 1.2345]), tf.bfloat16)
    got = tf.function(lambda b: (tf.cos(b), tf.cast(tf.cos(b), tf.float32), tf.cast(tf.cos(b) * 1000, tf.int32)))(b)
    np.testing.assert_array_equal(tf.cast(got[0], tf.float32), got[1])
    np.testing.assert_array_equal(tf.cast(tf.cos(b) * 1000, tf.int32), got[2])


def test_what_is_not_seen_keeps_its_digits() -> None:
    """(x * x + 1) - 1 loses x's digits where it is rounded after each step."""
    b, x = Builder(), np.full(64, 0.1, np.float32).astype(BF16.numpy)
    v = b.input((64,), BF16)
    one = b.expand(b.const(1.0, BF16), (64,))
    program = Program(b.inputs, [b.map("sub", b.map("add", b.map("mul", v, v), one), one)])
    (got,), _ = compiled(program, [x])
    exact = x.astype(np.float64) ** 2
    assert abs(got.astype(np.float64) - exact).max() < 2e-5  # stepwise it would be 0.0078 instead of 0.01


@pytest.mark.usefixtures("any_isa")
def test_rounding_is_to_nearest_even_and_keeps_nan() -> None:
    """Of all kinds of float32: ties, what overflows, and NaN whose payload is in the lower half, or all ones."""
    words = [0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x80000000, 0x00800000]
    nans = [0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000, 0x7F80FFFF]
    x = np.array([*words, *nans] * 5, np.uint32).view(np.float32)
    b = Builder()
    rounded = b.cast(b.input(x.shape, F32), BF16)
    program = Program(b.inputs, [b.map("abs", b.cast(rounded, F32)), rounded])
    (inside, stored), _ = compiled(program, [x])
    with np.errstate(invalid="ignore"):
        want = np.abs(x.astype(tf.bfloat16.as_numpy_dtype).astype(np.float32))
    np.testing.assert_array_equal(inside, want)
    np.testing.assert_array_equal(np.abs(stored.astype(np.float32)), want)


@pytest.mark.usefixtures("any_isa")
def test_a_pooled_activation_is_compared_as_it_is_stored() -> None:
    """The product's sums are whole numbers below 256, so that only what the bias adds is rounded."""
    b, rng = Builder(), np.random.default_rng(0)
    x, w, bias = b.input((96, 40), BF16), b.input((40, 48), BF16), b.input((48,), BF16)
    biased = b.cast(b.binary("add", b.contract(x, w, MATMUL), bias), F32)
    active = b.cast(b.binary("max", biased, b.const(0, F32)), BF16)
    groups = b.reshape(active, (24, 4, 48))
    best, where = (b.reduce(kind, groups, [1]) for kind in ("max", "argmax"))
    program = Program(b.inputs, [best, where, b.binary("gt", active, b.const(0, BF16))])
    left, right = rng.integers(-2, 3, x.shape), rng.integers(-2, 3, w.shape)
    small = rng.normal(size=48).astype(BF16.numpy)
    (got, position, positive), _ = compiled(program, [left.astype(BF16.numpy), right.astype(BF16.numpy), small])
    exact = left @ right + small.astype(np.float64)
    want = np.maximum(exact, 0).astype(np.float32).astype(BF16.numpy).astype(np.float32)
    np.testing.assert_array_equal(got.astype(np.float32), want.reshape(24, 4, 48).max(1))
    np.testing.assert_array_equal(position, want.reshape(24, 4, 48).argmax(1))
    np.testing.assert_array_equal(positive, exact > 0)


@pytest.mark.parametrize("make", [_product, _contraction])
def test_what_is_stored_and_seen_is_rounded_once(make: Callable[[Builder], Node]) -> None:
    """On a CPU that takes ten instructions for it; what was loaded is not rounded at all."""
    b = Builder()
    x = make(b)
    seen, copied = b.cast(b.map("stored", x), F32), b.slice(b.input((16, 50), BF16), (0, 1), SHAPE)
    counts = [_avx2(Program(b.inputs, outputs)).count(str(0x7FFF)) for outputs in ([x], [x, seen], [x, copied])]
    assert counts[0] > 0 and counts == [counts[0]] * 3


def _avx2(program: Program) -> str:
    """The IR of a program for a CPU with AVX2."""
    texts: list[str] = []
    generate(schedule(program), cpu.any_cpu(cpu.Isa.AVX2), texts.append, 1 << 20)
    return "".join(texts)


def test_what_decides_for_a_whole_vector_is_no_branch() -> None:
    """Every other row and column of a strided convolution's gradient is padding: a branch for each tap of the filter
    would be mispredicted at each. fp32 has masks for it."""
    branches = {}
    for dtype in (BF16, F32):
        b = Builder()
        dy, w = b.input((2, 10, 10, 16), dtype), b.input((16, 3, 3), dtype)
        apart = b.pad(dy, [0, 2, 2, 0], [0, 2, 2, 0], interior=[0, 1, 1, 0])
        taps = b.cast(b.window(apart, (1, 2), (3, 3), (1, 1), (1, 1)), F32)
        program = Program(b.inputs, [b.reduce("sum", b.binary("mul", taps, b.cast(w, F32)), [4, 5])])
        branches[dtype] = _avx2(program).count("br i1")
    assert branches[BF16] == branches[F32]


@pytest.mark.parametrize("channels", [3, 8, 24, 37])
@pytest.mark.usefixtures("any_isa")
def test_padding_is_never_read(channels: int) -> None:
    """Windows that reach over an image's edge have zeros there, whatever lies before and behind it in memory."""
    b, rng = Builder(), np.random.default_rng(channels)
    x = b.input((2, 9, 7, channels), BF16)
    windows = b.window(b.pad(x, [0, 1, 1, 0], [0, 1, 1, 0]), (1, 2), (3, 3), (2, 1), (1, 1))
    program = Program(b.inputs, [b.reduce("sum", b.cast(windows, F32), (4, 5)), b.reduce("max", windows, (4, 5))])
    image = rng.standard_normal(x.shape)
    image[:, 0], image[:, :, -1] = np.inf, np.nan
    check(program, [image.astype(tf.bfloat16.as_numpy_dtype)], rtol=1e-5)
