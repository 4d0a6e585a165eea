"""What TensorFlow's own graph optimizers are asked for while HPU is loaded: what they would get anyway, in silence.

Some of them make ops that HPU has no kernel for, after placement, so the plugin switches them off for graphs with nodes
on HPU (kernels/plugin/graph.cc). Where a program's configuration asks for one of these, TensorFlow prints a table of
twenty optimizers for every graph. Every program does: the memory optimizer counts as asked for when nobody said
anything. So configurations leave here without those wishes:

    memory_optimization: anything               -> none
    arithmetic_optimization, remapping, ...: on -> the default, which for a graph on the CPU means the same

Invariants: a copy is changed, never what the program holds; programs that asked are told once in the log; what
`tf.config.optimizer.get_experimental_options()` answers stays. A configuration that does not come by here, from C++,
has the same effect and prints the table.
"""

from __future__ import annotations

import logging
import types
from typing import Any

__all__ = ["install"]

_log = logging.getLogger(__name__)
_OFF_ON_HPU = ("arithmetic_optimization", "remapping", "layout_optimizer", "auto_mixed_precision")
_told: set[str] = set()


def install() -> None:
    """Has the configurations of functions and sessions come by here. A second call does nothing."""
    from tensorflow.python.client import pywrap_tf_session
    from tensorflow.python.eager import context

    configured = context.Context.config
    if not hasattr(configured.fget, "__wrapped__"):

        def config(self: Any) -> Any:
            return quiet(configured.fget(self))

        config.__wrapped__ = configured.fget  # type: ignore[attr-defined]  # as functools.wraps has it
        context.Context.config = property(config, configured.fset, configured.fdel, configured.__doc__)
        answer = context.Context.get_optimizer_experimental_options

        def get_optimizer_experimental_options(self: Any) -> Any:
            # It reads `config` and nothing else of the context: what the program has set, not what becomes of it.
            return answer(types.SimpleNamespace(config=configured.fget(self)))

        context.Context.get_optimizer_experimental_options = get_optimizer_experimental_options
    options = pywrap_tf_session.TF_NewSessionOptions
    if not hasattr(options, "__wrapped__"):

        def TF_NewSessionOptions(target: Any = None, config: Any = None) -> Any:
            return options(target=target, config=None if config is None else quiet(config))

        TF_NewSessionOptions.__wrapped__ = options  # type: ignore[attr-defined]  # the same
        pywrap_tf_session.TF_NewSessionOptions = TF_NewSessionOptions


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
