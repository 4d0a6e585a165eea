"""`HabanaEstimator`: an estimator of TensorFlow 2.15 or earlier on HPU.

Habana's: a `tf.estimator.Estimator` whose input iterator lived on HPU.
Here: with HPU loaded TensorFlow places an estimator's graph on it like any other, so the class adds only what users of
Habana's expect: loading the module when nobody did, and errors that help where estimators are gone or where several
workers cannot train. TensorFlow keeps input pipelines on the CPU.

Several workers: `RunConfig(train_distribute=HPUStrategy())` and `tf.estimator.train_and_evaluate`, with TF_CONFIG,
which is where TensorFlow's estimators look for the cluster. `train()` knows several workers on no TensorFlow, and its
error says so; TensorFlow lets no subclass change it.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from habana_tf.loader import load_habana_module

__all__ = ["HabanaEstimator"]

if not hasattr(tf, "estimator"):
    raise ImportError(
        f"HabanaEstimator: TensorFlow {tf.__version__} has no estimators, 2.15 was the last that had them. "
        "Use Keras or a training loop of your own, or TensorFlow 2.15"
    )


class HabanaEstimator(tf.estimator.Estimator):
    """`tf.estimator.Estimator` with the same arguments, on HPU.

    Raises ValueError for a strategy of several workers that TF_CONFIG does not describe, and what
    `load_habana_module` raises.
    """

    def __init__(self, model_fn: Any, model_dir: Any = None, config: Any = None, params: Any = None,
                 warm_start_from: Any = None) -> None:  # fmt: skip
        load_habana_module()
        super().__init__(model_fn, model_dir, config, params, warm_start_from)
        strategy = self._config.train_distribute
        workers = strategy.num_replicas_in_sync if strategy is not None else 1
        if workers > 1 and not self._config.cluster_spec:
            raise ValueError(
                f"the strategy of this estimator has {workers} workers, but TF_CONFIG does not name them, and an "
                "estimator looks for them nowhere else. Start the job with `habana-tf run`, which sets TF_CONFIG, or "
                "set it before making the RunConfig"
            )
