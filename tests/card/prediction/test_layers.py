"""Layers: names shared by forward and backward, work by hand, what would help."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from habana_tf.card.model.step_time import step_time
from habana_tf.card.prediction.layers import Layer, layers
from habana_tf.hardware.chips import chip
from tests.child import on_hpu


def found(fn: Any, *shapes: tuple[int, ...], dtype: tf.DType = tf.float32) -> list[Layer]:
    from habana_tf.tensorflow.dry_run.foreseen import foresee

    launches = foresee(tf.function(fn).get_concrete_function(*(tf.TensorSpec(s, dtype) for s in shapes))).launches
    return layers(step_time(chip("gaudi2"), launches), launches)


def two(x: Any, w: Any) -> Any:
    with tf.name_scope("net/large/inner"):
        y = tf.matmul(x, w)
    with tf.name_scope("net/small"):
        return tf.matmul(y[:64], w)


@on_hpu
def test_each_layer_s_work_is_its_own() -> None:
    by_name = {layer.name: layer for layer in found(two, (8192, 512), (512, 512))}
    large, small = by_name["net/large"], by_name["net/small"]
    assert (large.flops, small.flops) == (2 * 8192 * 512 * 512, 2 * 64 * 512 * 512)
    assert large.seconds > small.seconds and large.bound in ("MME", "memory")
    assert math.isclose(sum(layer.share for layer in by_name.values()), 1.0)


@on_hpu
def test_a_gradient_counts_for_its_layer() -> None:
    def f(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(w)
            with tf.name_scope("net/dense"):
                y = tf.reduce_sum(tf.matmul(x, w))
        return tape.gradient(y, w)

    names = {layer.name for layer in found(f, (256, 128), (128, 64))}
    assert names == {"net/dense"} or "net/dense" in names and not any("gradient_tape" in name for name in names)


@on_hpu
def test_ops_of_an_optimizer_are_one_layer() -> None:
    def f(x: Any) -> Any:
        with tf.name_scope("sgd"):
            with tf.name_scope("Mul_2"):
                y = tf.tanh(x)
            with tf.name_scope("inner"):
                return tf.reduce_sum(y, 0) * 2.0

    assert {layer.name for layer in found(f, (64, 64))} <= {"sgd", "sgd/inner"}


@on_hpu
def test_help_names_what_costs_time() -> None:
    def helped(dtype: tf.DType, rows: int, width: int) -> str:
        (layer,) = (x for x in found(tf.matmul, (rows, width), (width, width), dtype=dtype) if x.flops)
        return "; ".join(layer.help)

    assert "bf16" in helped(tf.float32, 4096, 4096)
    assert not helped(tf.bfloat16, 4096, 4096)
    assert "cache lines" in helped(tf.bfloat16, 4096, 4095)
    assert "launches take longer" in helped(tf.bfloat16, 8, 128)
