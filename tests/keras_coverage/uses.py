"""Counts how often Keras uses each op of TensorFlow, for `python -m tests.missing_ops`.

    python -m tests.keras_coverage.uses tests/missing_ops/keras_uses.json

Traced are, on stock TensorFlow and before any optimization, a step in training with its gradients of each network of
`tests/networks` (one of every family of keras.applications, and others on images and sentences), and of each case of
this folder (every layer, loss, metric, optimizer, schedule and activation). An op counts once per network or case that
has it, however often it stands there: 53 convolutions of one ResNet are one use. Nothing is run but what Keras runs
when it makes variables.
"""

from __future__ import annotations

import collections
import importlib.metadata
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.keras_coverage.layers import NO_GRAPH
from tests.networks.network import Network


def ops_of(step: Callable[[], Any]) -> set[str]:
    """The ops in the graph of a step and in the functions that it calls."""
    graph = tf.function(step).get_concrete_function().graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    functions = {function.signature.name for function in graph.library.function}
    return {node.op for node in nodes} - functions


def network_step(network: Network) -> Callable[[], Any]:
    """The loss of a network in training and its gradients for the weights."""
    x, y = (tf.nest.map_structure(tf.constant, part) for part in (network.x, network.y))

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.add_n(tf.nest.flatten(network.loss(y, network.model(x, training=True))))
        return loss, [g for g in tape.gradient(loss, network.model.trainable_variables) if g is not None]

    return step


def traced() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """(ops per network, ops per case)."""
    from tests.keras_coverage.cases import tables
    from tests.networks.zoo import NETWORKS

    cases = {
        f"{family}/{name}": ops_of(prepare())
        for family, members in tables().items()
        for name, prepare in members.items()
        if f"{family}/{name}" not in NO_GRAPH
    }
    networks = {}
    for name, make in NETWORKS.items():
        networks[name] = ops_of(network_step(make()))
        tf.keras.backend.clear_session()
    return networks, cases


def main(path: str) -> None:
    networks, cases = traced()
    counts = [collections.Counter(op for ops in each.values() for op in ops) for each in (networks, cases)]
    uses = [f'    "{op}": {[count[op] for count in counts]}' for op in sorted(set().union(*counts))]
    head = {
        "tensorflow": tf.__version__, "keras": importlib.metadata.version("keras"), "networks": len(networks),
        "cases": len(cases),
    }  # fmt: skip
    lines = ",\n".join(uses)
    Path(path).write_text(f'{json.dumps(head, indent=2)[:-2]},\n  "uses": {{\n{lines}\n  }}\n}}\n')


if __name__ == "__main__":
    main(*sys.argv[1:])
