"""The time of a cluster's units, worked out by hand from the constants of Gaudi2."""

from __future__ import annotations

from dataclasses import replace

import pytest

from habana_tf.card.model.cluster_time import ClusterTime, cluster_time
from habana_tf.card.model.lowered import Lowered
from habana_tf.card.model.parameters import LATEST_FITTED, Parameters
from habana_tf.hardware.chips import chip, chips
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Loop, Program
from tests.card.model.programs import MATMUL, MIB, PLAIN, cluster, product_and_relu

MACS, MME_CLOCK, HBM = 131_072, 1.65e9, 0.85 * 2.45e12
TPC = 24 * 1.8e9
"""Vector instructions per second of all vector processors at their peak."""


def timed(lowered: Lowered, parameters: Parameters = PLAIN) -> ClusterTime:
    return cluster_time(chip("gaudi2"), lowered.program, frozenset(lowered.made.values()), parameters)


def test_a_product_and_what_follows_it() -> None:
    found = timed(product_and_relu())
    product, kernel = found.units
    assert product.busy == pytest.approx(4096 * 1024 * 1024 / MACS / MME_CLOCK)
    assert product.memory == pytest.approx(10 * MIB / HBM) and product.flops == 2 * 4096 * 1024 * 1024
    assert kernel.busy == pytest.approx(8 * MIB / 256 / TPC) and kernel.memory == pytest.approx(8 * MIB / HBM)
    assert (product.engine, product.bound) == ("MME", "MME") and (kernel.engine, kernel.bound) == ("TPC", "memory")
    assert product.seconds == pytest.approx(product.busy + product.memory / 2)
    assert kernel.seconds == pytest.approx(kernel.memory + kernel.busy / 2)
    memory = product.memory + kernel.memory
    assert product.busy > memory > kernel.busy, "MME, then HBM, half of which is hidden, then TPC, which is"
    assert found.seconds == pytest.approx(product.busy + memory / 2)
    assert found.hidden == pytest.approx(product.seconds + kernel.seconds - found.seconds)
    assert product.bundle == kernel.bundle == 0


def test_parameters_do_what_their_names_say() -> None:
    lowered = product_and_relu()
    best = timed(lowered)
    matrix, memory = best.units[0].busy, sum(u.memory for u in best.units)
    assert timed(lowered, replace(PLAIN, hidden=0.0)).seconds == pytest.approx(matrix + memory)
    assert timed(lowered, replace(PLAIN, hidden=1.0)).seconds == pytest.approx(max(matrix, memory))
    slow = timed(lowered, replace(PLAIN, tpc_rate=0.01))
    assert slow.units[1].busy == pytest.approx(100 * best.units[1].busy) and slow.units[1].bound == "TPC"
    late = timed(lowered, replace(PLAIN, launch=1e-3))
    assert [u.seconds for u in late.units] == pytest.approx([1e-3 + u.seconds for u in best.units])
    assert {u.bound for u in late.units} == {"launch"} and late.seconds == pytest.approx(best.seconds + 2e-3)


def product(rows: int, common: int, columns: int, more: bool = False) -> Lowered:
    """x w in bf16, a result; more: another product with the same x is one, too."""
    b = Builder()
    x = b.input((rows, common), DType.BF16)
    made = [b.contract(x, b.input((common, columns), DType.BF16), MATMUL) for _ in range(1 + more)]
    return cluster(b, made, list(range(1 + more)))


def test_in_a_chain_engines_work_side_by_side_within_a_bundle_and_each_product_is_as_fast_as_a_single_one() -> None:
    slow, known = replace(PLAIN, streamed=0.5, gaudi3=0.5), chip("gaudi3")

    def of(lowered: Lowered, chain: bool) -> ClusterTime:
        return cluster_time(known, lowered.program, frozenset(lowered.made.values()), slow, chain)

    one, two = product(8192, 4096, 8192), product(8192, 4096, 8192, more=True)
    assert of(two, True).seconds == pytest.approx(2 * of(one, False).seconds)
    assert of(two, False).seconds > 1.2 * of(two, True).seconds
    fused = of(product_and_relu(), True)
    assert len(fused.units) == 2 and fused.seconds == of(product_and_relu(), False).seconds, "they are one bundle"


