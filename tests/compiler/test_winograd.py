"""Convolutions by Winograd's algorithm against NumPy's einsum in float64, for every instruction set the host has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habana_tf.compiler.codegen.tiles import program
from habana_tf.compiler.codegen.tiles import winograd as winograd_module
from habana_tf.compiler.codegen.tiles.kernel import ContractionCall
from habana_tf.compiler.codegen.tiles.program import ContractCode, emit_contract
from habana_tf.compiler.codegen.tiles.winograd import winograd
from habana_tf.compiler.contraction import ContractSpec, Operand, Padding
from habana_tf.hardware.cpu import Isa, Target, target
from habana_tf.ir.dtypes import DType
from tests.child import on_hpu
from tests.compiler.contraction_cases import (
    BF16,
    F32,
    TARGETS,
    Case,
    convolution,
    dense,
    filter_gradient,
    from_bf16,
    input_gradient,
    matmul,
    padded_convolution,
    run,
    to_bf16,
    told,
)
from tests.compiler.point_cases import ScaleAndBias

VECTORS = [t for t in TARGETS if t.vector_bytes >= 32]
pytestmark = pytest.mark.skipif(not VECTORS, reason="a CPU with AVX2 or AVX-512 is wanted")


@pytest.fixture
def however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CHANNELS", "TILES", "GRADIENT_TILES", "SAVED", "WORK"):
        monkeypatch.setattr(winograd_module, f"WINOGRAD_{name}", 1)


def image_convolution(
    sizes: tuple[int, int, int], channels: int, columns: int, pads: tuple[int, int, int, int], dtype: DType,
    gradient: bool,
) -> Case:  # fmt: skip
    """A convolution, or the gradient of its filter, of (images, rows, columns) with padding that is not in memory:
    before and after the rows, before and after the columns."""
    n, h, w = sizes
    oh, ow = h + pads[0] + pads[1] - 2, w + pads[2] + pads[3] - 2
    strides = {"n": h * w * channels, "y": w * channels, "x": channels, "i": w * channels, "j": channels, "c": 1}
    extents = {"n": n, "y": oh, "x": ow, "i": 3, "j": 3, "c": channels, "o": columns}
    order = "ijconyx" if gradient else "nyxoijc"
    listed = [extents[k] for k in order]
    guards = [
        Padding(tuple(int(k in pair) for k in order), -pad, size)
        for pair, pad, before, size in (("yi", pads[0], pads[1], h), ("xj", pads[2], pads[3], w))
        if pad or before
    ]
    a = Operand(dtype, tuple(strides.get(k, 0) for k in order), -pads[0] * w * channels - pads[2] * channels,
                tuple(guards))  # fmt: skip
    b_order = [order.index(k) for k in ("nyxo" if gradient else "ijco")]
    out_order = [order.index(k) for k in ("ijco" if gradient else "nyxo")]
    b = Operand(dtype, tuple(dense(listed, b_order)))
    spec = ContractSpec(tuple(listed), a, b, Operand(dtype, tuple(dense(listed, out_order))))
    rng = np.random.default_rng(sum(listed))
    data = []
    for size in (n * h * w * channels, int(np.prod([listed[k] for k in b_order]))):
        values = rng.standard_normal(size).astype(np.float32)
        data.append(to_bf16(values) if dtype is BF16 else values)
    return Case(spec, data[0], data[1])


def by_winograd(code: ContractCode) -> bool:
    return code.plan is not None and code.plan.winograd is not None


@pytest.mark.usefixtures("however_small")
@pytest.mark.parametrize("tgt", VECTORS, ids=lambda t: f"{t.llvm_cpu}-{t.bf16_products}")
@pytest.mark.parametrize("gradient", [False, True])
def test_images_of_any_size(tgt: Target, gradient: bool) -> None:
    @settings(max_examples=25, deadline=None)
    @given(
        sizes=st.tuples(st.integers(1, 4), st.integers(3, 11), st.integers(3, 11)),
        channels=st.sampled_from([16, 32, 48, 80, 176]),
        columns=st.sampled_from([16, 32, 48, 160, 176] if gradient else [5, 16, 20, 33, 48, 100, 180]),
        pads=st.tuples(*[st.integers(0, 2)] * 4),
        dtype=st.sampled_from([F32, F32, BF16]),
    )
    def check(
        sizes: tuple[int, int, int], channels: int, columns: int, pads: tuple[int, int, int, int], dtype: DType
    ) -> None:
        case = image_convolution(sizes, channels, columns, pads, dtype, gradient)
        code = case.check(tgt)
        results = [case.spec.extents[k] for k in ((5, 6) if gradient else (1, 2))]
        in_pairs = dtype is BF16 and (tgt.bf16_products == "dot" or tgt.tile_engine is not None)
        assert by_winograd(code) == (min(results) >= 3 and not in_pairs)

    check()


@pytest.mark.usefixtures("however_small")
@pytest.mark.parametrize("tgt", VECTORS, ids=lambda t: f"{t.llvm_cpu}-{t.bf16_products}")
@pytest.mark.parametrize("images", [1, 3, 20])
def test_a_number_of_images_known_at_run_time(images: int, tgt: Target) -> None:
    for gradient, symbol in ((False, 0), (True, 4)):
        case = image_convolution((images, 6, 7), 16, 16, (1, 1, 1, 1), F32, gradient)
        assert by_winograd(case.check(tgt, symbol if images > 1 else None))


@pytest.mark.usefixtures("however_small")
@pytest.mark.parametrize("tgt", VECTORS, ids=lambda t: f"{t.llvm_cpu}-{t.bf16_products}")
def test_input_gradients(tgt: Target) -> None:
    """The filter is read backwards, and along its other axis."""
    assert by_winograd(input_gradient(2, 9, 40, 48, 3).check(tgt))
    assert by_winograd(padded_convolution(2, 11, 64, 36, 3, 1, 1, 2, 13, F32, reverse=True).check(tgt))


@pytest.mark.parametrize("make", [convolution, filter_gradient], ids=["results", "gradient"])
def test_sums_do_not_depend_on_the_cut(make: Callable[..., Case]) -> None:
    case = make(5, 20, 64, 64, 3, *([1, 1] if make is convolution else []))
    code = emit_contract(case.spec, target(), "kernel")
    assert by_winograd(code)
    results = []
    for cuts in (1, 2, 7):
        out = np.zeros(case.reference().size, np.float32)
        run(code, target(), {"a": case.a, "b": case.b, "out": out}, cuts)
        results.append(out.tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("make", [convolution, filter_gradient], ids=["results", "gradient"])
def test_as_exact_as_the_definition(make: Callable[..., Case], monkeypatch: pytest.MonkeyPatch) -> None:
    """The root of the mean square of the errors, against float64."""
    case = make(4, 18, 64, 64, 3, *([1, 1] if make is convolution else []))
    want = case.reference()

    def error() -> float:
        code = emit_contract(case.spec, target(), "kernel")
        assert by_winograd(code) == (program.winograd is winograd)
        out = np.zeros(want.shape, np.float32)
        run(code, target(), {"a": case.a, "b": case.b, "out": out})
        return float(np.sqrt(np.mean((out - want) ** 2)))

    found = error()
    monkeypatch.setattr(program, "winograd", lambda *_: None)
    assert found < 1.5 * error()


@pytest.mark.usefixtures("however_small")
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_reaches_the_same_results(value: float) -> None:
    case = image_convolution((1, 9, 8), 16, 16, (1, 1, 1, 1), F32, False)
    case.a[(4 * 8 + 5) * 16 + 3] = value
    case.a[0] = value
    code = emit_contract(case.spec, target(), "kernel")
    out = np.zeros((9, 8, 16), np.float32)
    run(code, target(), {"a": case.a, "b": case.b, "out": out})
    with np.errstate(invalid="ignore"):
        assert (np.isfinite(out) == np.isfinite(case.reference().reshape(out.shape))).all()


@pytest.mark.usefixtures("however_small")
@pytest.mark.parametrize("gradient", [False, True])
def test_epilogue(gradient: bool) -> None:
    case = image_convolution((2, 7, 6), 16, 32 if gradient else 36, (1, 1, 1, 1), F32, gradient)
    size = case.spec.extents[3]
    bias = tuple(int(k == 3) for k in range(7))
    spec = replace(case.spec, also=(bias, case.spec.out.strides))
    code = emit_contract(spec, target(), "kernel", ScaleAndBias(spec, bias))
    assert by_winograd(code)
    want = case.reference()
    b = np.arange(size, dtype=np.float32)
    first, where = np.zeros(want.shape, np.float32), np.zeros(want.shape, np.int64)
    run(code, target(), {"a": case.a, "b": case.b, "bias": b, "first": first, "where": where})
    np.testing.assert_allclose(first, want * 2 + b, rtol=1e-4, atol=1e-3)
    i = np.indices(where.shape)
    np.testing.assert_array_equal(where, ((i[0] * 100 + i[1]) * 100 + i[2]) * 100 + i[3])


@pytest.mark.parametrize(
    "case",
    [
        convolution(2, 19, 32, 32, 3, 2, 1), convolution(2, 19, 32, 32, 3, 1, 2), convolution(2, 19, 32, 32, 5, 1, 1),
        convolution(2, 19, 20, 32, 3, 1, 1), matmul(96, 96, 96), padded_convolution(2, 21, 16, 32, 3, 1, 2, 2, 21, F32),
    ],
    ids=["strided", "dilated", "5 x 5", "20 channels", "no convolution", "dilated, padded"],
)  # fmt: skip
@pytest.mark.usefixtures("however_small")
def test_others_are_computed_by_their_definition(case: Case) -> None:
    tgt = Target(Isa.AVX512, False, "x86-64-v4", "")
    assert winograd(case.spec, tgt) is None


@pytest.mark.parametrize("dtype", [F32, BF16], ids=lambda x: x.label)
def test_bf16_pairs_are_faster_where_a_cpu_multiplies_them(dtype: DType) -> None:
    pairs = told(Target(Isa.AVX512, True, "x86-64-v4", "+avx512bf16"), "dot")
    case = convolution(16, 30, 64, 64, 3, 1, 1, dtype)
    assert (winograd(case.spec, pairs) is None) == (dtype is BF16)
    assert winograd(case.spec, told(pairs, "widen")) is not None


def test_little_code_is_preferred_for_what_takes_less_time_than_more_code() -> None:
    small, large = convolution(2, 30, 64, 64, 3, 1, 1).spec, convolution(16, 30, 128, 128, 3, 1, 1).spec
    assert [winograd(x, target(), compact=True) is None for x in (small, large)] == [True, False]
    assert winograd(small, target()) is not None


def test_of_small_images_too_much_is_edge() -> None:
    made = [convolution(64, size + 2, 64, 64, 3, 1, 1).spec for size in (5, 6, 7)]
    assert [winograd(x, target()) is None for x in made] == [True, False, False]


def test_results_in_bf16_are_rounded_once() -> None:
    case = image_convolution((8, 12, 12), 64, 64, (1, 1, 1, 1), BF16, False)
    widens = told(target(), "widen")
    code = emit_contract(case.spec, widens, "kernel")
    assert by_winograd(code)
    out = np.zeros(case.reference().shape, np.uint16)
    run(code, widens, {"a": case.a, "b": case.b, "out": out})
    want = case.reference()
    assert (np.abs(from_bf16(out) - want) <= np.abs(want) * 2.0**-8 + 1e-4).all()


@on_hpu
def test_in_a_loop_the_filter_is_transformed_before_it() -> None:
    import tensorflow as tf

    from habana_tf.compiler.codegen.tiles import program

    made = []

    def calls(*arguments: Any) -> list[ContractionCall]:
        made.append([call.once for call in convolution_calls(*arguments)])
        return convolution_calls(*arguments)

    numbers = np.random.default_rng(0)
    image = numbers.standard_normal((4, 16, 16, 64)).astype(np.float32)
    filters = (numbers.standard_normal((3, 3, 64, 64)) / 24).astype(np.float32)

    @tf.function
    def repeated(x: Any, w: Any) -> Any:
        for _ in tf.range(5):
            x = tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME")) - 0.3
        return x

    convolution_calls, program.convolution_calls = program.convolution_calls, calls
    found = {}
    try:
        for device in ("/HPU:0", "/CPU:0"):
            with tf.device(device):
                found[device] = repeated(tf.constant(image), tf.constant(filters)).numpy()
    finally:
        program.convolution_calls = convolution_calls
    np.testing.assert_allclose(found["/HPU:0"], found["/CPU:0"], rtol=1e-4, atol=1e-4)
    assert made == [[True, True, False]]
