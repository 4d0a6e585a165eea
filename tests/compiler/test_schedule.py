"""What is kept, what is fused, and that the order of kernels is one that can run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habana_tf.compiler import costs
from habana_tf.compiler.rewrite import rewrite
from habana_tf.compiler.schedule import Schedule, schedule
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Loop, Node, Op, Program
from tests.compiler.running import MATMUL, check
from tests.hardware.bf16_ways import multiply_bf16_by

F = DType.F32


def _plan(b: Builder, *outputs: Node) -> Schedule:
    return schedule(rewrite(Program(b.inputs, list(outputs))))


def _matmul(b: Builder, x: Node, w: Node) -> Node:
    return b.contract(x, w, Contraction((0, 1), (1, 2), (0, 2)))


def test_an_elementwise_chain_is_one_kernel_without_intermediate_buffers() -> None:
    b = Builder()
    x, y = b.input((64, 32), F), b.input((32,), F)
    out = b.map("tanh", b.binary("mul", b.map("exp", x), y))
    plan = _plan(b, out)
    assert len(plan.kernels) == 1
    assert plan.kept == {x, y, out}


def test_bias_and_relu_are_the_epilogue_of_a_matmul_whose_own_result_is_not_stored() -> None:
    b = Builder()
    x, w, bias = b.input((64, 32), F), b.input((32, 48), F), b.input((48,), F)
    out = b.binary("max", b.binary("add", _matmul(b, x, w), bias), b.const(0, F))
    plan = _plan(b, out)
    (kernel,) = plan.kernels
    assert kernel.is_contraction
    assert [s.target for s in kernel.stores] == [out]


def test_a_gradient_and_its_bias_sum_read_memory_once() -> None:
    b = Builder()
    dy, y = b.input((64, 48), F), b.input((64, 48), F)
    dx = b.select(b.binary("gt", y, b.const(0, F)), dy, b.const(0, F))
    plan = _plan(b, dx, b.reduce("sum", dx, [0]))
    (kernel,) = plan.kernels
    assert kernel.is_loop and len(kernel.stores) == 1 and len(kernel.reductions) == 1


def test_a_value_needed_at_another_index_is_not_passed_in_registers() -> None:
    b = Builder()
    x = b.input((40, 40), F)
    y = b.map("exp", x)
    plan = _plan(b, y, b.binary("add", b.permute(y, (1, 0)), x))
    assert len(plan.kernels) == 2


def test_an_expensive_value_that_is_repeated_is_computed_once_per_element() -> None:
    b = Builder()
    x, v = b.input((1000, 32), F), b.input((32,), F)
    plan = _plan(b, b.binary("mul", x, b.map("rsqrt", v)))
    assert [k.domain for k in plan.kernels if k.is_loop] == [(32,), (1000, 32)]


def test_a_tensor_less_its_mean_is_computed_by_each_reader_and_an_erf_of_few_numbers_once() -> None:
    """What is cheaper to compute from a tensor than to write and read again; where a cache holds it, it is not."""
    kept = {}
    for fn, rows in (("neg", 10000), ("erf", 10000), ("erf", 100)):
        b = Builder()
        x, bias = b.input((rows, 64), F), b.input((64,), F)
        biased = b.binary("add", x, bias)
        value = b.map(fn, b.binary("sub", biased, b.reshape(b.reduce("sum", biased, [0]), (1, 64))))
        read = [b.reduce("sum", b.binary("mul", value, b.input((rows, 64), F)), [axis]) for axis in (0, 1)]
        kept[fn, rows] = value in schedule(Program(b.inputs, read)).kept
    assert kept == {("neg", 10000): False, ("erf", 10000): False, ("erf", 100): True}


def test_what_many_read_is_computed_once() -> None:
    b = Builder()
    x = b.input((4096, 64), F)
    value = b.map("tanh", b.map("exp", x))
    sums = [b.reduce("sum", b.binary("mul", value, b.input((4096, 64), F)), [k % 2]) for k in range(12)]
    assert value in schedule(Program(b.inputs, sums)).kept


def test_a_chain_under_overlapping_windows_is_computed_once_per_element() -> None:
    b = Builder()
    x, scale = b.input((4, 64, 64, 16), F), b.input((16,), F)
    chain = b.binary("max", b.binary("sub", b.binary("mul", x, scale), scale), b.const(0, F))
    windows = b.window(chain, (1, 2), (3, 3), (1, 1), (1, 1))
    assert chain in _plan(b, b.reduce("max", windows, [4, 5])).kept


def test_windows_of_bf16_that_are_read_twice_are_not_kept_as_fp32() -> None:
    """As of fp32, whose windows are not kept either: a depthwise convolution and its gradient both read them, and a
    copy has nine times as many elements."""
    kept = {}
    for dtype in (F, DType.BF16):
        b = Builder()
        x, w, dy = b.input((4, 8, 8, 16), dtype), b.input((16, 3, 3), dtype), b.input((4, 8, 8, 16), dtype)
        padded = b.pad(x, [0, 1, 1, 0], [0, 1, 1, 0])
        windows = b.cast(b.window(padded, (1, 2), (3, 3), (1, 1), (1, 1)), F)
        forward = b.reduce("sum", b.binary("mul", windows, b.cast(w, F)), [4, 5])
        backward = b.reduce("sum", b.binary("mul", windows, b.reshape(b.cast(dy, F), [4, 8, 8, 16, 1, 1])), [0, 1, 2])
        kept[dtype] = {n.shape for n in _plan(b, forward, backward).kept}
    assert kept[F] == kept[DType.BF16] == {(4, 8, 8, 16), (16, 3, 3)}


def _rounded(b: Builder, x: Node) -> Node:
    """TensorFlow's Cast to bfloat16, and its use in fp32."""
    return b.cast(b.map("stored", b.cast(x, DType.BF16)), F)


