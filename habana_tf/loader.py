"""`load_habana_module()`: gives this process its HPU.

What: finds the card of this process, tells the plugin which kernels to register, loads it into TensorFlow, and
makes sure that an op placed on `/HPU:0` really runs there.

Why it is more than one call of TensorFlow: when ops ran before, TensorFlow's context is already built. The
physical device then appears but the logical one does not, and `with tf.device('/HPU:0')` runs on the CPU without a
word. So the context is built again, with the settings the user gave the old one.

Invariants: idempotent; either the device works afterwards or there is an error; nothing here runs when TensorFlow
or this package is only imported.
"""

from __future__ import annotations

import atexit
import gc
import importlib.machinery
import importlib.util
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from habana_tf import log, settings
from habana_tf.hardware import claim, device_state
from habana_tf.hardware.cards import Card, cards
from habana_tf.hardware.device_state import LoadError, is_loaded
from habana_tf.settings import habana as habana_variables
from habana_tf.tensorflow.changes.context import rebuild
from habana_tf.version import __version__

if TYPE_CHECKING:
    from habana_tf.card.timeline import process

__all__ = [
    "TESTED", "LoadError", "is_loaded", "is_op_override_allowed", "load_habana_module", "plugin_path",
    "set_op_override_allowed",
]  # fmt: skip

_log = logging.getLogger(__name__)

TESTED = ((2, 15), (2, 21))
"""First and last TensorFlow release this version is tested with."""

_EXIT_SECONDS = 60.0
"""How long the end of the process waits for a compilation under way on another thread."""

_lock = threading.Lock()
_op_override = True
"""What scripts for Gaudi have set, for those that ask."""
_under_way: threading.Event | None = None
"""While a thread is loading HPU: what the others wait for. The lock guards this name only."""


def is_op_override_allowed() -> bool:
    """What `set_op_override_allowed` set last; True at first."""
    return _op_override


def set_op_override_allowed(allowed: bool) -> None:
    """Habana's allowed or forbade fused versions of Keras' layers. Here it changes nothing but the answer above: the
    compiler fuses what a layer is made of."""
    global _op_override
    _op_override = bool(allowed)


def load_habana_module(allow_op_override: bool | None = None) -> None:
    """Registers the device `HPU` with TensorFlow. A second call changes at most the setting below.

    It may be called at any time, from any thread; variables, datasets and models made before go on working.

    allow_op_override: see `set_op_override_allowed`; None keeps what is set.
    The card is not claimed here but by the first op, so that a process which only starts others holds none.
    Raises LoadError, hardware.cards.CardError, hardware.machine.MachineError, hardware.ranks.RankError or
    settings.SettingError.
    """
    global _under_way
    if allow_op_override is not None:
        set_op_override_allowed(allow_op_override)
    while not is_loaded():
        with _lock:
            others, mine = _under_way, threading.Event()
            if others is None and not is_loaded():
                _under_way = mine
        if others is not None:
            others.wait()
        elif _under_way is mine:
            try:
                _load()
            finally:
                with _lock:
                    _under_way = None
                mine.set()
            return
    if claim.held_card() is None:
        claim.arm(claim.possible())  # Horovod may have loaded it before the program chose its card


def _load() -> None:
    log.configure()
    habana_variables.check()
    possible = claim.possible()
    _require_tensorflow()
    native = _native()
    with _uncollected():
        started = _load_plugin(native, possible)
        _check_device()
        claim.arm(possible)
        if not started:
            rebuild()  # as at program start-up: collectives and devices can still be configured
    from habana_tf.custom.op import register_all
    from habana_tf.resolver import memory_report
    from habana_tf.tensorflow import changes
    from habana_tf.tensorflow.facts import memory

    changes.install(started)
    register_all()
    importlib.import_module("habana_tf.tensorflow.graph.pipeline")  # the first step of a program would wait for it
    device_state.set_loaded()
    memory_report.add_source(memory.source)
    if log.level() <= logging.INFO:
        print(_summary(possible, native.host_memory()[0]), file=sys.stderr, flush=True)  # stdout is the program's
    habana_variables.announce()
    from habana_tf.card.timeline import process

    process.begin(_cpu_ops)


