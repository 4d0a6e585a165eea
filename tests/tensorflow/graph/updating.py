"""Steps that update variables, and what they give on both devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

STEPS = 3
SQUARE = np.random.default_rng(0).normal(size=(6, 6)).astype("f4")
ROW = np.random.default_rng(1).normal(size=(6,)).astype("f4")
X = np.random.default_rng(2).normal(size=(6, 6)).astype("f4")

Step = Callable[[tf.Tensor, list[tf.Variable]], Any]


def updated() -> int:
    """Variables that the launches of the last graph update where they are."""
    from habana_tf.resolver.placement_report import placement_report

    return sum(launch.updated for launch in placement_report().graphs[-1].launches)


def compare(step: Step, values: Sequence[Any], many: int | None, x: Any = X) -> None:
    """Some steps on both devices: what they return, each looked at when all are done, and the variables at the end.
    many: of the variables are updated where they are; any number if it is None. x: what a step is given."""

    def run(device: str) -> list[np.ndarray]:
        with tf.device(device):
            variables = [tf.Variable(v) for v in values]
            function = tf.function(lambda x: tf.nest.flatten(step(x, variables)))
            results = [r for k in range(STEPS) for r in function(tf.constant(x + k))]
            return [np.asarray(r) for r in (*results, *(v.read_value() for v in variables))]

    want, got = run("/CPU:0"), run("/HPU:0")
    assert many is None or updated() == many
    for w, g in zip(want, got, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)
