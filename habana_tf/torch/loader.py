"""The device `hpu` of PyTorch: names it, registers its kernels, and answers PyTorch's questions about it.

One process has one card, as under TensorFlow; the first tensor claims it.
"""

from __future__ import annotations

import functools
import logging
import threading
from typing import Any

import torch

from habana_tf import log
from habana_tf._native import _bridge
from habana_tf.card.timeline import process
from habana_tf.hardware import chips, claim, device_state, ranks
from habana_tf.hardware.cards import cards, choice
from habana_tf.resolver import memory_report
from habana_tf.settings import PT_HPU_LAZY_MODE, habana
from habana_tf.torch import changes, private_api
from habana_tf.torch.device import autocast, cache_clearing, compile_backends, hpu, pinned, serialization
from habana_tf.torch.dispatch.kernels import Kernels
from habana_tf.torch.memory import usage
from habana_tf.torch.memory.storage import Memory
from habana_tf.torch.record import current, telemetry
from habana_tf.torch.record.recorder import Recorder

_log = logging.getLogger("habana_tf")
_lock = threading.Lock()
_kernels: Kernels | None = None
"""The registrations of the device, once it is loaded."""


def load() -> Recorder:
    """Makes `torch.device("hpu")` work, at the first call. Returns what records ops now.

    Raises private_api.UnsupportedTorch, changes.ChangeError, hardware.cards.CardError or settings.SettingError.
    """
    global _kernels
    with _lock:
        if _kernels is not None:
            return current.recorder()
        private_api.check()
        first, last = private_api.TESTED
        if not first <= private_api.release() <= last:
            _log.warning("PyTorch %s is not among the tested releases: it may work, or not", torch.__version__)
        log.configure()
        habana.check()
        cache_clearing.clear_if_asked()
        ranks.tell()
        chip = choice().cards[0].chip if cards() else chips.chip()
        memory, kernels = Memory(chip.hbm_bytes, claim.claim), Kernels()
        current.attach(Recorder(memory, PT_HPU_LAZY_MODE.get()), chip)
        from torch._C._acc import DeviceGuard, PrivateUse1Hooks
        from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

        _setup_privateuseone_for_python_backend(
            "hpu", hpu, _hooks(PrivateUse1Hooks), _guard(DeviceGuard)
        )  # fmt: skip
        kernels.register()
        autocast.default.register()
        pinned.default.register()
        changes.install(changes.AT_LOAD)
        serialization.register()
        compile_backends.announce()
        telemetry.begin()
        device_state.set_loaded(device_state.PYTORCH)
        memory_report.add_source(functools.partial(usage.source, memory))
        process.begin()
        habana.announce()
        _kernels = kernels
        return current.recorder()


def _hooks(base: Any) -> Any:
    class Hooks(base):
        """What PyTorch's core asks of a device."""

        def is_available(self) -> bool:
            return True

        def has_primary_context(self, index: int) -> bool:
            return True

        def is_built(self) -> bool:
            return True

    return Hooks()


def _guard(base: Any) -> Any:
    class Guard(base):
        """What switches devices; there is one.

        It is asked for its type also while the exception of a hook is on its way through C++, and must leave that as it
        is. Without attributes of the instance, where to look would end it.
        """

        __slots__ = ()
        type_ = _bridge.Undisturbed(torch._C._autograd.DeviceType.PrivateUse1)

    return Guard()
