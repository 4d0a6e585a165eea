"""Times one configuration in this process and prints one JSON line.

    python worker.py --model lenet --device hpu --precision bf16 --threads 2 --steps 200

What is timed is what a user waits for: `model.fit` on data in memory. A callback notes when each step ends, so the
times include Keras and the input pipeline, alike for every device. Run in a fresh process each time, because neither
TensorFlow's threads nor its devices can be set up twice.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

WARM_UP = 0.2
"""Part of the steps, at the start, that is not counted."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--device", choices=["hpu", "default", "xla"], required=True)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument(
        "--first-call", action="store_true", help="no training: eager calls of the model on one example"
    )
    parser.add_argument("--strategy", action="store_true", help="as a worker of the cluster in TF_CONFIG, or alone")
    arguments = parser.parse_args()

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["HABANA_SIM_THREADS"] = str(arguments.threads)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    if arguments.device == "hpu":
        os.environ.setdefault("HABANA_SIM_LOG", "warning")
        import habana_tf

        habana_tf.load_habana_module()
    if arguments.precision == "bf16":
        tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    tf.keras.utils.set_random_seed(1)
    if arguments.first_call:
        measured = _first_call(arguments)
    else:
        measured = _build() if arguments.model == "resnet50_build" else _train(arguments)
    print(json.dumps({"tensorflow": tf.__version__, **measured, **_recipes(arguments.device)}))


def _train(arguments: argparse.Namespace) -> dict[str, Any]:
    """Wall time from `fit` and from the start of the process to the end of the first step, and of each later step.

    In seconds.
    """
    import models
    import numpy as np
    import tensorflow as tf

    class Clock(tf.keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self._supports_tf_logs = True  # Keras then leaves the losses where they are
            self.ends: list[float] = []
            self.from_start = 0.0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if not self.ends:
                self.from_start = _age()
            self.ends.append(time.perf_counter())

    benchmark = models.MODELS[arguments.model]
    strategy = _strategy(arguments)
    with strategy.scope():
        model = models.compiled(benchmark.build(), xla=arguments.device == "xla")
    data, clock = benchmark.data(strategy.num_replicas_in_sync), Clock()
    start = time.perf_counter()
    history = model.fit(data, steps_per_epoch=arguments.steps, epochs=1, verbose=0, callbacks=[clock])
    steps = [after - before for before, after in zip(clock.ends, clock.ends[1:], strict=False)]
    return {
        "first_step": clock.ends[0] - start,
        "from_start": clock.from_start,
        "steps": steps[int(len(steps) * WARM_UP) :],
        "loss": float(history.history["loss"][-1]),
        "parameters": sum(int(np.prod(weight.shape)) for weight in model.trainable_weights),
    }


def _age() -> float:
    """Seconds since this process began."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    began = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # starttime, the 22nd of all fields
    return float(Path("/proc/uptime").read_text().split()[0]) - began


def _strategy(arguments: argparse.Namespace) -> Any:
    """The strategy to train under: the device's multi-worker one, or TensorFlow's default, which is none."""
    import tensorflow as tf

    if not arguments.strategy:
        return tf.distribute.get_strategy()
    if arguments.device != "hpu":
        return tf.distribute.MultiWorkerMirroredStrategy()
    from habana_tf.distribute import HPUStrategy

    return HPUStrategy()


def _first_call(arguments: argparse.Namespace) -> dict[str, Any]:
    """Seconds to build the model, of its first two eager calls on one example, and of its first `predict`; each until
    the numbers are there. On HPU also how many recipes were compiled before and during the first call."""
    import models
    import tensorflow as tf

    def seconds(call: Any) -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    def compiled() -> int:
        return int(_recipes(arguments.device).get("compiled", 0))

    benchmark, made = models.MODELS[arguments.model], []
    times = {"build": seconds(lambda: made.append(benchmark.build()))}
    model, before = made[0], compiled()
    example = next(iter(benchmark.data().take(1)))[0][:1]
    x = tf.constant(example.numpy())
    times["first_call"] = seconds(lambda: model(x).numpy())
    times |= {"built_recipes": before, "first_call_recipes": compiled() - before}
    times["second_call"] = seconds(lambda: model(x).numpy())
    times["predict"] = seconds(lambda: model.predict(x, verbose=0))
    return times


def _build() -> dict[str, Any]:
    """Seconds to build and compile Keras' ResNet50, without a step."""
    import tensorflow as tf

    start = time.perf_counter()
    model = tf.keras.applications.ResNet50(weights=None)
    model.compile(optimizer=tf.keras.optimizers.Adam(), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return {"build": time.perf_counter() - start}


def _recipes(device: str) -> dict[str, Any]:
    """How many recipes were compiled, which shows whether the start was cold."""
    if device != "hpu":
        return {}
    from habana_tf import cache

    counts = cache.stats().counts()
    return {"compiled": counts.compiled, "compile_seconds": counts.compile_seconds}


if __name__ == "__main__":
    main()
