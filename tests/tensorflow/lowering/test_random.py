"""Random ops give TensorFlow's own numbers: uniform and integers bit for bit, normals within a few units.

A normal is radius * sin or cos of an angle. HPU's log, sin and cos and one angle in a thousand may be a unit off
TensorFlow's, so the tolerance is absolute, relative to the radius (at most 5.7) times a unit of the angle (5e-7).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import resources
import tensorflow as tf
from harness import BACKENDS, compare, evaluate, lower_op, make_cluster, quick, reference
from hypothesis import given
from hypothesis import strategies as st

from habana_tf.cluster.lower import lower
from habana_tf.ir import extent as ext
from habana_tf.ir import interpreter
from habana_tf.ir.primitives import Op

R = tf.raw_ops
SHAPES = [np.array(shape, np.int32) for shape in ((), (0,), (1,), (3,), (4,), (7, 3), (64, 5))]
CLOSE = {"rtol": 2e-6, "atol": 3e-6}
EXACT = {"rtol": 0.0, "atol": 0.0}
FLOATS = [tf.float32, tf.bfloat16]


def close(dtype: Any) -> dict[str, float]:
    """bfloat16: a float32 a unit off may round to the next bfloat16."""
    return CLOSE if dtype == tf.float32 else {"rtol": 2.0**-7, "atol": 3e-6}


def check(fn: Any, *arrays: Any, rtol: float, atol: float) -> None:
    (want,) = reference(fn, *arrays)
    for (got,) in evaluate(fn, *arrays):
        compare(got, want, rtol, atol)


# -- a state in the kernel ------------------------------------------------------------------------------------


def seeded(seed: int, seed2: int) -> Any:
    """The state that TensorFlow's GuardedPhiloxRandom starts from."""
    words = [0, 0, seed2 & 0xFFFFFFFF, seed2 >> 32, seed & 0xFFFFFFFF, seed >> 32]
    return np.array(words, np.uint32)


def advanced(state: Any, blocks: int) -> Any:
    """The state after a number of 128-bit blocks."""
    counter = (sum(int(w) << 32 * i for i, w in enumerate(state[:4])) + blocks) % 2**128
    return np.array([*(counter >> 32 * i & 0xFFFFFFFF for i in range(4)), *state[4:]], np.uint32)


def draws(fn: Any, times: int) -> list[Any]:
    """What one kernel gives in successive executions."""
    with tf.Graph().as_default():
        out = fn()
        with tf.compat.v1.Session() as session:
            return [session.run(out) for _ in range(times)]


def check_stream(fn: Any, seed: int, seed2: int, rtol: float, atol: float) -> None:
    """Three executions in a row: the numbers, and how far each moves the stream."""
    program, given = lower_op(fn)
    state = seeded(seed, seed2)
    for want in draws(fn, 3):
        for backend in BACKENDS:
            (got,) = backend(program, given, [state])
            compare(got, want, rtol, atol)
        state = advanced(state, program.states[0])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_stateful(shape: Any, dtype: Any) -> None:
    seeds = {"seed": 11, "seed2": 2**40 + 22}
    for name, tolerance in (
        ("RandomUniform", EXACT), ("RandomStandardNormal", close(dtype)), ("TruncatedNormal", close(dtype)),
    ):  # fmt: skip
        op = getattr(R, name)
        check_stream(lambda op=op: op(shape=shape, dtype=dtype, **seeds), *seeds.values(), **tolerance)


@quick
@given(
    st.sampled_from([np.int32, np.int64]), st.sampled_from(SHAPES), st.integers(0, 2**62),
    st.sampled_from([(0, 10), (-5, 2**30), (-(2**31), 2**31 - 1), (7, 8)]),
)  # fmt: skip
def test_stateful_integers(dtype: Any, shape: Any, seed: int, bounds: Any) -> None:
    low, high = (np.array(n, dtype) for n in bounds)
    check_stream(lambda: R.RandomUniformInt(shape=shape, minval=low, maxval=high, seed=seed, seed2=5), seed, 5, **EXACT)


# -- a state from the inputs ----------------------------------------------------------------------------------

