"""What a prediction takes: seconds and peak memory of `predict` for two large networks, each in a process of its own.

    python -m tests.benchmarks.predicting

The bound is 15 s and 2 GB for each on a laptop, weights and TensorFlow itself not counted.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

CASES = (("ResNet50", 256), ("BERT-large-512", 8))


def one(network: str, batch: int) -> None:
    """Prints what one prediction took."""
    import habana_tf
    from habana_tf.prediction.weightless import without_values
    from tests.card.networks import NETWORKS

    habana_tf.load_habana_module()
    with without_values():
        model = NETWORKS[network].build()
    begin, cpu = time.perf_counter(), time.process_time()
    found = habana_tf.predict(model, *NETWORKS[network].inputs(batch), chip="gaudi2")
    seconds, busy = time.perf_counter() - begin, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    speed = f"{found.examples_per_second:,.0f} examples/s"
    print(
        f"{network} at {batch}: {seconds:.1f} s, {busy:.1f} s of CPU, peak {peak:.2f} GB ({speed} on gaudi2)",
        flush=True,
    )


def main() -> None:
    if len(sys.argv) == 3:
        one(sys.argv[1], int(sys.argv[2]))
        return
    for network, batch in CASES:
        subprocess.run([sys.executable, "-m", "tests.benchmarks.predicting", network, str(batch)], check=True)


if __name__ == "__main__":
    main()