@pytest.mark.parametrize("rounds", [True, False])
def test_what_many_points_would_round_again_is_kept_unless_an_instruction_rounds(rounds: bool) -> None:
    """A depthwise filter in fp32, which a convolution in bf16 reads for each image."""
    b = Builder()
    x, w = b.input((4, 8, 8, 16), DType.BF16), b.input((16, 3, 3), F)
    windows = b.cast(b.window(b.pad(x, [0, 1, 1, 0], [0, 1, 1, 0]), (1, 2), (3, 3), (1, 1), (1, 1)), F)
    program = Program(b.inputs, [b.reduce("sum", b.binary("mul", windows, _rounded(b, w)), [4, 5])])
    kept = schedule(rewrite(program), rounding=costs.bf16_rounding(rounds)).kept.difference(program.inputs)
    assert ((16, 3, 3) in {n.shape for n in kept}) is not rounds
    images, filters = np.random.default_rng(0).normal(size=(4, 8, 8, 16)), np.random.default_rng(1).normal(size=w.shape)
    check(program, [images.astype(DType.BF16.numpy), filters.astype(np.float32)], rtol=1e-4, atol=1e-4)


def test_what_is_in_memory_is_rounded_already() -> None:
    """A gradient in bf16, which an optimizer reads twice, is no tensor beside the product's result."""
    b = Builder()
    gradient = b.map("stored", _matmul(b, b.input((32, 64), DType.BF16), b.input((64, 16), DType.BF16)))
    outputs = [b.map(fn, b.binary("add", b.cast(gradient, F), b.input((32, 16), F))) for fn in ("exp", "tanh")]
    plan = schedule(rewrite(Program(b.inputs, outputs)), rounding=costs.bf16_rounding(False))
    assert plan.kept.isdisjoint([gradient]) and len(plan.kernels) == 1


@pytest.mark.parametrize(
    "rounds, pooled, product_read_by, stored",
    [
        (False, True, "", ["active"]),
        (True, True, "", ["product"]),
        (False, False, "", ["product"]),
        (False, True, "a sum", ["product"]),
        (False, True, "the caller", ["product"]),
    ],
)
def test_a_pooled_activation_takes_its_products_place(
    rounds: bool, pooled: bool, product_read_by: str, stored: list[str]
) -> None:
    """Unless an instruction rounds, nothing is read at another point, or the product is read by others."""
    b = Builder()
    product = _matmul(b, b.input((4096, 32), DType.BF16), b.input((32, 64), DType.BF16))
    biased = b.cast(b.binary("add", product, b.input((64,), DType.BF16)), F)
    active = b.cast(b.binary("max", biased, b.const(0, F)), DType.BF16)
    dy = b.input((4096, 64), DType.BF16)
    outputs = [b.reduce("sum", b.map("select", b.binary("gt", active, b.const(0, DType.BF16)), dy, active), [1])]
    if pooled:
        outputs += [b.reduce(kind, b.reshape(active, (1024, 4, 64)), [1]) for kind in ("max", "argmax")]
    outputs += {"a sum": [b.reduce("sum", b.binary("mul", product, dy), [1])], "the caller": [product]}.get(
        product_read_by, []
    )
    plan = schedule(rewrite(Program(b.inputs, outputs)), rounding=costs.bf16_rounding(rounds))
    targets = [s.target for kernel in plan.kernels for s in kernel.stores]
    assert [name for name, node in (("product", product), ("active", active)) if node in targets] == stored


