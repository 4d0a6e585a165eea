"""`HabanaEstimator`: an estimator of TensorFlow 2.15 or earlier on HPU.

With HPU loaded TensorFlow places an estimator's graph on it like any other, so the class adds only what users of
Habana's expect: loading the module when nobody did, and an error that helps where estimators are gone. On a card its
input iterator lives on HPU; here TensorFlow keeps input pipelines on the CPU.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .loader import load_habana_module

if not hasattr(tf, "estimator"):
    raise ImportError(
        f"HabanaEstimator: TensorFlow {tf.__version__} has no estimators, 2.15 was the last that had them. "
        "Use Keras or a training loop of your own, or TensorFlow 2.15"
    )


class HabanaEstimator(tf.estimator.Estimator):
    """`tf.estimator.Estimator` with the same arguments, on HPU."""

    def __init__(self, model_fn: Any, model_dir: Any = None, config: Any = None, params: Any = None,
                 warm_start_from: Any = None) -> None:  # fmt: skip
        load_habana_module()
        super().__init__(model_fn, model_dir, config, params, warm_start_from)
