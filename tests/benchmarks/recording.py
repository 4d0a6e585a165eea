"""What it costs to record a timeline: steps with recording on beside steps with it off, in pairs.

    python tests/benchmarks/recording.py --models mlp,resnet50 --pairs 15

Each pair is a block of training steps with and one without, in turn first, in one process. What is compared is the
processor time of the process, because other programs of the machine change it less than the time on the clock; one
thread runs the launches, because threads that wait for work count as well. A line per model: the median of the pairs'
ratios with the quartiles, and how many events a step has.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))  # behind the installed package


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="mlp,resnet50", help="of tests/benchmarks/models.py")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=1.0, help="processor time of a block of steps, roughly")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in this process: one model
    options = parser.parse_args(arguments)
    if options.here:
        print(measured(options.models, options.pairs, options.seconds), flush=True)
        return
    for model in options.models.split(","):
        line = [sys.executable, __file__, "--models", model, "--pairs", str(options.pairs)]
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "HABANA_SIM_LOG": "warning", "HABANA_SIM_THREADS": "1"}
        subprocess.run([*line, "--seconds", str(options.seconds), "--here"], check=True, env=env)


def measured(model: str, pairs: int, seconds: float) -> str:
    """The line of a model."""
    import tensorflow as tf

    import habana_tf
    from habana_tf.card.timeline.record import TimelineRecording
    from tests.benchmarks import models

    habana_tf.load_habana_module()
    tf.keras.utils.set_random_seed(1)
    benchmark = models.MODELS[model]
    network = models.compiled(benchmark.build(), xla=False)
    x, y = next(iter(benchmark.data()))

    def block(steps: int) -> float:
        start = time.process_time()
        for _ in range(steps):
            network.train_on_batch(x, y)
        return (time.process_time() - start) / steps

    block(3)
    steps = max(2, round(seconds / block(3)))
    ratios = []
    events = 0
    for pair in range(pairs):
        took = {}
        for on in (True, False) if pair % 2 else (False, True):
            recording = TimelineRecording() if on else None
            took[on] = block(steps)
            if recording is not None:
                events = sum(len(thread.events) for thread in recording.read().threads)
                recording.stop()
        ratios.append(took[True] / took[False])
    low, middle, high = statistics.quantiles(ratios, n=4)
    return (
        f"{model}: on/off {middle:.3f} ({low:.3f} to {high:.3f} in {pairs} pairs of {steps} steps), "
        f"{1e3 * took[False]:.2f} ms of processor time per step, {events / steps:.0f} events per step"
    )


if __name__ == "__main__":
    main()
