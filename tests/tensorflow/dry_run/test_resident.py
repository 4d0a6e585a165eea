"""What crosses PCIe in a step, and what the caller says is on the card already."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from habana_tf.tensorflow.dry_run.resident import argument_names, resident_names
from tests.child import on_hpu


def test_names_are_those_of_the_parameters_and_of_their_nests() -> None:
    spec = tf.TensorSpec((2,))

    def step(params: Any, batch: Any, *more: Any) -> None: ...

    specs = ([spec, spec], {"y": spec, "ids": spec}, spec)
    names = ["params/0", "params/1", "batch/ids", "batch/y", "more_0"]
    assert argument_names(step, specs) == argument_names(tf.function(step), specs) == names
    concrete = tf.function(lambda a, b: a + b).get_concrete_function(spec, spec)
    assert argument_names(concrete, (spec, spec)) == ["a", "b"]


def test_names_numbers_all_and_none() -> None:
    names = ["params/0", "params/1", "batch/ids", "batch/y"]
    for asked, meant in (
        (None, []), (False, []), (True, names), ("params", names[:2]), (1, names[2:]), (-1, names[2:]),
        ("batch/ids", names[2:3]), (["params", "batch/y"], [*names[:2], names[3]]), ([], []),
    ):  # fmt: skip
        assert sorted(resident_names(asked, names)) == sorted(meant), asked
    for asked in ("param", 2, "batch/id", [True], 1.5):
        with pytest.raises((ValueError, TypeError)):
            resident_names(asked, names)


@on_hpu
def test_arguments_cross_unless_they_stay_and_variables_never_do() -> None:
    import habana_tf

    n = 4096
    each = 4 * n * n

    def product(a: Any, b: Any) -> Any:
        return tf.matmul(a, b)

    crossing = {
        asked: habana_tf.predict(product, (n, n), (n, n), chip="gaudi2", resident=asked) for asked in (None, "b", True)
    }
    assert [t["nbytes"] for t in crossing[None].pcie] == [each, each] and crossing[True].pcie == []
    assert [t["name"] for t in crossing["b"].pcie] == ["a"] and crossing["b"].resident == ("b",)
    for found in crossing.values():
        bandwidth = found.step.chip.pcie_bandwidth
        assert sum(t["seconds"] for t in found.pcie) == pytest.approx(len(found.pcie) * each / bandwidth)
        assert found.step_seconds >= found.step.copies
    assert crossing[None].step_seconds > crossing["b"].step_seconds > crossing[True].step_seconds
    assert "a 64.0 MiB to the card" in str(crossing[None]) and "on the card already: b" in str(crossing["b"])
    assert crossing[None].to_dict()["pcie"] and crossing["b"].to_dict()["resident"] == ["b"]
    kept = tf.Variable(tf.zeros((n, n)))
    variables = habana_tf.predict(lambda x: tf.matmul(kept, kept) + x, (1,), chip="gaudi2")
    assert [t["nbytes"] for t in variables.pcie] == [4]
    with pytest.raises(ValueError, match="use one of a, b"):
        habana_tf.predict(product, (n, n), (n, n), resident="c")


@on_hpu
def test_what_ops_of_the_host_give_and_take_crosses_too() -> None:
    import habana_tf

    def f(x: Any) -> Any:
        with tf.device("/CPU:0"):
            y = tf.sort(tf.matmul(x, x))
        return tf.tanh(y)

    found = habana_tf.predict(lambda x: f(tf.exp(x)), (256, 256), precision="fp32", resident=True)
    assert {t["to"] for t in found.pcie} == {"card", "host"}
    assert all(t["nbytes"] == 4 * 256 * 256 for t in found.pcie if t["to"] == "card")


@on_hpu
def test_data_of_a_model_have_the_names_that_fit_has() -> None:
    import habana_tf

    model = tf.keras.Sequential([tf.keras.layers.Input((8,)), tf.keras.layers.Dense(4)])
    model.compile("sgd", "mse")
    assert {t["name"] for t in habana_tf.predict(model, (4, 8), (4, 4)).pcie} == {"x", "y"}
