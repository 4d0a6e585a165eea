"""What a prediction takes: seconds and peak memory of `predict` for two large networks, each in a process of its own.

    python -m tests.benchmarks.predicting

The bound is 15 s and 2 GB for each on a laptop, weights and TensorFlow itself not counted.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

CASES = (("ResNet50", 256, ""), ("BERT-large-512", 8, ""), ("BERT-large-512", 8, "adam"))
"""Network, batch, and an optimizer by its name: Keras' own of today are plain ops, many for each weight; "" is the one
that the network is compiled with."""


def one(network: str, batch: int, optimizer: str) -> None:
    """Prints what one prediction took."""
    import habana_tf
    from habana_tf.tensorflow.dry_run.weightless import without_values
    from tests.card.model.networks import NETWORKS

    habana_tf.load_habana_module()
    with without_values():
        model = NETWORKS[network].build()
    begin, cpu = time.perf_counter(), time.process_time()
    found = habana_tf.predict(model, *NETWORKS[network].inputs(batch), chip="gaudi2", optimizer=optimizer or None)
    seconds, busy = time.perf_counter() - begin, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    speed = f"{found.examples_per_second:,.0f} examples/s"
    what = f"{network} at {batch}" + (f", {optimizer}" if optimizer else "")
    print(f"{what}: {seconds:.1f} s, {busy:.1f} s of CPU, peak {peak:.2f} GB ({speed} on gaudi2)", flush=True)


def main() -> None:
    if len(sys.argv) == 4:
        one(sys.argv[1], int(sys.argv[2]), sys.argv[3])
        return
    for network, batch, optimizer in CASES:
        subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.predicting", network, str(batch), optimizer], check=True
        )


if __name__ == "__main__":
    main()
