"""Keras beside HPU: `compile()` takes `jit_compile=True` and need not choose XLA; workers cannot `fit`.

Keras 2 refuses `jit_compile=True` with a warning where TensorFlow has any pluggable device. While HPU is the only one
it is taken here, as with Keras 3: what it marks is compiled by HPU (`xla_compat.py`).

Keras 3 takes `jit_compile="auto"` for "XLA" as soon as TensorFlow has any device that is no CPU, and XLA knows
no HPU. While HPU is loaded, "auto" means False here, which is what Keras itself chooses inside every distribution
strategy. An explicit `jit_compile=True` is taken; what it marks is compiled by HPU (`xla_compat.py`).

`fit` and `evaluate` of Keras 3 under a strategy of several workers fail in Keras itself, with an error about
"PerReplica" values that says nothing to a user; under HPUStrategy the error says what to do instead.

The wraps are installed by `load_habana_module()`, or when Keras is imported later; the choice of "auto" is announced
once. HABANA_SIM_KERAS_JIT=off leaves `jit_compile` to Keras, and `uninstall()` takes all away.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import settings
from .after_import import Changes, cancel, when_imported

__all__ = ["install", "uninstall"]

_log = logging.getLogger(__name__)
_MODULE = "keras.src.trainers.trainer"
_originals: dict[str, Any] = {}
_announced = False


def install() -> None:
    """Wraps Keras now, or as soon as it is imported."""
    when_imported(_MODULE, _wrap)
    _keras_2.install()


def uninstall() -> None:
    """Gives Keras its own behaviour back."""
    cancel(_MODULE)
    _keras_2.uninstall()
    module = sys.modules.get(_MODULE)
    if module is not None and _originals:
        for name, value in _originals.items():
            setattr(module.Trainer, name, value)
    _originals.clear()


def _wrap_keras_2(module: ModuleType) -> None:
    check = getattr(module, "can_jit_compile", None)
    if check is not None:
        _keras_2.set(module, "can_jit_compile", _beside_hpu(check))


_keras_2 = Changes(("keras.src.utils.tf_utils", "tf_keras.src.utils.tf_utils"), _wrap_keras_2)


def _beside_hpu(check: Callable[[bool], bool]) -> Callable[[bool], bool]:
    """Keras 2's check of `jit_compile=True`, which HPU passes. Keras' optimizers ask it too, but for a GPU as well."""

    def can_jit_compile(warn: bool = False) -> bool:
        from tensorflow.python import pywrap_tfe

        kinds = {name.rsplit(b":", 2)[-2] for name in pywrap_tfe.TF_ListPluggablePhysicalDevices()}
        return (settings.HABANA_SIM_KERAS_JIT.get() and kinds == {b"HPU"}) or check(warn)

    return can_jit_compile


def _wrap(module: ModuleType) -> None:
    trainer = getattr(module, "Trainer", None)
    resolve = getattr(trainer, "_resolve_auto_jit_compile", None)
    if _originals or trainer is None or resolve is None:
        return
    _originals["_resolve_auto_jit_compile"] = resolve
    compiled = getattr(trainer, "_assert_compile_called", None)
    if compiled is not None:
        _originals["_assert_compile_called"] = compiled
        trainer._assert_compile_called = _with_one_worker(compiled)
    trainer._resolve_auto_jit_compile = _never(resolve)


def _never(resolve: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def _resolve_auto_jit_compile(self: Any) -> bool:
        global _announced
        if not settings.HABANA_SIM_KERAS_JIT.get():
            return resolve(self)
        if not _announced:
            _announced = True
            _log.info(
                "Keras: jit_compile='auto' is taken as False, because XLA knows no HPU "
                "(HABANA_SIM_KERAS_JIT=off leaves the choice to Keras)"
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
