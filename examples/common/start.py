"""How a program begins: its common arguments, then the card.

Precision and the recipe cache are settings of the device, so they are made before it is loaded: `begin` does both, in
that order, and gives the strategy. `--no_hpu` runs the same program on stock TensorFlow.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def parser(description: str | None, name: str) -> argparse.ArgumentParser:
    """The arguments that all programs have. name: of the program, for its directories."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("-d", "--dtype", choices=["bf16", "fp32"], default="bf16", help="precision of the products")
    made.add_argument("--no_hpu", action="store_true", help="do not load the module: stock TensorFlow on the CPU")
    made.add_argument("--model_dir", type=Path, help="checkpoints go there; one that is there is continued")
    made.add_argument("--recipe_cache", default=str(Path(tempfile.gettempdir()) / f"{name}_recipe_cache"),
                      help="directory of recipes; empty: none; TF_RECIPE_CACHE_PATH wins")  # fmt: skip
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--log_every", type=int, default=20, help="steps between two lines")
    made.add_argument("--placement", action="store_true", help="print the whole placement report in the end")
    return made


@dataclass
class Run:
    """One process of a job. strategy: a tf.distribute.Strategy; rank, size: of this process among all."""

    strategy: Any
    rank: int
    size: int
    hpu: bool

    def say(self, text: str) -> None:
        """Prints on rank 0."""
        if self.rank == 0:
            print(text, flush=True)

    def share(self, batch: Any) -> Any:
        """This rank's rows of a global batch, an array or several. Raises ValueError where they are uneven."""
        if isinstance(batch, tuple):
            return tuple(self.share(each) for each in batch)
        if len(batch) % self.size:
            raise ValueError(f"a global batch of {len(batch)} is not divisible by {self.size} cards")
        rows = len(batch) // self.size
        return batch[self.rank * rows : (self.rank + 1) * rows]

    def wait(self) -> None:
        """Until all ranks are here."""
        if self.size > 1:
            import tensorflow as tf

            @tf.function
            def meet() -> Any:
                context = tf.distribute.get_replica_context()
                return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.ones([]) + tf.zeros([]))

            self.strategy.run(meet)

    def tell_placement(self, whole: bool = False) -> None:
        """One line: which ops of the graphs ran on the CPU, and why. whole: the report itself too."""
        if not self.hpu or self.rank:
            return
        import habana_tf

        report = habana_tf.placement_report()
        if whole:
            print(report)
        rows = [row for row in report.data()["refused"] if row["device"] == "CPU"]
        ops = ", ".join(f"{row['count']} {row['op']} ({row['text']})" for row in rows)
        print(f"Ops of graphs on the CPU: {ops or 'none'}", flush=True)


def begin(options: argparse.Namespace) -> Run:
    """Loads HPU as the arguments say, seeds TensorFlow, and makes the strategy: HPUStrategy, or stock with --no_hpu."""
    if not options.no_hpu:
        if options.dtype == "bf16":
            os.environ.setdefault("TF_BF16_CONVERSION", "basic")
        if options.recipe_cache and "TF_RECIPE_CACHE_PATH" not in os.environ:
            os.makedirs(options.recipe_cache, mode=0o700, exist_ok=True)
            os.environ["TF_RECIPE_CACHE_PATH"] = options.recipe_cache
    import tensorflow as tf

    if options.no_hpu:
        strategy = tf.distribute.get_strategy()
        if "TF_CONFIG" in os.environ:
            strategy = tf.distribute.MultiWorkerMirroredStrategy()
    else:
        from habana_frameworks.tensorflow.distribute import HPUStrategy

        strategy = HPUStrategy()
    tf.keras.utils.set_random_seed(options.seed)
    resolver = strategy.cluster_resolver
    rank = resolver.task_id if resolver is not None and resolver.task_id is not None else 0
    return Run(strategy, rank, strategy.num_replicas_in_sync, not options.no_hpu)
