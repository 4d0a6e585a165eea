"""What the front end uses of PyTorch without a promise that it stays: all in one list, looked at before the device is
made.

PyTorch has a device type for backends of others, PrivateUse1, whose public interface is for backends in C++. From
Python the same can be had through a few names with an underscore. `missing` says which of them a release has not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from typing import Any

import torch

from habana_tf.torch.releases import TESTED

NAMES = {
    "torch.utils.backend_registration._setup_privateuseone_for_python_backend": "names the device and registers it",
    "torch._C._acc.PrivateUse1Hooks": "answers PyTorch's questions about the device",
    "torch._C._acc.DeviceGuard": "is what switches devices, of which there is one",
    "torch._C._from_dlpack": "makes a tensor on an address, and says when nothing uses it any more",
    "torch._C.DispatchKey.CPU": "names the kernels of views, which read no element",
    "torch.ops.aten.view.default._op_dk": "runs them on tensors of the device",
    "torch._C._dispatch_get_all_op_names": "lists the ops on lists of tensors",
    "torch._C._dispatch_has_kernel_for_dispatch_key": "says which of these PyTorch has for every device",
    "torch.ops.aten._scaled_dot_product_attention_math.default": "is what attention comes to",
    "torch._C._should_allow_numbers_as_tensors": "says which overloads take a number for a tensor",
    "torch._C._current_autograd_node": "names the gradients of a module's ops after the module",
    "torch._C._autograd._get_sequence_nr": "is how a gradient's op is told from others",
    "torch._C._functorch.peek_interpreter_stack": "says whether torch.func transforms what runs",
    "torch._C._functorch.is_legacy_batchedtensor": "says so of a batch of gradients",
    "torch.autograd.forward_ad._current_level": "says whether derivatives are taken forwards",
    "torch._C._current_graph_task_id": "says whether a backward pass is under way",
    "torch.autograd.Variable._execution_engine.queue_callback": "runs a training step's program when that pass ends",
    "torch.library.Library.fallback": "hands every op without a kernel of the device to the CPU's",
    "torch.library.Library._destroy": "takes the casts of autocast back when a program brings lists of its own",
    "torch._C._ExcludeDispatchKeyGuard": "calls an op whose tensors autocast has cast",
    "torch._C.Generator": "is under the generators of the device",
    "torch._tensor_str._tensor_str": "shows a tensor's elements",
    "torch.multiprocessing.reductions.StorageWeakRef": "says when pinned memory is gone",
    "torch._C.DispatchKey.AutocastPrivateUse1": "names the kernels that cast",
}
"""By name, what it is used for."""


_PLACE = re.compile(r'File "([^"]+)", line (\d+)')
"""Of a node, in the stack that Dynamo gives it."""


class UnsupportedTorch(ImportError):
    """This release of PyTorch lacks what the device is made of."""


def missing(root: Any = torch) -> list[str]:
    """The names that this PyTorch has not."""
    return [name for name in NAMES if not _has(root, name.removeprefix("torch."))]


def _has(root: Any, path: str) -> bool:
    import importlib

    parts = path.split(".")
    for count in range(len(parts) - 1, 0, -1):  # a module that `import torch` leaves out
        try:
            importlib.import_module(".".join(["torch", *parts[:count]]))
            break
        except ImportError:
            continue
    try:
        reduce(getattr, parts, root)
    except AttributeError:
        return False
    return True


def check() -> None:
    """Raises UnsupportedTorch where a name is missing."""
    gone = missing()
    if gone:
        first, last = (".".join(map(str, release)) for release in TESTED)
        uses = "; ".join(f"{name}, which {NAMES[name]}" for name in gone)
        raise UnsupportedTorch(
            f"the device hpu cannot be made with PyTorch {torch.__version__}, which has no {uses}. "
            f"Install one that is tested: torch>={first},<={last}.*"
        )


def release() -> tuple[int, int]:
    """The first two numbers of PyTorch's release."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def untraced(package: str) -> None:
    """Keeps a package out of what Dynamo traces. For its backends only: Dynamo takes seconds to import."""
    from torch._dynamo import trace_rules

    trace_rules.add(package)


def reasons_to_trace(graph: torch.fx.GraphModule) -> list[tuple[str, str, str, int]]:
    """Why Dynamo, which has just made this graph, made one more of a function: (what, why, file, line); the line is
    where the graph broke, or the first that the graph is of."""
    from torch._dynamo.utils import get_metrics_context

    found = []
    reason = getattr(graph, "compile_subgraph_reason", None)
    if reason is not None and reason.graph_break and reason.user_stack:
        place = reason.user_stack[-1]
        found.append(("a graph break", reason.reason.split("\n")[0], place.filename, place.lineno or 0))
    if why := getattr(get_metrics_context(), "_metrics", {}).get("recompile_reason"):
        stacks = (node.meta.get("stack_trace") or "" for node in graph.graph.nodes)
        places = next((p for p in map(_PLACE.findall, stacks) if p), [("", 0)])
        file, line = places[-1]
        found.append(("the same code for other arguments", why.split("\n")[0].split(": ", 1)[-1], file, int(line)))
    return found


def behind_backward_pass(call: Callable[[], None]) -> bool:
    """Has a function called when the backward pass that is under way ends. Whether there is one."""
    if torch._C._current_graph_task_id() < 0:
        return False
    torch.autograd.Variable._execution_engine.queue_callback(call)
    return True
