"""TensorFlow's eager context: rebuilt with HPU, without requests for optimizers that HPU refuses, synchronous.

`rebuild` creates the context again, so that HPU is among its devices even if TensorFlow ran ops before it was loaded.

`OPTIMIZERS` removes requests for Grappler optimizers that the plugin refuses. Some of them create ops after placement
that HPU has no kernels for, so the plugin switches them off for graphs with nodes on HPU (kernels/plugin/graph.cc). If
the session configuration requests one of these, TensorFlow prints a table of twenty optimizers for every graph; and
every configuration does, because the memory optimizer counts as requested by default. So configurations are changed
before TensorFlow's C API gets them:

    memory_optimization: anything               -> none
    arithmetic_optimization, remapping, ...: on -> the default, which means the same for a graph on the CPU

A copy is changed, never the program's own object; the log says once what was switched off;
`tf.config.optimizer.get_experimental_options()` still returns what the program set. A configuration from C++ has the
same effect and prints the table.

`SYNCHRONOUS` makes eager execution synchronous even if a program asks for asynchronous execution; the log says so once.
Asynchronous execution deadlocks: HPU compiles an op of new shapes in Python, on a thread of TensorFlow's that waits for
the GIL, while the program's thread, which holds the GIL, waits for the tensor, if only for its rank.
"""

from __future__ import annotations

import functools
import logging
import types
from collections.abc import Callable
from typing import Any

from habana_tf.host_changes.change import Change, Group

_log = logging.getLogger("habana_tf")
_CONTEXT = "tensorflow.python.eager.context"

_CARRIED = (
    "_seed", "_rng", "_config", "_device_policy", "_mirroring_policy", "_default_is_async", "_jit_compile_rewrite",
    "_server_def", "_set_server_def_retries", "_collective_ops_server_def", "_collective_leader",
    "_collective_scoped_allocator_enabled_ops", "_collective_use_nccl_communication", "_collective_device_filters",
    "_coordination_service_config", "_optimizer_jit", "_intra_op_parallelism_threads",
    "_inter_op_parallelism_threads", "_soft_device_placement", "_log_device_placement", "_operation_timeout_in_ms",
    "_enable_mlir_graph_optimization", "_optimizer_experimental_options", "_virtual_device_map",
)  # fmt: skip
"""What users set on TensorFlow's context: seeds, threads, placement, optimizers, collectives."""


def rebuild() -> None:
    """Builds TensorFlow's context again, now with HPU, keeping the user's settings.

    The new context is not started: as in a fresh process, devices and collectives can be configured.
    """
    from tensorflow.python.eager import context

    old = context._context
    hidden = set(old._physical_devices or ()) - set(old._visible_device_list)
    context._reset_context()
    new = context.context()
    for name in _CARRIED:
        if hasattr(old, name) and (name != "_rng" or old._seed is not None):
            setattr(new, name, getattr(old, name))
    new._initialize_physical_devices()
    hidden_names = {device.name for device in hidden}
    new._visible_device_list = [d for d in new._physical_devices if d.name not in hidden_names]


# --- which graph optimizers are asked for ---

_OFF_ON_HPU = ("arithmetic_optimization", "remapping", "layout_optimizer", "auto_mixed_precision")
_told: set[str] = set()
_asked: Any = None
"""The property `Context.config` of TensorFlow itself, while it is replaced."""


def _quiet_config(configured: Any) -> Any:
    global _asked
    _asked = configured

    def config(self: Any) -> Any:
        return quiet(configured.fget(self))

    return property(config, configured.fset, configured.fdel, configured.__doc__)


def _as_asked(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def get_optimizer_experimental_options(self: Any) -> Any:
        # It reads `config` and nothing else of the context: what the program has set, not what becomes of it.
        return answer(types.SimpleNamespace(config=_asked.fget(self)))

    return get_optimizer_experimental_options


def _quiet_session(options: Callable[..., Any]) -> Callable[..., Any]:
    def TF_NewSessionOptions(target: Any = None, config: Any = None) -> Any:
        return options(target=target, config=None if config is None else quiet(config))

    return TF_NewSessionOptions


def quiet(config: Any) -> Any:
    """The ConfigProto without wishes that the plugin refuses; a copy if there are any."""
    rewriter = config.graph_options.rewrite_options
    wished = [name for name in _OFF_ON_HPU if getattr(rewriter, name) == rewriter.ON]
    if not wished and rewriter.memory_optimization == rewriter.NO_MEM_OPT:
        return config
    if rewriter.memory_optimization not in (rewriter.NO_MEM_OPT, rewriter.DEFAULT_MEM_OPT):
        wished.append("memory_optimization")
    new = type(config)()
    new.CopyFrom(config)
    rewriter = new.graph_options.rewrite_options
    for name in wished:
        setattr(rewriter, name, rewriter.DEFAULT)
    rewriter.memory_optimization = rewriter.NO_MEM_OPT
    untold = [name for name in wished if name not in _told]
    if untold:
        _told.update(untold)
        _log.info("%s: off in graphs with nodes on HPU, whose graph compiler does that work", ", ".join(untold))
    return new


OPTIMIZERS = Group(
    "optimizers",
    "TensorFlow prints a table of twenty optimizers for every graph",
    (
        Change(_CONTEXT, "Context.config", _quiet_config),
        Change(_CONTEXT, "Context.get_optimizer_experimental_options", _as_asked),
        Change("tensorflow.python.client.pywrap_tf_session", "TF_NewSessionOptions", _quiet_session),
    ),
)


# --- eager ops are synchronous ---


def _synchronous(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def new_executor(enable_async: bool, *args: Any, **kwargs: Any) -> Any:
        if enable_async:
            _announce()
        return original(False, *args, **kwargs)

    return new_executor


def _synchronous_mode(mode: Any) -> Any:
    from tensorflow.python.eager import context

    def set_mode(self: Any, value: Any) -> None:
        if value == context.ASYNC:
            _announce()
            value = context.SYNC
        mode.fset(self, value)

    return mode.setter(set_mode)


def _present_context(started: bool) -> None:
    """Makes the context there is synchronous, too."""
    from tensorflow.python.eager import context

    current = context.context()
    if current.is_async():
        current.execution_mode = context.ASYNC


@functools.cache
def _announce() -> None:
    _log.info("eager ops stay synchronous beside HPU: one that is compiled would wait for Python, and Python for it")


SYNCHRONOUS = Group(
    "synchronous",
    "asynchronous eager ops that are compiled wait for Python, and Python for them, forever",
    (
        Change("tensorflow.python.eager.executor", "new_executor", _synchronous),
        Change(_CONTEXT, "Context.execution_mode", _synchronous_mode),
    ),
    begin=_present_context,
)
