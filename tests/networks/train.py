"""Trains one network of the zoo for some steps and saves what happened.

    python -m tests.networks.train vit hpu result.npz --precision bf16 --no-dropout

Saved are the loss of every step and each gradient of the first. Batches, weights and seeds are the same for every
device; "exact" is stock TensorFlow in float64. On HPU the last line of output is a JSON object: how much of the step
ran there.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

import numpy as np
import tensorflow as tf

from tests.networks import zoo
from tests.networks.work import contractions, on_hpu


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains one network of the zoo.")
    parser.add_argument("network", choices=zoo.NETWORKS)
    parser.add_argument("device", choices=["hpu", "stock", "exact"])
    parser.add_argument("result")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--disturb", type=int, metavar="SEED", help="move each weight to the next float, up or down")
    parser.add_argument("--no-dropout", action="store_true", help="its draws depend on the precision")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    if options.device == "hpu":
        import habana_tf

        habana_tf.load_habana_module()
    if options.precision == "bf16":
        tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    tf.keras.utils.set_random_seed(5)
    network = zoo.NETWORKS[options.network]()
    if options.device == "exact":
        weights = network.model.get_weights()
        tf.keras.backend.clear_session()  # the same names again
        tf.keras.backend.set_floatx("float64")
        network = zoo.NETWORKS[options.network]()
        network.model.set_weights(weights)
    if options.disturb is not None:
        directions = np.random.default_rng(options.disturb)
        network.model.set_weights([_next(w, directions) for w in network.model.get_weights()])
    if options.no_dropout:
        for layer in network.model.submodules:
            if isinstance(layer, tf.keras.layers.Dropout):
                layer.rate = 0
    players = [part.trainable_variables for part in network.players or (network.model,)]
    optimizers = [tf.keras.optimizers.SGD(1e-4, momentum=0.9) for _ in players]
    for optimizer, variables in zip(optimizers, players, strict=True):
        optimizer.build(variables)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape(persistent=len(players) > 1) as tape:
            loss = network.loss(y, network.model(x, training=True))
            losses = loss if network.players else (loss,)
        gradients = [
            [tf.convert_to_tensor(g) for g in tape.gradient(part, variables)]
            for part, variables in zip(losses, players, strict=True)
        ]
        for optimizer, own, variables in zip(optimizers, gradients, players, strict=True):
            optimizer.apply_gradients(zip(own, variables, strict=True))
        return tf.stack(losses), [g for own in gradients for g in own]

    x, y = (tf.nest.map_structure(_constant, part) for part in (network.x, network.y))
    losses, first = [], []
    launched = []
    for number in range(options.steps):
        launched.append(_launches(options.device))
        loss, gradients = step(x, y)
        losses.append(np.asarray(loss))
        if number == 0:
            first = [np.asarray(g) for g in gradients]
    launched.append(_launches(options.device))
    every = [v for variables in players for v in variables]
    named = {f"{k} {v.name}": g for k, (v, g) in enumerate(zip(every, first, strict=True))}
    np.savez(options.result, losses=np.array(losses), fp32_only=network.fp32_only, **named)
    if options.device == "hpu":
        work = contractions(step.get_concrete_function(x, y), len(tf.nest.flatten(x)[0]))
        print(json.dumps({"launches": launched[-1] - launched[-2], **_coverage(work)}))


def _next(x: np.ndarray, directions: np.random.Generator) -> np.ndarray:
    """Each float changed by one unit in its last place, in a random direction; zeros and integers stay."""
    if x.dtype != np.float32:
        return x
    towards = np.where(directions.random(x.shape) < 0.5, -np.inf, np.inf).astype(np.float32)
    return np.where(x == 0, x, np.nextafter(x, towards))


def _constant(x: np.ndarray) -> tf.Tensor:
    """Floats in the type the network computes in."""
    return tf.constant(x, tf.keras.backend.floatx() if x.dtype.kind == "f" else x.dtype)


def _launches(device: str) -> int:
    if device != "hpu":
        return 0
    from habana_tf._native import _bridge

    return _bridge.counters()["launches"]


def _coverage(work: dict[str, list[int]]) -> dict[str, Any]:
    """Nodes in launches of all that compute, the multiply-adds that are theirs, and what ran elsewhere and why."""
    import habana_tf
    from habana_tf._native import _bridge

    graphs = habana_tf.placement_report().graphs
    outside: dict[str, int] = {}
    for graph in graphs:
        for (op, reason, cpu), count in graph.refused.items():
            key = f"{op} {'CPU' if cpu else 'HPU'}: {reason.value}"
            outside[key] = outside.get(key, 0) + count
    inside = sum((Counter(launch.ops) for graph in graphs for launch in graph.launches), Counter[str]())
    return {
        "graphs": len(graphs),
        "clusters": sum(len(graph.launches) for graph in graphs),
        "inside": inside.total(),
        "work": sum(map(sum, work.values())),
        "work_inside": on_hpu(work, inside),
        "outside": outside,
        "interpreted": _bridge.counters()["interpreted_launches"],
    }


if __name__ == "__main__":
    main()
