"""Training that goes on when a rank dies and when another one comes, with elastic Horovod.

    examples/elastic/run_elastic.sh

Each rank says which process it is. Kill one with `kill -9`: the others meet again, take the weights of the last commit
and go on with fewer cards, until the launcher has started another rank in its place. A step's gradient is that of the
whole batch, however many cards share it, so the training is the same. With `--model_dir` the same line goes on even
after all ranks have died.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

import horovod.tensorflow as hvd
import horovod.tensorflow.keras
import numpy as np
import tensorflow as tf
from common.images import batches, digits

from habana_frameworks.tensorflow import load_habana_module


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains with elastic Horovod.")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch_size", type=int, default=64, help="over all cards")
    parser.add_argument("--commit_every", type=int, default=10, help="steps that a death may cost")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between two steps, to have time to look")
    parser.add_argument("--model_dir", type=Path, help="checkpoints go there; one that is there is continued")
    options = parser.parse_args()

    load_habana_module()
    hvd.init()
    tf.keras.utils.set_random_seed(1)
    (x_train, y_train), (x_test, y_test) = digits(16)
    batch_at = batches(x_train, y_train, options.batch_size, seed=1, shift=1)
    layers = tf.keras.layers
    model = tf.keras.Sequential([
        layers.Input((16, 16, 3)), layers.Conv2D(16, 3, strides=2, activation="relu"), layers.Flatten(),
        layers.Dense(64, activation="relu"), layers.Dense(10),
    ])  # fmt: skip
    optimizer = tf.keras.optimizers.legacy.Adam(2e-3)
    optimizer._create_all_weights(model.trainable_variables)
    saved = tf.train.Checkpoint(model=model, optimizer=optimizer, step=tf.Variable(0, dtype=tf.int64))
    if options.model_dir and (latest := tf.train.latest_checkpoint(options.model_dir)):
        saved.restore(latest).expect_partial()

    @tf.function
    def train(images, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=model(images, training=True))
            loss = tf.reduce_sum(losses) / options.batch_size
        gradients = hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return hvd.allreduce(loss, op=hvd.Sum)

    @hvd.elastic.run
    def work(state):
        """Runs again from the last commit whenever the ranks have met anew."""
        print(f"rank {hvd.rank()} of {hvd.size()}, process {os.getpid()}, begins at step {state.step}", flush=True)
        while state.step < options.steps:
            images, labels = batch_at(state.step)
            mine = slice(hvd.rank(), None, hvd.size())
            loss = train(tf.constant(images[mine]), tf.constant(labels[mine]))
            state.step += 1
            if state.step % options.commit_every == 0:
                if hvd.rank() == 0:
                    print(
                        f"step {state.step}/{options.steps}, loss {float(loss):.4f}, {hvd.size()} card(s)", flush=True
                    )
                if hvd.rank() == 0 and options.model_dir:
                    saved.step.assign(state.step)
                    saved.write(str(options.model_dir / "ckpt"))
                    tf.train.update_checkpoint_state(str(options.model_dir), "ckpt")
                state.commit()  # goes no further when a rank has come or gone
            time.sleep(options.pause)

    work(horovod.tensorflow.keras.elastic.KerasState(model, optimizer, step=int(saved.step.numpy())))
    right = np.argmax(model.predict(x_test, verbose=0), axis=1) == y_test
    if hvd.rank() == 0:
        print(f"test accuracy: {right.mean() * 100:.2f} %, {hvd.size()} card(s)", flush=True)


if __name__ == "__main__":
    main()