def test_fusing_never_makes_a_cycle() -> None:
    b = Builder()
    x = b.input((64, 64), F)
    a = b.map("exp", x)
    total = b.reshape(b.reduce("sum", a, [0]), (1, 64))
    c = b.binary("div", a, total)  # reads a at the same index, but also what is computed from a
    plan = _plan(b, a, c)
    written: set[Node] = set(b.inputs)
    for kernel in plan.kernels:
        assert set(kernel.reads) <= written
        written |= set(kernel.outputs)
    check(Program(b.inputs, [a, c]), [np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)])


@pytest.mark.parametrize("axis", [0, 1])
def test_a_product_goes_where_its_concatenation_wants_it(axis: int) -> None:
    """The store is part of the contraction: no copy."""
    b = Builder()
    x, y = b.input((33, 20), F), b.input((20, 20), F)
    product = _matmul(b, x, y)
    joined = b.concat([x, product, b.map("tanh", product)], axis)
    program = Program(b.inputs, [joined, b.reduce("sum", joined, [1 - axis])])
    contraction = next(k for k in schedule(rewrite(program)).kernels if k.is_contraction)
    assert [s.target.op for s in contraction.stores].count(Op.CONCAT) == 2
    numbers = np.random.default_rng(0)
    check(program, [numbers.normal(size=n.shape).astype(np.float32) for n in b.inputs], rtol=1e-4)


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_of_a_whole_that_read_alike_are_one_kernel(axis: int) -> None:
    """So are the gradients of an LSTM's gates: each read all that the others do."""
    b = Builder()
    x, y = b.input((16, 128), F), b.input((16, 128), F)
    product = b.map("mul", x, y)
    parts = [product, b.map("add", x, y), b.map("tanh", product), b.map("neg", y)]
    program = Program(b.inputs, [b.concat(parts, axis), product])
    (kernel,) = schedule(rewrite(program)).kernels
    assert [s.target.op for s in kernel.stores].count(Op.CONCAT) == 4
    numbers = np.random.default_rng(0)
    check(program, [numbers.normal(size=n.shape).astype(np.float32) for n in b.inputs], rtol=1e-6)