@pytest.mark.parametrize(
    ("name", "shape", "teraflops", "error"),
    [
        ("gaudi2", (16384, 8192, 1280), 395.4, 0.08),
        ("gaudi2", (16384, 8192, 7168), 425.2, 0.08),
        ("gaudi2", (4096, 4096, 4096), 408.2, 0.08),
        ("gaudi2", (16384, 16384, 16384), 379.8, 0.14),
        ("gaudi2", (14336, 2048, 15360), 418.7, 0.08),
        ("gaudi3", (16384, 768, 4096), 1243.0, 0.15),
    ],
)
def test_a_product_by_itself_is_as_fast_as_published(
    name: str, shape: tuple[int, int, int], teraflops: float, error: float
) -> None:
    """Measured on cards by NAVER and by stas00/ml-engineering. In a program with others large ones are slower."""
    rows, common, columns = shape
    alone, both = (product(*shape, more) for more in (False, True))
    one, two = (
        cluster_time(chip(name), each.program, frozenset(each.made.values()), LATEST_FITTED).seconds
        for each in (alone, both)
    )
    assert 2 * rows * common * columns / one / 1e12 == pytest.approx(teraflops, rel=error)
    assert two > 1.9 * one


def test_the_units_of_a_cluster_are_never_less_than_it() -> None:
    """Whatever of MME, TPC and HBM takes the longest."""
    lowered = product_and_relu()
    for hidden in (0.0, 0.5, 1.0):
        for rate in (1.0, 0.1, 0.01):
            for each in chips():
                results = frozenset(lowered.made.values())
                found = cluster_time(each, lowered.program, results, replace(PLAIN, hidden=hidden, tpc_rate=rate))
                assert found.hidden >= -1e-12, (hidden, rate, each.name)


def test_units_are_done_in_the_order_of_the_longest_path() -> None:
    """The product is done before its kernel, which is done when all is; a kernel of its own depends on nothing."""
    b = Builder()
    x, w = b.input((4096, 1024), DType.BF16), b.input((1024, 1024), DType.BF16)
    y = b.contract(x, w, MATMUL)
    lowered = cluster(b, [y, b.map("tanh", y), b.map("exp", w)], [1, 2])
    found = timed(lowered)
    product, after, alone = (found.finished[u.unit.index] for u in found.units)
    path = found.units[0].seconds + found.units[1].seconds
    assert after == pytest.approx(found.seconds)
    assert product == pytest.approx(found.seconds * found.units[0].seconds / path)
    assert alone == pytest.approx(found.seconds * found.units[2].seconds / path)


def test_a_loop_takes_its_body_as_often_as_it_goes_round() -> None:
    body = Builder()
    state, weights = body.input((128, 128), DType.BF16), body.input((128, 128), DType.BF16)
    inner = Program(body.inputs, [body.map("tanh", body.contract(state, weights, MATMUL))])
    b = Builder()
    start, w = b.input((128, 128), DType.BF16), b.input((128, 128), DType.BF16)
    (last,) = b.loop(Loop(50, inner, 1), [start, w])
    found = timed(cluster(b, [last], [0]))
    once = cluster_time(chip("gaudi2"), inner, frozenset(), PLAIN)
    (unit,) = found.units
    assert once.seconds > 0 and unit.busy == pytest.approx(50 * once.seconds)
    assert unit.flops == 50 * 2 * 128**3


def test_nothing_takes_no_time() -> None:
    b = Builder()
    x = b.input((4, 4), DType.F32)
    found = timed(cluster(b, [b.permute(x, (1, 0))], [0]))
    assert (found.units, found.seconds, found.finished) == ([], 0.0, [])


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_and_tiny_tensors_have_a_time(rows: int) -> None:
    b = Builder()
    x, w = b.input((rows, 64), DType.F32), b.input((64, 5), DType.F32)
    y = b.contract(x, w, MATMUL)
    found = timed(cluster(b, [y, b.map("tanh", y)], [1]), replace(PLAIN, launch=1e-6))
    assert found.seconds >= 1e-6 and all(u.seconds >= 1e-6 for u in found.units)
