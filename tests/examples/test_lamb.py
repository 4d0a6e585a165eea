"""LAMB beside algorithm 2 of its paper (arXiv 1904.00962) in NumPy."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.examples.programs import EXAMPLES
from tests.versions import examples_run

sys.path.append(str(EXAMPLES))
pytestmark = examples_run
RATE, DECAY, BETA_1, BETA_2, EPSILON, STEPS = 0.1, 0.3, 0.9, 0.999, 1e-6, 4
SHAPES = {"kernel": (5, 3), "bias": (4,), "zeros": (2, 3)}


Arrays = dict[str, np.ndarray]


def by_the_paper(start: Arrays, slopes: Arrays, clip: float | None) -> Arrays:
    """The weights after all steps, in float64: each layer by itself, biases without decay and measure."""
    made = {name: value.astype(np.float64) for name, value in start.items()}
    m = {name: np.zeros(shape) for name, shape in SHAPES.items()}
    v = {name: np.zeros(shape) for name, shape in SHAPES.items()}
    for t in range(1, STEPS + 1):
        g = {name: slope[t - 1].astype(np.float64) for name, slope in slopes.items()}
        norm = np.sqrt(sum(np.sum(each**2) for each in g.values()))
        scale = min(1.0, clip / norm) if clip else 1.0
        for name, x in made.items():
            gradient = g[name] * scale
            m[name] = BETA_1 * m[name] + (1 - BETA_1) * gradient
            v[name] = BETA_2 * v[name] + (1 - BETA_2) * gradient**2
            r = m[name] / (1 - BETA_1**t) / (np.sqrt(v[name] / (1 - BETA_2**t)) + EPSILON)
            if name == "bias":
                made[name] = x - RATE * r
                continue
            u = r + DECAY * x
            trust = np.linalg.norm(x) / np.linalg.norm(u) if np.linalg.norm(x) > 0 and np.linalg.norm(u) > 0 else 1.0
            made[name] = x - RATE * trust * u
    return made


@pytest.mark.parametrize("clip", [None, 1.0])
def test_steps(clip: float | None) -> None:
    """A layer of zeros has no measure: its first step is Adam's."""
    from common.lamb import LAMB

    random = np.random.default_rng(0)
    start = {name: random.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    start["zeros"][:] = 0
    slopes = {name: random.normal(size=(STEPS, *shape)).astype(np.float32) for name, shape in SHAPES.items()}
    variables = {name: tf.Variable(value, name=f"layer/{name}") for name, value in start.items()}
    optimizer = LAMB(RATE, DECAY, BETA_1, BETA_2, EPSILON, clip)
    for t in range(STEPS):
        optimizer.apply_gradients([(tf.constant(slopes[name][t]), variables[name]) for name in SHAPES])
    for name, wanted in by_the_paper(start, slopes, clip).items():
        np.testing.assert_allclose(variables[name].numpy(), wanted, rtol=2e-5, atol=2e-6, err_msg=name)