KEYS = [(7, (0, 0)), (2**64 - 1, (2**64 - 1, 3)), (2**33 + 5, (2**32 - 1, 2**63))]


@pytest.mark.parametrize(("key", "counter"), KEYS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_stateless(shape: Any, key: int, counter: Any) -> None:
    state = [np.array([key], np.uint64), np.array(counter, np.uint64), np.array(1, np.int32)]

    def draw(name: str, dtype: Any) -> Any:
        return lambda k, c, a: getattr(R, name)(shape=shape, key=k, counter=c, alg=a, dtype=dtype)

    for dtype in FLOATS:
        check(draw("StatelessRandomUniformV2", dtype), *state, **EXACT)
        check(draw("StatelessRandomNormalV2", dtype), *state, **close(dtype))
        check(draw("StatelessTruncatedNormalV2", dtype), *state, **close(dtype))
    for dtype in (tf.int32, tf.int64, tf.uint32, tf.uint64):
        check(draw("StatelessRandomUniformFullIntV2", dtype), *state, **EXACT)
    for dtype in (tf.int32, tf.int64):
        low, high = (np.array(n, dtype.as_numpy_dtype) for n in (3, 2**31 - 1))
        check(
            lambda k, c, a, lo, hi: R.StatelessRandomUniformIntV2(
                shape=shape, key=k, counter=c, alg=a, minval=lo, maxval=hi
            ),
            *state, low, high, **EXACT,
        )  # fmt: skip


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("seed", [(1, 2), (-1, 2**31 - 1), (0, -(2**31))])
def test_seeds_are_scrambled_as_in_tensorflow(seed: Any, index: Any) -> None:
    seed = np.array(seed, index)
    for name in ("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg"):
        want = reference(lambda s, n=name: getattr(R, n)(seed=s), seed)
        for outputs in evaluate(lambda s, n=name: getattr(R, n)(seed=s), seed):
            for got, expected in zip(outputs, want, strict=True):
                compare(got, expected)
    for dtype in FLOATS:
        check(lambda s, d=dtype: R.StatelessRandomUniform(shape=[9], seed=s, dtype=d), seed, **EXACT)
        check(lambda s, d=dtype: R.StatelessRandomNormal(shape=[9], seed=s, dtype=d), seed, **close(dtype))
        check(lambda s, d=dtype: R.StatelessTruncatedNormal(shape=[9], seed=s, dtype=d), seed, **close(dtype))
    low, high = np.array(-3, np.int64), np.array(2**40, np.int64)
    check(
        lambda s, lo, hi: R.StatelessRandomUniformInt(shape=[9], seed=s, minval=lo, maxval=hi), seed, low, high, **EXACT
    )
    check(lambda s: R.StatelessRandomUniformFullInt(shape=[9], seed=s, dtype=tf.int32), seed, **EXACT)
    (algorithm,) = reference(R.StatelessRandomGetAlg)
    assert all(out[0] == algorithm for out in evaluate(R.StatelessRandomGetAlg))


def test_the_seed_is_no_part_of_the_program() -> None:
    program, given = lower_op(
        lambda s: R.StatelessRandomUniform(shape=[4], seed=s, dtype=tf.float32), np.array([1, 2], np.int64)
    )
    for seed in ([1, 2], [3, 4]):
        moved = [np.array(seed, np.int64) if a.dtype == np.int64 else a for a in given]
        (want,) = reference(lambda s=seed: R.StatelessRandomUniform(shape=[4], seed=s, dtype=tf.float32))
        for backend in BACKENDS:
            np.testing.assert_array_equal(backend(program, moved, [])[0], want)


@pytest.mark.parametrize("seed", range(3))
def test_many_truncated_normals(seed: int) -> None:
    """40,000 groups of four: rejection and the stretches of the stream, group by group."""
    check(
        lambda s: R.StatelessTruncatedNormal(shape=[160001], seed=s, dtype=tf.float32),
        np.array([seed, 5], np.int32), **CLOSE,
    )  # fmt: skip


# -- a state in a variable ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0,), (7, 3)])
def test_generators(shape: Any) -> None:
    variables = {"resource": np.array([-2, 5, 77], np.int64)}
    inputs = {"algorithm": np.array(1, np.int64), "shape": np.array(shape, np.int32)}
    for dtype in FLOATS:
        for name, tolerance in (
            ("StatefulUniform", EXACT), ("StatefulStandardNormalV2", close(dtype)),
            ("StatefulTruncatedNormal", close(dtype)),
        ):  # fmt: skip
            resources.check(name, variables, inputs, **tolerance, dtype=dtype)
    bounds = {"minval": np.array(-3, np.int64), "maxval": np.array(2**40, np.int64)}
    resources.check("StatefulUniformInt", variables, {**inputs, **bounds})
    resources.check("StatefulUniformFullInt", variables, inputs, dtype=tf.uint32)


DRAWS = {
    "RandomUniform": tf.float32, "RandomStandardNormal": tf.float32, "TruncatedNormal": tf.bfloat16,
    "StatelessRandomUniformFullIntV2": tf.int64,
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_one_program_draws_every_size(name: str) -> None:
    """Eager random ops share a recipe over all sizes: the extent is a symbol until it is bound."""
    attrs = {"dtype": DRAWS[name], **({} if name.startswith("Stateless") else {"seed": 3, "seed2": 4})}
    inputs = {"shape": np.array([5], np.int32)}
    if name.startswith("Stateless"):
        inputs |= {"key": np.array([3], np.uint64), "counter": np.zeros(2, np.uint64), "alg": np.array(1, np.int32)}
    cluster, order = make_cluster(
        lambda *x: getattr(R, name)(**dict(zip(inputs, x, strict=True)), **attrs), list(inputs.values())
    )
    (shape,) = cluster.fixed_inputs()
    arrays = [list(inputs.values())[k] for k in order]
    values: list[Any] = [None] * len(arrays)
    values[shape] = [ext.sym(0)]
    symbolic = lower(cluster, [a.shape for a in arrays], values)
    for n in (0, 1, 5, 64):
        arrays[shape] = values[shape] = np.array([n], np.int32)
        number = lower(cluster, [a.shape for a in arrays], values)
        bound = interpreter.bind(symbolic, [n])
        states = [seeded(3, 4)]
        (want,), (got,) = (interpreter.run(p, arrays, states) for p in (number, bound))
        assert bound.states == number.states
        compare(got, want, **EXACT)


def test_uniform_is_one_pass() -> None:
    """Dropout's noise: words and a few maps, nothing that has to be stored in between."""
    program, _ = lower_op(lambda: R.RandomUniform(shape=[8, 3], dtype=tf.float32, seed=1, seed2=2))
    assert {n.op for n in program.nodes()} <= {Op.INPUT, Op.CONST, Op.RANDOM, Op.MAP, Op.EXPAND, Op.RESHAPE}


# -- choices --------------------------------------------------------------------------------------------------

LOGITS = np.random.default_rng(3).uniform(-3, 3, (4, 6)).astype(np.float32)
LOGITS[0, 2], LOGITS[1, :3] = np.inf, -np.inf  # neither is ever drawn


@pytest.mark.parametrize("samples", [1, 2, 7])
def test_choices(samples: int) -> None:
    """Few enough rows that TensorFlow does not share them among threads, which would each have its own stream."""
    number = np.int32(samples)
    check_stream(lambda: R.Multinomial(logits=LOGITS, num_samples=number, seed=5, seed2=9), 5, 9, **EXACT)
    for dtype in (tf.int32, tf.int64):
        check(
            lambda x, n, s, d=dtype: R.StatelessMultinomial(logits=x, num_samples=n, seed=s, output_dtype=d),
            LOGITS, number, np.array([3, 5], np.int32), **EXACT,
        )  # fmt: skip


def test_many_choices() -> None:
    """Thousands of draws among a hundred classes: no more than one in a thousand falls on the other side."""
    logits = np.random.default_rng(4).uniform(-3, 3, (1, 100)).astype(np.float32)
    draw = lambda x, n, s: R.StatelessMultinomial(logits=x, num_samples=n, seed=s)
    given = (logits, np.int32(5000), np.array([8, 1], np.int32))
    (want,) = reference(draw, *given)
    for (got,) in evaluate(draw, *given):
        assert (got != want).mean() < 1e-3
