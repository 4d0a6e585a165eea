"""How a program begins: its common arguments, then the card.

Precision and the recipe cache are settings of the device, so they are made before it is loaded: `begin` does both, in
that order, and gives the strategy. `--no_hpu` runs the same program on stock TensorFlow; with `--use_horovod` the cards
of a job are Horovod's ranks, and every one of them is alone as far as TensorFlow knows.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def parser(description: str | None, name: str) -> argparse.ArgumentParser:
    """The arguments that all programs have. name: of the program, for its directories."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("-d", "--dtype", choices=["bf16", "fp32"], default="bf16", help="precision of the products")
    made.add_argument("--no_hpu", action="store_true", help="do not load the module: stock TensorFlow on the CPU")
    made.add_argument("--use_horovod", action="store_true",
                      help="cards meet by Horovod: mpirun, horovodrun, habana-tf run --strategy horovod")  # fmt: skip
    made.add_argument("--model_dir", type=Path, help="checkpoints go there; one that is there is continued")
    made.add_argument("--recipe_cache", default=str(Path(tempfile.gettempdir()) / f"{name}_recipe_cache"),
                      help="directory of recipes; empty: none; TF_RECIPE_CACHE_PATH wins")  # fmt: skip
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--log_every", type=int, default=20, help="steps between two lines")
    made.add_argument("--placement", action="store_true", help="print the whole placement report in the end")
    return made


@dataclass
class Run:
    """One process of a job. strategy: a tf.distribute.Strategy; rank, size: of this process among all.

    horovod: the module `horovod.tensorflow` where it joins the processes, and not the strategy.
    """

    strategy: Any
    rank: int
    size: int
    hpu: bool
    horovod: Any = None

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

    def total(self, value: Any) -> Any:
        """The sum of a tensor over all cards, in a function that the strategy runs."""
        if self.size == 1:
            return value
        if self.horovod:
            return self.horovod.allreduce(value, op=self.horovod.Sum)
        import tensorflow as tf

        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, value)

    def for_optimizer(self, gradients: list[Any]) -> list[Any]:
        """What an optimizer is given: Horovod's sums; those of a strategy are made by the optimizer itself."""
        return [self.total(each) for each in gradients] if self.horovod else gradients

    def same(self, variables: list[Any]) -> None:
        """Gives all ranks the first one's values. A strategy does so by itself."""
        if self.horovod and self.size > 1:
            self.horovod.broadcast_variables(variables, root_rank=0)

    def wait(self) -> None:
        """Until all ranks are here."""
        import tensorflow as tf

        @tf.function
        def meet() -> Any:
            return self.total(tf.ones([]) + tf.zeros([]))

        self.strategy.run(meet)

    def tell_placement(self, whole: bool = False) -> None:
        """One line: which ops of the graphs ran on the CPU, and why. whole: the report itself too."""
        if not self.hpu or self.rank:
            return
        if whole:
            import habana_tf

            print(habana_tf.placement_report())
        print(on_the_cpu(), flush=True)


def on_the_cpu() -> str:
    """A line: the ops of graphs that ran on the CPU beside HPU, and why."""
    import habana_tf

    rows = [row for row in habana_tf.placement_report().to_dict()["refused"] if row["device"] == "CPU"]
    ops = ", ".join(f"{row['count']} {row['op']} ({row['text']})" for row in rows)
    return f"Ops of graphs on the CPU: {ops or 'none'}"


def begin(options: argparse.Namespace) -> Run:
    """Loads HPU as the arguments say, seeds TensorFlow, and makes the strategy: HPUStrategy, or stock with --no_hpu."""
    if not options.no_hpu:
        if options.dtype == "bf16":
            os.environ.setdefault("TF_BF16_CONVERSION", "basic")
        if options.recipe_cache and "TF_RECIPE_CACHE_PATH" not in os.environ:
            os.makedirs(options.recipe_cache, mode=0o700, exist_ok=True)
            os.environ["TF_RECIPE_CACHE_PATH"] = options.recipe_cache
    import tensorflow as tf

    if options.use_horovod:
        run = _with_horovod(not options.no_hpu)
        tf.keras.utils.set_random_seed(options.seed)
        return run
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


def _with_horovod(hpu: bool) -> Run:
    """Ends the program where Horovod is missing, or the launcher is not one of Horovod's."""
    if "TF_CONFIG" in os.environ:
        sys.exit(
            "--use_horovod: TF_CONFIG is set, so the launcher is not Horovod's; habana-tf run has --strategy horovod"
        )
    if hpu:
        from habana_frameworks.tensorflow import load_habana_module

        load_habana_module()
    try:
        import horovod.tensorflow as hvd
    except ImportError as error:
        sys.exit(f"--use_horovod: {error}; without it several cards have HPUStrategy")
    import tensorflow as tf

    hvd.init()
    return Run(tf.distribute.get_strategy(), hvd.rank(), hvd.size(), hpu, hvd)
