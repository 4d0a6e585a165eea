"""Exceptions of a user's code in the backward pass reach the caller, as on the CPU, and the device goes on."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tests.child import python
from tests.torch.child import HAS_TORCH, needs_torch, on_device

if HAS_TORCH:
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint


class Mine(Exception):
    """An exception of a user's own."""


KINDS = ValueError, Mine, KeyboardInterrupt, SystemExit, StopIteration, MemoryError
Raise = Callable[..., Any]


def _raising(kind: type[BaseException]) -> Raise:
    def hook(*args: Any, **kwargs: Any) -> Any:
        raise kind("mine")

    return hook


def _leaf(device: str) -> Any:
    return torch.ones(3, device=device, requires_grad=True)


def _tensor_hook(hook: Raise, device: str) -> None:
    y = _leaf(device) * 2
    y.register_hook(hook)
    y.sum().backward()


def _parameter_hook(hook: Raise, device: str) -> None:
    x = _leaf(device)
    x.register_hook(hook)
    (x * 2).sum().backward()


def _accumulated(hook: Raise, device: str) -> None:
    x = _leaf(device)
    x.register_post_accumulate_grad_hook(hook)
    (x * 2).sum().backward()


def _before_node(hook: Raise, device: str) -> None:
    y = _leaf(device) * 2
    y.grad_fn.register_prehook(hook)
    y.sum().backward()


def _after_node(hook: Raise, device: str) -> None:
    y = _leaf(device) * 2
    y.grad_fn.register_hook(hook)
    y.sum().backward()


def _module(hook: Raise, device: str) -> None:
    m = nn.Linear(3, 3).to(device)
    m.register_full_backward_hook(hook)
    m(_leaf(device)).sum().backward()


def _before_module(hook: Raise, device: str) -> None:
    m = nn.Linear(3, 3).to(device)
    m.register_full_backward_pre_hook(hook)
    m(torch.ones(2, 3, device=device)).sum().backward()


def _pack(hook: Raise, device: str) -> None:
    with torch.autograd.graph.saved_tensors_hooks(hook, lambda saved: saved):
        (_leaf(device) * _leaf(device)).sum().backward()


def _unpack(hook: Raise, device: str) -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, hook):
        y = (_leaf(device) * _leaf(device)).sum()
    y.backward()


def _recomputed(hook: Raise, device: str, reentrant: bool = False) -> None:
    calls = []

    def run(x: Any) -> Any:
        calls.append(x)
        if len(calls) > 1:
            hook()
        return (x * x).relu()

    checkpoint(run, _leaf(device), use_reentrant=reentrant).sum().backward()


def _recomputed_reentrant(hook: Raise, device: str) -> None:
    _recomputed(hook, device, True)


def _function(hook: Raise, device: str) -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return hook(grad)

    Double.apply(_leaf(device)).sum().backward()


def _inner_backward(hook: Raise, device: str) -> None:
    def inner(grad: Any) -> None:
        with torch.enable_grad():
            _tensor_hook(hook, device)

    _tensor_hook(inner, device)


def _many_gradients(hook: Raise, device: str) -> None:
    x = _leaf(device)
    y, z = x.sin(), x * 2
    torch.autograd.graph.register_multi_grad_hook((y, z), hook)
    (y.sum() + z.sum()).backward()


def _second_derivative(hook: Raise, device: str) -> None:
    x = _leaf(device)
    y = x * x
    y.register_hook(hook)
    torch.autograd.grad(y.sum(), x, create_graph=True)


def _one_thread(hook: Raise, device: str) -> None:
    with torch.autograd.set_multithreading_enabled(False):
        _tensor_hook(hook, device)


def _anomaly(hook: Raise, device: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.set_detect_anomaly(True):
            _tensor_hook(hook, device)


def _compiled(hook: Raise, device: str) -> None:
    call = torch.compile(lambda x: (x * x).sin(), backend="hpu_backend") if device == "hpu" else torch.sin
    y = call(_leaf(device))
    y.register_hook(hook)
    y.sum().backward()


def _wrong_shape(hook: Raise, device: str) -> None:
    y = _leaf(device) * 2
    y.register_hook(lambda grad: torch.ones(7, device=device))
    y.sum().backward()


PLACES = {
    place.__name__.removeprefix("_"): place
    for place in (
        _tensor_hook, _parameter_hook, _accumulated, _before_node, _after_node, _module, _before_module, _pack, _unpack,
        _recomputed, _recomputed_reentrant, _function, _inner_backward, _many_gradients, _second_derivative,
        _one_thread, _anomaly, _compiled, _wrong_shape,
    )
}  # fmt: skip


def _raised(place: str, kind: type[BaseException], device: str) -> Any:
    """The type of what a place raises, its text, and the type of what that was raised in."""
    try:
        PLACES[place](_raising(kind), device)
    except BaseException as error:
        return type(error), str(error), type(error.__context__)
    return None


@on_device(*PLACES)
def test_an_exception_in_the_backward_pass_reaches_the_caller(place: str) -> None:
    for kind in KINDS:
        raised = _raised(place, kind, "hpu")
        assert raised is not None and raised == _raised(place, kind, "cpu"), kind
        x = _leaf("hpu")
        (x * x).sum().backward()
        assert x.grad.tolist() == [2, 2, 2]


@needs_torch
def test_exit_in_a_hook_ends_the_program_as_anywhere() -> None:
    ended = python(
        "import sys, torch, habana_frameworks.torch.core\n"
        "x = torch.ones(3, device='hpu', requires_grad=True)\n"
        "y = x * 2\ny.register_hook(lambda grad: sys.exit(7))\ny.sum().backward()\n",
        check=False,
        imported=True,
    )
    assert ended.returncode == 7, ended.stderr
