"""Inputs are named as the program knows them: by argument, by item of the dataset, by the layer that takes them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from habana_tf.cluster.cluster import Arg
from habana_tf.ir.dtypes import DType
from habana_tf.resolver.input_origins import origins
from tests.child import python


def test_from_names_and_from_the_first_op_that_takes_it() -> None:
    names = ("images", "IteratorGetNext", "IteratorGetNext:1", "cluster_1:3", "net/dense/kernel", "unused:1")
    inputs = [Arg(DType.F32, False, name, variable="kernel" in name) for name in names]
    takers = [(0, "net/conv/Conv2D"), (1, "net/conv/Conv2D"), (2, "gradient_tape/loss/Sub/Neg"),
              (3, "net/dense/MatMul"), (4, "net/dense/MatMul"), (1, "later/Relu")]  # fmt: skip
    nodes = [SimpleNamespace(index=n, name=name, inputs=[(-1, k), (0, 0)]) for n, (k, name) in enumerate(takers)]
    lines = ["", "train.py:7", *[""] * 4]
    cluster: Any = SimpleNamespace(inputs=inputs, nodes=nodes, numbered_inputs=False, line=lines.__getitem__)
    assert origins(cluster) == [
        "", "item 0 of the dataset, into net/conv at train.py:7", "item 1 of the dataset, into loss/Sub",
        "into net/dense", "", "",
    ]  # fmt: skip


@pytest.mark.rest
def test_of_a_function_and_of_fit_and_what_a_card_would_compile() -> None:
    done = python(
        """
        import json, numpy as np, tensorflow as tf
        import habana_tf

        habana_tf.load_habana_module()
        model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3, name="first")])
        model.compile("sgd", "mse")
        model.fit(np.ones((10, 4), "f"), np.ones((10, 3), "f"), batch_size=8, verbose=0)

        @tf.function(reduce_retracing=True)
        def step(images):
            return tf.reduce_sum(tf.tanh(images) + 1)

        for rows in (7, 7, 9, 11, 13):
            step(tf.ones((rows, 3)))
        print(habana_tf.recompilation_report().to_json())
        """,
        imported=True,
    )
    report = json.loads(done.stdout[done.stdout.index("{") :])
    changed = [c for cluster in report["clusters"] for s in cluster["signatures"] for c in s["changed"]]
    of_fit = {(c["input"], c["where"]) for c in changed if c["where"]}
    assert any(where.startswith("item 0 of the dataset, into ") and where.endswith("/first") for _, where in of_fit)
    assert any(where.startswith("item 1 of the dataset") for _, where in of_fit)
    assert {c["where"] for c in changed if c["input"] == "images"} == {""}
    (own,) = [c for c in report["clusters"] if any("images" in text for text in c["remedies"])]
    assert own["remedies"][0].endswith("a real card compiles 1 instead of 4"), "7, 9, 11 and 13 rows"
    met = sum(sum(c["recipes"].values()) for c in report["clusters"])
    met += sum(sum(counts.values()) for counts in report["one_op"].values())
    assert report["recipes_on_a_card"] == met > report["recipes_here"] > 0
    assert 0 < report["seconds_on_a_card"][0] < report["seconds_on_a_card"][1]
