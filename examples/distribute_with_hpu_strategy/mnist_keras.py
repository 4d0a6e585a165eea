"""Keras under HPUStrategy, one process per card, started by a launcher that says which rank this is.

mpirun -np 2 python examples/distribute_with_hpu_strategy/mnist_keras.py
habana-tf run -n 2 examples/distribute_with_hpu_strategy/mnist_keras.py
python examples/distribute_with_hpu_strategy/mnist_keras.py --device cpu     # stock TensorFlow, one process
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "hello_world"))

FIRST_PORT = 7850


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["hpu", "cpu"], default="hpu")
    parser.add_argument("-b", "--batch_size", type=int, default=64, help="per worker")
    parser.add_argument("--dtype", choices=["bf", "fp"], default=None, help="default: bf on hpu")
    parser.add_argument("-e", "--epochs", type=int, default=6)
    return parser.parse_args()


def configure_cluster(rank: int, size: int) -> None:
    """Tells TensorFlow who the workers are, unless the launcher did."""
    if "TF_CONFIG" not in os.environ:
        workers = [f"localhost:{FIRST_PORT + k}" for k in range(size)]
        task = {"type": "worker", "index": rank}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})


def train(options: argparse.Namespace) -> None:
    """Trains and evaluates a small convolutional network; all workers run this."""
    if options.device == "hpu" and options.dtype != "fp":
        os.environ["TF_BF16_CONVERSION"] = "full"
    import tensorflow as tf
    from digits import load_data

    if options.device == "hpu":
        from habana_frameworks.tensorflow.distribute import HPUStrategy

        strategy = HPUStrategy()
    else:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    size = strategy.num_replicas_in_sync
    batch = options.batch_size * size  # HPUStrategy takes the global batch
    shard = tf.data.Options()
    shard.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    whole = tf.data.Options()
    whole.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF

    (x_train, y_train), (x_test, y_test) = load_data()
    scaled = [(x[..., None] / 255.0).astype("float32") for x in (x_train, x_test)]
    train_data = tf.data.Dataset.from_tensor_slices((scaled[0], y_train)).shuffle(2000, seed=1).batch(batch)
    test_data = tf.data.Dataset.from_tensor_slices((scaled[1], y_test)).batch(batch)

    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)),
                tf.keras.layers.MaxPooling2D(),
                tf.keras.layers.Flatten(),
                tf.keras.layers.Dense(64, activation="relu"),
                tf.keras.layers.Dense(10),
            ]
        )
        model.compile(
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            optimizer=tf.keras.optimizers.legacy.Adam(),
            metrics=["accuracy"],
        )
    model.fit(train_data.with_options(shard), epochs=options.epochs, verbose=2)
    loss, accuracy = model.evaluate(test_data.with_options(whole), verbose=0)
    print(f"{size} worker(s), test loss {loss:.4f}, test accuracy {accuracy * 100:.2f}", flush=True)


if __name__ == "__main__":
    chosen = arguments()
    if chosen.device == "hpu":
        from habana_frameworks.tensorflow.multinode_helpers import comm_rank, comm_size

        configure_cluster(comm_rank(), comm_size())
    train(chosen)
