"""The schedule of a launch's units: what must hold of any launch, and moments worked out by hand."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from habana_tf.card.model.cluster_time import ClusterTime, cluster_time
from habana_tf.card.model.engine_schedule import PIECES, EngineSchedule, engine_schedule
from habana_tf.card.model.kernels import in_slices
from habana_tf.card.model.lowered import Lowered
from habana_tf.card.model.parameters import FITTED, Parameters
from habana_tf.hardware.chips import Chip, chip, chips
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from tests.card.model.programs import MATMUL, PLAIN, cluster, product_and_relu
from tests.child import on_hpu


def timed(lowered: Lowered, parameters: Parameters = PLAIN, on: Chip | None = None) -> ClusterTime:
    return cluster_time(on or chip("gaudi2"), lowered.program, frozenset(lowered.made.values()), parameters)


def overlap(spans: list[tuple[float, float]], others: list[tuple[float, float]]) -> float:
    """By all pairs."""
    pairs = itertools.product(spans, others)
    return sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in pairs)


def check(time: ClusterTime, on: EngineSchedule) -> None:
    """What the module's docstring says."""
    exact = {"rel": 1e-9, "abs": 1e-15}
    tiny = 1e-9 * time.seconds
    spans = [(at, at + took) for at, took in zip(on.starts, on.seconds, strict=True)]
    engines = [[spans[u.unit.index] for u in time.units if u.unit.product is product] for product in (True, False)]
    for engine in engines:
        assert all(a[1] <= b[0] + tiny for a, b in itertools.pairwise(sorted(engine))), "two on one lane"
    assert on.seconds == [pytest.approx(u.seconds * on.drawn, **exact) for u in time.units]
    maker = {n: u.unit.index for u in time.units for n in u.unit.results}
    for u in time.units:
        start, end = spans[u.unit.index]
        assert start >= 0
        for made in (maker[t] for t in u.unit.loads if t in maker):
            first, last = spans[made]
            assert start >= first + (last - first) / PIECES - tiny, "begins behind the first slice"
            assert end >= last + (end - start) / PIECES - tiny, "ends behind the last"
            waits = [t for t in u.unit.loads if maker.get(t) == made and not in_slices(t)]
            assert not waits or start >= last - tiny, "begins when all of it is there"
    assert max((end for _, end in spans), default=0.0) == pytest.approx(time.seconds, **exact)
    both = overlap(*engines)
    assert on.overlap == pytest.approx(both, rel=1e-6, abs=1e-12)
    busy = sum(on.seconds) - both
    assert busy == pytest.approx(time.seconds, rel=1e-6), "at every moment some engine works"
    if on.drawn == 1.0:
        assert both == pytest.approx(time.hidden, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("known", chips(), ids=lambda known: known.name)
def test_a_kernel_begins_while_its_product_works(known: Chip) -> None:
    for rows in (64, 4096, 65536):
        time = timed(product_and_relu(rows), FITTED, known)
        on = engine_schedule(time)
        check(time, on)
        product, _ = time.units
        assert on.starts[0] == 0.0 and 0 < on.starts[1] < product.seconds
        if on.drawn == 1.0:
            assert on.starts[1] == pytest.approx(product.seconds - time.hidden)


def test_what_is_not_hidden_is_one_after_the_other() -> None:
    """With nothing hidden only the least of MME, TPC and HBM lies beside the others: the kernel's instructions."""
    time = timed(product_and_relu(), replace(PLAIN, hidden=0.0))
    on = engine_schedule(time)
    assert on.starts == [0.0, pytest.approx(time.units[0].seconds - time.units[1].busy)]
    assert on.overlap == pytest.approx(time.units[1].busy)


def test_what_waits_for_a_whole_sum_lies_beside_nothing() -> None:
    """Sums over columns, then a product of them: the model hides half of the shorter, the graph allows nothing; the
    units are drawn shorter, so that the launch ends when it does."""
    b = Builder()
    x, w = b.input((65536, 1024), DType.F32), b.input((1024, 4096), DType.F32)
    total = b.reshape(b.reduce("sum", x, (0,)), (1, 1024))
    lowered = cluster(b, [total, b.contract(total, w, MATMUL)], [1])
    time = timed(lowered)
    on = engine_schedule(time)
    check(time, on)
    assert on.overlap == 0.0 and 0.5 < on.drawn < 1.0
    assert on.drawn == pytest.approx(time.seconds / (time.matrix + time.vector))


def test_work_that_depends_on_nothing_fills_the_other_lane() -> None:
    """Three products after each other, and kernels of other tensors: the launch is as long as the products if all of
    the kernels' time is hidden."""
    b = Builder()
    x = b.input((1024, 1024), DType.BF16)
    products = [x]
    for _ in range(3):
        products.append(b.contract(products[-1], x, MATMUL))
    kernels = [b.map("exp", b.input((64, 512 + 128 * k), DType.F32)) for k in range(4)]
    lowered = cluster(b, [*products[1:], *kernels], [2, 3, 4, 5, 6])
    time = timed(lowered, replace(PLAIN, hidden=1.0))
    on = engine_schedule(time)
    check(time, on)
    assert time.vector < time.matrix == pytest.approx(time.seconds) and on.drawn == 1.0


def test_no_burst_at_the_beginning() -> None:
    """Eight equal layers: each has its share beside the next engine's work, not the first few all of theirs."""
    b = Builder()
    x = b.input((4096, 1024), DType.BF16)
    y, ops = x, []
    for _ in range(8):
        y = b.map("tanh", b.contract(y, b.input((1024, 1024), DType.BF16), MATMUL))
        ops += [y.src[0], y]
    time = timed(cluster(b, ops, [15]), FITTED)
    on = engine_schedule(time)
    check(time, on)
    spans = [(at, at + took) for at, took in zip(on.starts, on.seconds, strict=True)]
    halves = [overlap([s for s in spans[0::2] if lo <= s[0] < hi], spans[1::2])
              for lo, hi in ((0, time.seconds / 2), (time.seconds / 2, time.seconds))]  # fmt: skip
    assert 0.6 < halves[0] / halves[1] < 1.7


@on_hpu
def test_a_training_step_in_fp32_and_bf16() -> None:
    import tensorflow as tf

    from habana_tf.dry_run.predict import foreseen
    from habana_tf.tensorflow.dry_run.traced import as_specs
    from habana_tf.tensorflow.dry_run.weightless import without_values

    layers = tf.keras.layers

    def build() -> Any:
        inputs = x = layers.Input((32, 32, 16))
        for width in (32, 64):
            y = layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same", use_bias=False)(x))
            x = layers.ReLU()(layers.Add()([layers.Conv2D(width, 1)(x), y]))
        model = tf.keras.Model(inputs, layers.Dense(10, activation="softmax")(layers.GlobalAveragePooling2D()(x)))
        model.compile("adam", "sparse_categorical_crossentropy")
        return model

    for precision in ("fp32", "bf16"):
        with without_values():
            model = build()
        _, found = foreseen(model, as_specs(((64, 32, 32, 16), (64,))), precision, None)
        for known, parameters in itertools.product(chips(), (FITTED, replace(FITTED, launch=0.0))):
            for lowered in found.launches:
                time = timed(lowered, parameters, known)
                check(time, engine_schedule(time))
        assert any(len(x.cluster.nodes) > 50 for x in found.launches)


@pytest.mark.rest
@pytest.mark.slow
@on_hpu
def test_published_networks() -> None:
    from tests.card.model import fidelity

    for network, batch in (("ResNet50", 256), ("U-Net", 8), ("EfficientNet-B0", 256)):
        for lowered in fidelity.launches(network, batch):
            for known in chips():
                time = timed(lowered, FITTED, known)
                on = engine_schedule(time)
                check(time, on)
                least = {"ResNet50": 0.92, "U-Net": 1.0, "EfficientNet-B0": 0.68}[network]  # docs/timeline.md
                assert on.drawn >= least, (network, known.name)