def _cpu_ops() -> process.CpuOps:
    from habana_tf.tensorflow.profiler import cpu_ops

    return cpu_ops.CpuOps()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Hides what there is from the garbage collector: to look through TensorFlow's objects takes as long as the rest
    of loading, and TensorFlow asks for it when a context is built again."""
    if gc.get_freeze_count():  # the program has something to hide too
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _require_tensorflow() -> None:
    if "tensorflow" not in sys.modules and importlib.util.find_spec("tensorflow") is None:
        raise LoadError(
            "TensorFlow is not installed in this Python environment: pip install 'tensorflow>=2.15,<2.22' "
            f"(Python here is {sys.executable})"
        )
    import tensorflow as tf

    version = tuple(int(part) for part in tf.__version__.split(".")[:2])
    if not TESTED[0] <= version <= TESTED[1]:
        first, last = (".".join(map(str, release)) for release in TESTED)
        _log.warning(
            "TensorFlow %s is outside the tested range %s to %s: it may work, or not", tf.__version__, first, last
        )


def _native() -> Any:
    """The bridge module, set up for this process."""
    try:
        from habana_tf._native import _bridge
    except ImportError as error:
        here = Path(__file__).parents[1]
        sources = (
            ", its sources: if it is installed, start Python elsewhere" if (here / "pyproject.toml").exists() else ""
        )
        raise LoadError(
            f"the native part of habana_tf cannot be loaded ({error}). Python took the package from {here}{sources}. "
            "To build it: pip install . in the source tree, or cmake -S . -B build && cmake --build build"
        ) from error
    from habana_tf import runtime_hooks

    threads = settings.HABANA_SIM_THREADS.get()
    if threads:
        _bridge.set_threads(threads)
    _bridge.attach(runtime_hooks)
    atexit.register(_bridge.withdraw, _EXIT_SECONDS)
    return _bridge


def plugin_path() -> Path:
    """The file of the TensorFlow plugin. Raises LoadError when it was not built."""
    spec = importlib.util.find_spec("habana_tf._native._bridge")
    origin = spec.origin if spec is not None else None
    if origin is not None:
        path = Path(origin).parent / "libhabana_plugin.so"
        if path.exists():
            return path
    raise LoadError(
        "the TensorFlow plugin of habana_tf (libhabana_plugin.so) was not built, because TensorFlow was not "
        "installed at that time. Build habana_tf again: pip install --no-build-isolation . in the source tree"
    )


def _load_plugin(native: Any, possible: tuple[Card, ...]) -> bool:
    """Registers HPU with TensorFlow. Returns whether TensorFlow's context had been built before."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import load_library

    from habana_tf import runtime_hooks

    path = plugin_path()
    started = context._context is not None and context._context._initialized
    if not _registered():
        chip = possible[0].chip
        bus_id = possible[0].bus_id if len(possible) == 1 else "<known at the first op>"
        native.set_card(chip.device_type, bus_id, chip.hbm_bytes)
        native.set_registrations(runtime_hooks.registrations())
        try:
            load_library.load_pluggable_device_library(str(path))
        except Exception as error:
            raise LoadError(f"TensorFlow did not take the plugin {path}: {error}") from error
        if started:
            rebuild()
    return started


def _registered() -> bool:
    """Whether TensorFlow knows HPU already (an earlier call failed after that point)."""
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("HPU"))


def _check_device() -> None:
    """One physical and one logical HPU, and an op that runs on it; or an error."""
    import tensorflow as tf

    physical = tf.config.list_physical_devices("HPU")
    try:
        logical = tf.config.list_logical_devices("HPU")
        with tf.device("/device:HPU:0"):
            where = tf.identity(tf.constant(1.0)).device
    except Exception as error:
        raise LoadError(f"the plugin is loaded, but HPU:0 does not work: {error}") from error
    if len(physical) != 1 or len(logical) != 1 or not where.endswith("HPU:0"):
        raise LoadError(
            f"the plugin is loaded, but TensorFlow shows {len(physical)} physical and {len(logical)} logical HPU "
            f"devices and placed an op of '/HPU:0' on {where!r}. If devices were hidden with "
            "tf.config.set_visible_devices, include HPU; otherwise call load_habana_module() before other set-up"
        )


def _summary(possible: tuple[Card, ...], host_bytes: int) -> str:
    import tensorflow as tf

    gib = 1 << 30
    chip = possible[0].chip
    modules = ",".join(str(card.module_id) for card in possible)
    which = f"card {modules} of {len(cards())}" if len(possible) == 1 else f"the first free card of {modules}"
    text = (
        f"habana_tf {__version__}: simulated {chip.device_type}, {which} (claimed by the first op), "
        f"{chip.hbm_bytes / gib:.0f} GiB HBM, TensorFlow {tf.__version__}"
    )
    if host_bytes < chip.hbm_bytes:
        text += f"; this host has {host_bytes / gib:.1f} GiB, less than the card: host memory is the limit"
    return text
