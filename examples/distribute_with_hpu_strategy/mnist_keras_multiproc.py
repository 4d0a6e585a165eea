"""The same job without a launcher: this program starts its workers itself.

    python examples/distribute_with_hpu_strategy/mnist_keras_multiproc.py -n 2

The processes are spawned, not forked: a forked child cannot use a card. This process holds none.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os

from mnist_keras import configure_cluster, train


def work(rank: int, size: int, options: argparse.Namespace) -> None:
    """One worker."""
    os.environ["HLS_MODULE_ID"] = str(rank)
    configure_cluster(rank, size)
    train(options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--num_workers", type=int, default=4)
    parser.add_argument("-b", "--batch_size", type=int, default=64, help="per worker")
    parser.add_argument("--dtype", choices=["bf", "fp"], default="bf")
    parser.add_argument("-e", "--epochs", type=int, default=6)
    options = parser.parse_args()
    options.device = "hpu"
    spawn = multiprocessing.get_context("spawn")
    workers = [
        spawn.Process(target=work, args=(rank, options.num_workers, options)) for rank in range(options.num_workers)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    raise SystemExit(max(abs(worker.exitcode or 0) for worker in workers))


if __name__ == "__main__":
    main()
