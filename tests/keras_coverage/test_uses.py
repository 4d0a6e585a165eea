"""The counts that `python -m tests.missing_ops` ranks by are those of the script that made them."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest
import tensorflow as tf

from tests.keras_coverage import uses
from tests.missing_ops import missing

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
@pytest.mark.parametrize("case", ["layers/Dense", "losses/CategoricalCrossentropy", "optimizers/Adam"])
def test_the_counts_know_the_ops_of_a_case(case: str) -> None:
    from tests.keras_coverage.cases import tables

    family, name = case.split("/")
    counted = missing.uses()["uses"]
    assert not {op for op in uses.ops_of(tables()[family][name]()) if counted.get(op, (0, 0))[1] == 0}


@same_keras
@pytest.mark.rest
@pytest.mark.timeout(1800)
def test_the_script_makes_the_file_anew(tmp_path: Path) -> None:
    uses.main(str(tmp_path / "uses.json"))
    assert json.loads((tmp_path / "uses.json").read_text()) == missing.uses()
