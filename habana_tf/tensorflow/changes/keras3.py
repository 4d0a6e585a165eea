"""Keras 3: `jit_compile="auto"` resolves to False, and `fit` with several workers raises an error that helps.

Keras 3 resolves `jit_compile="auto"` to XLA as soon as TensorFlow has any device other than a CPU, and XLA does not
support HPU. While HPU is loaded, "auto" means False, which is what Keras itself chooses inside every distribution
strategy; the log says so once. An explicit `jit_compile=True` is accepted: HPU compiles what it marks (`xla.py`).

`fit` and `evaluate` of Keras 3 under a strategy of several workers fail in Keras itself, with an error about
"PerReplica" values that says nothing to a user; under HPUStrategy the error says what to do instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from habana_tf.host_changes.change import Change, Group

_log = logging.getLogger("habana_tf")
_announced = False


def _never(resolve: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def _resolve_auto_jit_compile(self: Any) -> bool:
        global _announced
        if not _announced:
            _announced = True
            _log.info(
                "Keras: jit_compile='auto' is taken as False, because XLA knows no HPU "
                "(HABANA_SIM_CHANGES=-keras3_jit leaves the choice to Keras)"
            )
        return False

    return _resolve_auto_jit_compile


def _with_one_worker(assert_compile_called: Callable[..., None]) -> Callable[..., None]:
    """What Keras 3 asks at the start of `fit`, `evaluate`, `train_on_batch` and `test_on_batch`."""

    def _assert_compile_called(self: Any, method_name: str | None = None) -> None:
        strategy: Any = getattr(self, "_distribute_strategy", None)
        workers = strategy.num_replicas_in_sync if type(strategy).__name__ == "HPUStrategy" else 1
        if workers > 1:
            raise RuntimeError(
                f"{method_name or 'fit'}() of Keras 3 does not work with several workers (HPUStrategy has {workers} "
                "here), with TensorFlow's own strategies neither. Use Keras 2 (TensorFlow 2.15, or tf_keras with "
                "TF_USE_LEGACY_KERAS=1), or a training loop of your own: strategy.run() in a tf.function"
            )
        assert_compile_called(self, method_name)

    return _assert_compile_called


_MODULE, _ONLY = "keras.src.trainers.trainer", "Keras 3"
JIT = Group(
    "keras3_jit",
    "compile() chooses XLA, which knows no HPU, and fit() fails",
    (Change(_MODULE, "Trainer._resolve_auto_jit_compile", _never),),
    only=_ONLY,
)
WORKERS = Group(
    "keras3_workers",
    "fit() under HPUStrategy with several workers fails with an error about PerReplica values",
    (Change(_MODULE, "Trainer._assert_compile_called", _with_one_worker),),
    only=_ONLY,
)
