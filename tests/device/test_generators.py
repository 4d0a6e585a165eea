"""Draws of one `tf.random.Generator`, some computed on HPU and some by the CPU: in order, the numbers and the state of
stock TensorFlow."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tests.child import on_hpu

Draw = Callable[[Any], Any]
"""Draws from a generator."""


def kinds() -> dict[str, Draw]:
    import tensorflow as tf

    draws: dict[str, Draw] = {
        "normal float32": lambda g: g.normal([5]),
        "normal float16": lambda g: g.normal([3], dtype=tf.float16),
        "normal float64": lambda g: g.normal([3], dtype=tf.float64),
        "truncated_normal float32": lambda g: g.truncated_normal([4], 1.0, 2.0),
        "truncated_normal float64": lambda g: g.truncated_normal([4], dtype=tf.float64),
        "uniform float32": lambda g: g.uniform([7], -1.0, 3.0),
        "uniform float16": lambda g: g.uniform([3], dtype=tf.float16),
        "uniform float64": lambda g: g.uniform([3], dtype=tf.float64),
        "uniform int32": lambda g: g.uniform([5], 0, 100, tf.int32),
        "uniform int64": lambda g: g.uniform([5], -7, 10**12, tf.int64),
        "binomial float32": lambda g: g.binomial([3], 10.0, 0.5),
        "binomial float64": lambda g: g.binomial([3], *(tf.constant(x, tf.float64) for x in (20.0, 0.25)), tf.float64),
        "binomial int64": lambda g: g.binomial([2], 9.0, 0.75, tf.int64),
        "make_seeds": lambda g: g.make_seeds(3),
        "skip": lambda g: g.skip(5),
    }
    for dtype in (tf.int32, tf.int64, tf.uint32, tf.uint64):
        draws[f"uniform_full_int {dtype.name}"] = lambda g, dtype=dtype: g.uniform_full_int([3], dtype)
    return draws


def compare(draws: Iterable[tuple[Any, Draw]]) -> None:
    """Each draw of a generator on HPU, and the state behind it, beside the same of one on the CPU."""
    import tensorflow as tf

    with tf.device("/CPU:0"):
        want = tf.random.Generator.from_seed(7)
    got = tf.random.Generator.from_seed(7)
    assert got.state.device.endswith("HPU:0") and want.state.device.endswith("CPU:0")
    for name, draw in draws:
        with tf.device("/CPU:0"):
            expected = [np.asarray(x) for x in tf.nest.flatten(draw(want)) if x is not None]
        found = [np.asarray(x) for x in tf.nest.flatten(draw(got)) if x is not None]
        for f, w in zip(found, expected, strict=True):
            tolerance = 2e-3 if w.dtype == np.float16 else 1e-5
            np.testing.assert_allclose(f, w, rtol=tolerance, atol=tolerance, err_msg=str(name))
        np.testing.assert_array_equal(got.state.numpy(), want.state.numpy(), err_msg=f"the state after {name}")


def in_functions(draws: dict[str, Draw]) -> dict[str, Draw]:
    """The same draws, each in a function that is traced for each generator."""
    import tensorflow as tf

    traced: dict[tuple[str, int], Any] = {}

    def call(name: str, draw: Draw, generator: Any) -> Any:
        key = name, id(generator)
        if key not in traced:
            traced[key] = tf.function(lambda: draw(generator))
        return traced[key]()

    return {name: lambda g, name=name, draw=draw: call(name, draw, g) for name, draw in draws.items()}


def in_turn(names: Iterable[str]) -> list[str]:
    """An order in which each of all kinds comes after each other, mixed."""
    pairs = list(itertools.product(sorted(names), repeat=2))
    random.Random(3).shuffle(pairs)
    return [name for pair in pairs[:40] for name in pair]


@on_hpu
def test_eager_draws_of_all_kinds_in_any_order_are_those_of_stock() -> None:
    draws = kinds()
    compare((name, draws[name]) for name in [*draws, *in_turn(draws)])


@on_hpu
def test_draws_in_functions_of_all_kinds_in_any_order_are_those_of_stock() -> None:
    eager = kinds()
    traced = in_functions(eager)
    names = [*eager, *in_turn(eager)]
    mixed = [(name, (traced if k % 3 else eager)[name]) for k, name in enumerate(names)]
    compare(mixed)


@on_hpu
def test_draws_of_all_kinds_in_one_function_are_those_of_stock() -> None:
    draws = kinds()

    def all_of_them(generator: Any) -> Any:
        return [draw(generator) for draw in draws.values() if draw is not draws["skip"]]

    traced = in_functions({"all": all_of_them})
    compare([("all", traced["all"])] * 3)
