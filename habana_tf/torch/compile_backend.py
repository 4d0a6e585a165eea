"""torch.compile(backend="hpu_backend"): the graphs that Dynamo makes of a function become programs.

AOTAutograd splits a graph into a forward and a backward one of ATen overloads. A call of one of them is recorded as in
lazy mode, whatever the mode is, and ends with its program. So there is one way from overloads to programs; what it
costs over a program bound to the graph once is to record each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from habana_tf.torch.recording import Recorder

NAME = "hpu_backend"


def register(recorder: Recorder) -> None:
    """Makes the backend known to torch.compile by its name."""
    from torch._dynamo.backends.registry import list_backends, register_backend

    if NAME not in list_backends(exclude_tags=()):
        register_backend(_Backend(recorder), name=NAME)


class _Backend:
    """Compiles what Dynamo has traced."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.__name__ = NAME

    def __call__(self, graph: torch.fx.GraphModule, examples: Sequence[Any], **options: Any) -> Callable[..., Any]:
        from torch._dynamo.backends.common import aot_autograd

        compiled: Callable[..., Any] = aot_autograd(fw_compiler=self._recorded)(graph, examples)
        return compiled

    def _recorded(self, graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        from functorch.compile import make_boxed_func

        def run(*args: Any) -> Any:
            with self.recorder.recorded():
                return graph(*args)

        return make_boxed_func(run)  # type: ignore[no-any-return]
