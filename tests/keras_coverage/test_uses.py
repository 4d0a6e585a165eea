"""The counts that `python -m tests.missing_ops` ranks by have the ops of every network and case."""

from __future__ import annotations

from importlib.metadata import version

import pytest
import tensorflow as tf

from tests.effort import quickly
from tests.keras_coverage import uses
from tests.keras_coverage.cases import tables
from tests.keras_coverage.layers import NO_GRAPH
from tests.missing_ops import missing
from tests.networks.zoo import NETWORKS

CASES = [f"{family}/{name}" for family, members in tables().items() for name in members]
CASES = [case for case in CASES if case not in NO_GRAPH]

same_keras = pytest.mark.skipif(
    version("keras") != missing.uses()["keras"], reason="the counts are of another release of Keras"
)


def test_a_step_has_the_ops_of_its_functions_and_its_gradients() -> None:
    inner = tf.function(lambda x: tf.nn.relu(x))
    x = tf.constant([1.0])

    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = inner(x)
        return tape.gradient(y, x)

    found = uses.ops_of(step)
    assert {"Relu", "ReluGrad"} <= found and not any("inference" in op for op in found)


@same_keras
@pytest.mark.parametrize("case", quickly(CASES, every=200))
def test_the_counts_know_the_ops_of_a_case(case: str) -> None:
    family, name = case.split("/")
    counted = missing.uses()["uses"]
    assert not {op for op in uses.ops_of(tables()[family][name]()) if counted.get(op, (0, 0))[1] == 0}


@same_keras
@pytest.mark.rest
@pytest.mark.parametrize("name", NETWORKS)
def test_the_counts_know_the_ops_of_a_network(name: str) -> None:
    counted = missing.uses()["uses"]
    step = uses.network_step(NETWORKS[name]())
    assert not {op for op in uses.ops_of(step) if counted.get(op, (0, 0))[0] == 0}


@same_keras
def test_all_networks_and_cases_are_counted() -> None:
    counted = missing.uses()
    assert (counted["networks"], counted["cases"]) == (len(NETWORKS), len(CASES))
