"""How a lowered cluster is cut into products and kernels, told from the ops that stand in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from habana_tf.card.model.bundles import bundles, traffic
from habana_tf.card.model.kernels import Unit, cut, in_rows
from habana_tf.card.model.lowered import Lowered
from habana_tf.hardware.chips import chip
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from tests.child import on_hpu

MIB = 1 << 20


def launched(fn: Any, *shapes: tuple[int, ...]) -> Lowered:
    """The one cluster of a function of fp32 tensors."""
    import habana_tf
    from habana_tf.tensorflow.dry_run.foreseen import foresee

    habana_tf.load_habana_module()
    specs = [tf.TensorSpec(shape) for shape in shapes]
    (lowered,) = foresee(tf.function(fn).get_concrete_function(*specs)).launches
    return lowered


def units(lowered: Lowered) -> list[Unit]:
    return cut(lowered.program, set(lowered.made.values()))


def large(found: list[Unit]) -> list[Unit]:
    return [u for u in found if sum(u.loads.values()) + sum(u.stores.values()) > MIB // 4]


def test_rows_are_told_from_columns() -> None:
    b = Builder()
    x = b.input((64, 1, 512), DType.F32)
    assert in_rows(b.reduce("sum", x, (2,))) and in_rows(b.reduce("sum", x, (1, 2)))
    assert not in_rows(b.reduce("sum", x, (0,)))
    assert not in_rows(b.reduce("sum", b.input((4, 1 << 20), DType.F32), (1,)))


@on_hpu
def test_neighbours_become_one_kernel_that_reads_and_writes_once() -> None:
    (unit,) = units(launched(lambda x, y: tf.nn.relu(tf.tanh(x) * y) + 1.0, (256, 1024), (256, 1024)))
    assert sum(unit.loads.values()) == 2 * MIB and sum(unit.stores.values()) == MIB


@on_hpu
def test_softmax_is_one_kernel_and_a_norm_over_the_batch_two() -> None:
    assert len(units(launched(tf.nn.softmax, (256, 1024)))) == 1

    def norm(x: Any) -> Any:
        one = tf.ones(256)
        return tf.raw_ops.FusedBatchNormV3(x=x, scale=one, offset=one, mean=one, variance=one)[0]

    found = large(units(launched(norm, (16, 16, 16, 256))))
    assert [sum(u.loads.values()) // (4 * MIB) for u in found] == [1, 1]


@on_hpu
def test_a_product_s_result_reaches_the_next_kernel_in_sram() -> None:
    """Scores and their softmax: HBM sees both operands, the other operand of what follows, and the result."""
    lowered = launched(lambda q, k: tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), (8, 512, 64), (8, 512, 64))
    found = units(lowered)
    home = bundles(found)
    moved = traffic(chip("gaudi2"), lowered.program, found, home)
    assert [u.product for u in found] == [True, False] and home == [0, 0]
    assert moved == [2 * 8 * 512 * 64 * 4, 8 * 512 * 512 * 4]


@on_hpu
def test_every_op_s_work_is_in_some_unit() -> None:
    """As many multiply-adds as the shapes say, whatever the layers are."""
    model = tf.keras.Sequential([
        tf.keras.layers.Input((16, 16, 8)),
        tf.keras.layers.Conv2D(32, 3, padding="same", use_bias=False),
        tf.keras.layers.BatchNormalization(),
        tf.keras.layers.ReLU(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10),
    ])  # fmt: skip
    import habana_tf

    model.compile("sgd", "mse")
    found = habana_tf.predict(model, (4, 16, 16, 8), (4, 10))
    forward = 4 * 16 * 16 * 32 * 9 * 8 + 4 * 10 * 16 * 16 * 32
    last = 4 * 16 * 16 * 32 * 9 * 8  # the first layer's input needs no gradient
    assert sum(layer.flops for layer in found.layers) == 2 * (3 * forward - last)
    assert np.isclose(sum(layer.share for layer in found.layers), 1.0)