def test_a_whole_is_read_behind_all_of_its_parts() -> None:
    """A reader of the whole stands at another index than the parts were written."""
    b = Builder()
    x, y = b.input((16, 128), F), b.input((16, 128), F)
    whole = b.concat([b.map("mul", x, y), b.map("add", x, y)], 1)
    first = b.slice(whole, (0, 64), (16, 128))
    program = Program(b.inputs, [whole, b.map("sub", first, x)])
    assert len(schedule(rewrite(program)).kernels) == 2
    numbers = np.random.default_rng(0)
    check(program, [numbers.normal(size=n.shape).astype(np.float32) for n in b.inputs], rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_graphs_compute_what_the_interpreter_computes(data: st.DataObject) -> None:
    b = Builder()
    rows, columns = data.draw(st.sampled_from([(8, 12), (33, 17), (64, 64)]))
    pool = [b.input((rows, columns), F), b.input((rows, columns), F)]
    row, column = b.input((columns,), F), b.input((rows, 1), F)
    outputs: list[Node] = []
    for _ in range(data.draw(st.integers(3, 14))):
        x = data.draw(st.sampled_from(pool))
        kind = data.draw(
            st.sampled_from(
                ["map", "binary", "row", "sum0", "sum1", "softmax", "keep", "matmul", "product", "concat", "argmax"]
            )
        )
        if kind == "map":
            pool.append(b.map(data.draw(st.sampled_from(["tanh", "neg", "sigmoid"])), x))
        elif kind == "binary":
            pool.append(
                b.binary(data.draw(st.sampled_from(["add", "sub", "max"])), x, data.draw(st.sampled_from(pool)))
            )
        elif kind == "row":
            pool.append(b.binary("add", x, data.draw(st.sampled_from([row, column]))))
        elif kind == "sum0":
            pool.append(b.binary("sub", x, b.reduce("max", x, [0])))
        elif kind == "sum1":
            pool.append(b.binary("mul", b.map("tanh", x), b.map("tanh", b.reshape(b.reduce("sum", x, [1]), (rows, 1)))))
        elif kind == "softmax":
            e = b.map("exp", b.binary("sub", x, b.reshape(b.reduce("max", x, [1]), (rows, 1))))
            pool.append(b.binary("div", e, b.reshape(b.reduce("sum", e, [1]), (rows, 1))))
        elif kind == "matmul":
            square = b.contract(x, b.map("tanh", x), Contraction((0, 1), (2, 1), (0, 2)))
            pool.append(b.binary("add", b.map("tanh", b.contract(square, x, Contraction((0, 1), (1, 2), (0, 2)))), row))
        elif kind == "product":  # scaled, so that chains of them stay small
            scaled = b.binary("mul", data.draw(st.sampled_from(pool)), b.const(1 / columns, F))
            pool.append(b.contract(x, b.contract(x, scaled, Contraction((2, 0), (2, 1), (0, 1))),
                                   Contraction((0, 1), (1, 2), (0, 2))))  # fmt: skip
        elif kind == "concat":
            axis, shape = data.draw(st.integers(0, 1)), (rows, columns)
            joined = b.concat([x, data.draw(st.sampled_from(pool)), x], axis)
            outputs.append(b.reduce("max", joined, [1 - axis]))
            begin = [0, 0]
            begin[axis] = data.draw(st.integers(0, 2 * shape[axis]))
            pool.append(b.slice(joined, begin, shape))
        elif kind == "argmax":
            outputs.append(b.reduce("argmax", b.map("rint", x), [1], DType.I32))
        else:
            outputs.append(x)
    outputs.append(pool[-1])
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=[int(n) for n in i.shape]).astype(np.float32) for i in b.inputs]
    kept = [o for o in dict.fromkeys(outputs) if o.op is not Op.INPUT and o.dtype.is_float] or [pool[-1]]
    check(Program(b.inputs, kept), arrays, rtol=2e-3, atol=2e-3)


def _products(trips: int, rows: int, dtype: DType = DType.F32, transposed: bool = False) -> Program:
    """x = tanh(x @ w), so many times."""
    body = Builder()
    x, w = body.input((rows, 40), dtype), body.input((40, 40), dtype)
    spec = Contraction((0, 1), (2, 1), (0, 2)) if transposed else MATMUL
    loop = Loop(trips, Program(body.inputs, [body.map("tanh", body.contract(x, w, spec))]), 1)
    b = Builder()
    return Program(b.inputs, b.loop(loop, [b.input(n.shape, dtype) for n in (x, w)]))


def _agree(program: Program, tolerance: float = 1e-5) -> list[str]:
    """What the kernels of a program do, which computes what the interpreter does."""
    rng = np.random.default_rng(0)
    arrays = [(rng.normal(size=n.shape) / 8).astype(n.dtype.numpy) for n in program.inputs]
    return [row["does"] for row in check(program, arrays, rtol=tolerance, atol=tolerance).kernels]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rows", [5, 32])
def test_weights_that_all_iterations_share_are_packed_before_the_first(
    rows: int, transposed: bool, isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In numbers: pairs of bf16 are packed in every iteration."""
    multiply_bf16_by("widen", monkeypatch)
    program = _products(9, rows, transposed=transposed)
    assert _agree(program) == ["copy", "contract"]
    assert _agree(_products(9, rows, DType.BF16, transposed), 3e-2)[0] == "copy"
    assert "copy" not in _agree(_products(costs.COPIED_TRIPS - 1, rows, transposed=transposed))
    assert "copy" not in _agree(_products(9, 1, transposed=transposed))


def test_weights_of_an_iteration_are_packed_in_it() -> None:
    """What an outer loop changes is packed anew for the inner one, and what a loop itself changes is not at all."""
    inner = _products(5, 6).outputs[0].arg[0]
    body = Builder()
    x, w = body.input((6, 40), DType.F32), body.input((40, 40), DType.F32)
    more = body.contract(w, w, MATMUL)
    (made,) = body.loop(inner, [x, w])
    loop = Loop(4, Program(body.inputs, [made, body.map("tanh", more)]), 2)
    b = Builder()
    program = Program(b.inputs, b.loop(loop, [b.input(n.shape, DType.F32) for n in (x, w)]))
    assert _agree(program).count("copy") == 1
