"""torch.compile(backend="hpu_backend"): the graphs that Dynamo makes of a function become programs.

PyTorch finds the backend by the package's entry point `torch_dynamo_backends`, so that to load the device imports no
Dynamo. AOTAutograd splits a graph into a forward and a backward one of ATen overloads. A call of one is recorded as in
lazy mode, whatever the mode is, and ends with its program. So there is one way from overloads to programs; what
that costs over a program bound to the graph once is to record each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from habana_tf.torch.device import load


def hpu_backend(graph: torch.fx.GraphModule, examples: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compiles what Dynamo has traced. Takes no options."""
    from torch._dynamo.backends.common import aot_autograd

    if options:
        raise ValueError(f"hpu_backend has no options, and got {sorted(options)}")
    compiled: Callable[..., Any] = aot_autograd(fw_compiler=_recorded)(graph, examples)
    return compiled


def _recorded(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
    from torch._functorch.aot_autograd import make_boxed_func

    recorder = load().recorder

    def run(*args: Any) -> Any:
        with recorder.recorded():
            return graph(*args)

    boxed: Callable[..., Any] = make_boxed_func(run)
    return boxed
