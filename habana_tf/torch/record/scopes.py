"""Says which part of a program an op is of: a module, an optimizer, or the backward pass of one of a module's ops.

    ResNet/layer1.0.conv1           forward of that module of a ResNet
    backward/ResNet/layer1.0.conv1  gradients of an op of it
    update/Adam                     the update by an optimizer

Read from the Python stack, or for a compiled graph from what its trace says, and only where an op is met in a place
where it was never recorded, so that it costs nothing per op. The stack of the backward pass has no modules: there
PyTorch numbers the ops by the forward one that they belong to. Names are for people; no key has them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import sysconfig
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import typing_extensions
from torch import nn

import habana_tf
from habana_tf.reports.layer_names import layer

BACKWARD, UPDATE = "backward", "update"
_MOST = 100_000
"""Ops of the forward pass whose scopes are remembered for their gradients."""
_HERE = os.path.dirname(habana_tf.__file__ or "")
_FOLDERS = (os.path.dirname(torch.__file__ or ""), _HERE, os.path.join(os.path.dirname(_HERE), "habana_frameworks"))
_NOT_SHOWN = (*(os.path.join(folder, "") for folder in _FOLDERS), typing_extensions.__file__, "<")
"""How names of files begin whose lines say nothing to a user: PyTorch's, ours, and what decorates what PyTorch has."""
_PYTHONS = os.path.join(sysconfig.get_path("stdlib"), "")
_FEW = 2
_SELF = "L['self']."
"""How Dynamo's names of modules within the compiled one begin."""
_CALLED = frozenset({"forward", "_call_impl"})
"""Functions whose `self` may be a module."""


class Scopes:
    """Scopes of one process's ops."""

    def __init__(self) -> None:
        self._forward: dict[int, str] = {}
        self._paths: weakref.WeakKeyDictionary[nn.Module, dict[int, str]] = weakref.WeakKeyDictionary()

        self._compiled: dict[str, str] = {}
        self.of_graph = ""
        """While a graph that was traced runs, the scope of its node."""

    def now(self) -> str:
        """The scope of the op that is called; empty for one outside modules, optimizers and backward passes."""
        if self.of_graph:
            return self.of_graph
        node = torch._C._current_autograd_node()
        if node is not None:
            of = self._forward.get(node._sequence_nr(), "")
            return f"{BACKWARD}/{of}" if of else BACKWARD
        found = self._of(sys._getframe(1))
        number = torch._C._autograd._get_sequence_nr() - 1  # of the op that was given to autograd last: this one
        if found and number >= 0:
            if len(self._forward) > _MOST:
                self._forward.clear()
            self._forward.setdefault(number, found)
        return found

    def _of(self, frame: FrameType | None) -> str:
        """The scope by the Python stack from this frame on."""
        modules: list[nn.Module] = []
        while frame is not None:
            name = frame.f_code.co_name
            if name in _CALLED or name == "step":
                this = frame.f_locals.get("self")
                if isinstance(this, nn.Module) and (not modules or modules[-1] is not this):
                    modules.append(this)
                elif not modules and isinstance(this, torch.optim.Optimizer):
                    return f"{UPDATE}/{type(this).__name__}"
            frame = frame.f_back
        if not modules:
            return ""
        root = modules[-1]
        root = getattr(root, "_orig_mod", root)  # of torch.compile
        path = next((p for m in modules if (p := self._path(root, m)) is not None), "")
        return f"{type(root).__name__}/{path}" if path else type(root).__name__

    def traced(self, stack: Mapping[str, tuple[str, Any]] | None, before: str) -> str:
        """The scope by the modules that a trace names around a node, the outermost first. The compiled module itself is
        not among them: it is on the Python stack while its forward pass runs."""
        if not stack:
            return ""
        calls = [*stack.values()]
        (root, kind), (inner, _) = calls[0], calls[-1]
        if root.startswith(_SELF):
            found = self._of(sys._getframe(1)).split("/")[0] or self._compiled.get(next(iter(stack)), "")
            if found:
                self._compiled.update(dict.fromkeys(stack, found))
            name, path = found, inner[len(_SELF) :]
        else:
            name = getattr(kind, "__name__", str(kind).rpartition(".")[2])
            path = inner.removeprefix(root).lstrip(".")
        return "/".join(part for part in (before, name, path) if part)

    def _path(self, root: nn.Module, inner: nn.Module) -> str | None:
        """The name of a module within another; None where it is not in it."""
        known = self._paths.get(root)
        if known is None or id(inner) not in known:
            known = self._paths[root] = {id(m): name for name, m in root.named_modules()}
        return known.get(id(inner))


@contextlib.contextmanager
def of_node(meta: Mapping[str, Any]) -> Iterator[None]:
    """Within it ops have the scope that a trace says of one of its nodes. meta: the node's."""
    forward, backward = meta.get("nn_module_stack"), meta.get("fwd_nn_module_stack")
    before, _scopes.of_graph = _scopes.of_graph, _scopes.traced(backward, BACKWARD) or _scopes.traced(forward, "")
    try:
        yield
    finally:
        _scopes.of_graph = before


def most(of: Sequence[str]) -> tuple[str, ...]:
    """The outermost modules and the optimizers to which most of these scopes belong."""
    names = (scope.removeprefix(f"{BACKWARD}/").removeprefix(f"{UPDATE}/").split("/")[0] for scope in of)
    counts = Counter(name for name in names if name not in ("", BACKWARD))
    return tuple(name for name, _ in counts.most_common(_FEW))


_scopes = Scopes()


def line(frame: FrameType | None = None) -> str:
    """The line of the user's program that calls an op, as file:line, with that of an installed package which it calls
    and which calls the op in brackets; the latter alone where there is no other; empty in a thread of the backward
    pass. frame: of the call, by default of this one."""
    frame, package = frame or sys._getframe(1), ""
    while frame is not None:
        name, installed = _named(frame.f_code.co_filename)
        if installed:
            package = package or f"{name}:{frame.f_lineno}"
        elif name:
            own = seen(name, frame.f_lineno)
            return f"{own} ({package})" if package else own
        frame = frame.f_back
    return package


def line_of_main() -> str:
    """The line that the program's first thread is at, which in a backward pass waits for others."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return "" if frame is None else line(frame)


@functools.cache
def _named(file: str) -> tuple[str, bool]:
    """What a file is called, "" for one that is not shown; whether it is of an installed package, named from there."""
    if file.startswith(_NOT_SHOWN):
        return "", False
    for folder in (os.path.join(path, "") for path in sys.path if path):
        if file.startswith(folder) and _is_installed_to(folder):
            return file.removeprefix(folder), True
    return "" if file.startswith(_PYTHONS) else file, False


@functools.cache
def _is_installed_to(folder: str) -> bool:
    """Whether pip puts packages into a folder."""
    return any(Path(folder).glob("*.dist-info"))


@functools.lru_cache(4096)  # a line that reads a value in a loop is asked for each time
def seen(file: str, line: int) -> str:
    """A line as reports name it: file:line, the file as seen from the current folder."""
    with contextlib.suppress(OSError):  # of a folder that is gone
        file = file.removeprefix(os.path.join(os.getcwd(), ""))
    return f"{file}:{line}"


def now() -> str:
    """See `Scopes.now`."""
    return _scopes.now()


def where() -> tuple[str, str]:
    """The layer that the op which is called is of, and the line that calls it; empty where there is none."""
    scope = now()
    return layer(scope) if scope else "", line()
