"""Modules whose calls replay HPU graphs: inference and training, their copies, signatures, calls that have no graph."""

from __future__ import annotations

import copy
import inspect
import io
from typing import Any

from tests.torch.child import HAS_TORCH, on_device, raises

if HAS_TORCH:
    import torch

LAZY = ("lazy",)


@on_device(modes=LAZY)
def test_a_wrapped_module_has_a_graph_for_each_kind_of_call() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.calls = torch.nn.Linear(3, 3), 0

        def forward(self, x: Any, *, scale: float = 1.0, more: Any = None) -> Any:
            self.calls += 1
            y = self.inner(x) * scale
            return {"y": y, "sum": y.sum() + (0 if more is None else more["z"].sum())}

    torch.manual_seed(2)
    net = Net().hpu().eval()
    plain = copy.deepcopy(net).cpu()
    wrapped = torch.hpu.wrap_in_hpu_graph(net, max_graphs=3)
    kept = []
    for n, scale in ((2, 1.0), (4, 1.0), (2, 1.0), (2, 3.0), (2, 1.0), (4, 1.0)):
        x = torch.randn(n, 3)
        more = {"z": torch.randn(n).hpu()}
        kept.append((wrapped(x.hpu(), scale=scale, more=more), plain(x, scale=scale, more={"z": more["z"].cpu()})))
    for got, want in kept:  # results outlive later replays
        assert not got["y"].requires_grad
        for name in want:
            torch.testing.assert_close(got[name].cpu(), want[name].detach())
    assert net.calls == 3
    wrapped(torch.randn(7, 3).hpu())
    wrapped(torch.randn(7, 3).hpu())
    assert net.calls == 5  # beyond max_graphs nothing is captured
    wrapped.clear_cache()
    wrapped(torch.randn(7, 3).hpu())
    assert net.calls == 6


@on_device("make_graphed_callables", "ModuleCacher", modes=LAZY)
def test_graphed_training_is_that_of_the_module(kind: str) -> None:
    torch.manual_seed(3)
    on_cpu = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Sigmoid(), torch.nn.Linear(8, 2))
    there = copy.deepcopy(on_cpu).hpu()
    if kind == "make_graphed_callables":
        there = torch.hpu.make_graphed_callables(there, (torch.randn(5, 4).hpu(),))
    else:
        there = torch.hpu.ModuleCacher(max_graphs=2)(model=there)
    ours, theirs = (torch.optim.Adam(m.parameters(), 0.05) for m in (there, on_cpu))
    for k in range(4):
        for model, optimizer, where in ((there, ours, "hpu"), (on_cpu, theirs, "cpu")):
            optimizer.zero_grad()
            for part in range(2):  # gradients are accumulated over two replays
                torch.manual_seed(10 * k + part)
                x = torch.randn(5, 4).to(where).requires_grad_(kind == "ModuleCacher")
                model(x).square().mean().backward()
            optimizer.step()
    for a, b in zip(on_cpu.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(b.detach().cpu(), a.detach())
    assert not there(torch.randn(5, 4).hpu()).detach().requires_grad
    there.eval()
    with torch.no_grad():
        x = torch.randn(9, 4)
        torch.testing.assert_close(there(x.hpu()).cpu(), on_cpu(x))


@on_device(modes=LAZY)
def test_a_graphed_callable_has_no_second_derivative() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sigmoid()).hpu()
    x = torch.randn(3, 4).hpu().requires_grad_()
    graphed = torch.hpu.make_graphed_callables(module, (torch.randn(3, 4).hpu().requires_grad_(),))
    raises("has no second derivative", lambda: torch.autograd.grad(graphed(x).sum(), x, create_graph=True))


@on_device(modes=LAZY)
def test_a_graphed_module_has_its_mode_and_its_weights() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).hpu()
    plain = copy.deepcopy(module)
    graphed = torch.hpu.wrap_in_hpu_graph(module)
    x = torch.randn(3, 4).hpu()
    for training in (True, False, True, False):
        module.train(training), plain.train(training)
        torch.testing.assert_close(graphed(x).cpu(), plain(x).detach().cpu())
    for replaced in (False, True):
        weight = torch.randn(4, 4)
        for m in (module, plain):
            if replaced:
                m[0].weight = torch.nn.Parameter(weight.hpu())
            else:
                m[0].weight.data = weight.hpu()
        torch.testing.assert_close(graphed(x).cpu(), plain(x).detach().cpu())


def _replaced(net: torch.nn.Sequential) -> None:
    net[0] = torch.nn.Linear(4, 4).to(net[0].weight.device)


def _moved_and_back(net: torch.nn.Sequential) -> None:
    device = net[0].weight.device
    net.to("cpu")[0].weight.data.mul_(2.0)
    net.to(device)


WAYS: dict[str, Any] = {
    "written": lambda net: net[0].weight.data.mul_(3.0),
    "loaded": lambda net: net.load_state_dict({name: 2 * t for name, t in net.state_dict().items()}),
    "other memory": lambda net: setattr(net[0].weight, "data", 2 * net[0].weight.data),
    "turned": lambda net: setattr(net[0].weight, "data", net[0].weight.data.t()),
    "a vector": lambda net: torch.nn.utils.vector_to_parameters(
        2 * torch.nn.utils.parameters_to_vector(net.parameters()).detach(), net.parameters()
    ),
    "another parameter": lambda net: setattr(net[0], "weight", torch.nn.Parameter(2 * net[0].weight.data)),
    "no bias": lambda net: setattr(net[0], "bias", None),
    "moved": _moved_and_back,
    "another module": _replaced,
    "another function": lambda net: net.__setitem__(1, torch.nn.Tanh()),
    "one more": lambda net: net.append(torch.nn.Tanh()),
    "shared": lambda net: setattr(net[2], "weight", net[0].weight),
}
OF_FUNCTIONS = ("written", "loaded", "other memory", "a vector", "another parameter", "moved", "another module")
"""Those that a graph of a function, which knows no module, can notice."""


@on_device("plain", "wrap_in_hpu_graph", "wrap_in_hpu_graph_func", "make_graphed_callables", "ModuleCacher", modes=LAZY)
def test_a_graphed_module_follows_what_happens_to_its_parts(kind: str) -> None:
    for way, change in WAYS.items():
        if kind == "wrap_in_hpu_graph_func" and way not in OF_FUNCTIONS:
            continue
        torch.manual_seed(0)
        on_cpu = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sigmoid(), torch.nn.Linear(4, 4))
        there, x = copy.deepcopy(on_cpu).hpu(), torch.randn(3, 4)
        make = getattr(torch.hpu, kind, None)
        call: Any = there
        if kind == "make_graphed_callables":
            make(there, (x.hpu().requires_grad_(),))
        elif kind == "ModuleCacher":
            make()(there)
        elif kind == "wrap_in_hpu_graph_func":
            call = make(lambda x, there=there: there(x))
        elif make is not None:
            make(there)
        training = "wrap" not in kind
        for k in range(3):
            found = []
            for net, run, where in ((there, call, "hpu"), (on_cpu, on_cpu, "cpu")):
                net.zero_grad()
                given = x.to(where, copy=True).requires_grad_(training)
                made = run(given)
                if training:
                    made.square().sum().backward()
                    found.append([t.detach().cpu() for t in (made, given.grad, *(p.grad for p in net.parameters()))])
                else:
                    found.append([made.detach().cpu()])
                if k == 0:
                    torch.manual_seed(1)
                    change(net)
            torch.testing.assert_close(*found, msg=lambda words, way=way: f"{way}: {words}")


@on_device(modes=LAZY)
def test_a_first_call_that_is_captured_moves_averages_once() -> None:
    module = torch.nn.BatchNorm1d(4).hpu()
    plain = copy.deepcopy(module)
    cached = torch.hpu.ModuleCacher(max_graphs=2)(model=module)
    for k in range(3):
        x = torch.randn(5, 4).hpu()
        torch.testing.assert_close(cached(x).detach().cpu(), plain(x).detach().cpu())
        assert module.running_mean is not None and plain.running_mean is not None
        torch.testing.assert_close(module.running_mean.cpu(), plain.running_mean.cpu(), msg=f"call {k}")


def _copies(module: torch.nn.Module) -> list[torch.nn.Module]:
    """What PyTorch makes of a module when it copies it and when it saves and loads it as a whole."""
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return [copy.deepcopy(module), torch.load(file, weights_only=False)]


@on_device("wrap_in_hpu_graph", "ModuleCacher", "make_graphed_callables", modes=LAZY)
def test_a_copy_of_a_graphed_module_has_its_own_weights(kind: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 4).hpu()
    make = getattr(torch.hpu, kind)
    plain = torch.nn.Linear(4, 4).hpu()
    module = copy.deepcopy(plain)
    module = (
        make(module, (x,)) if kind == "make_graphed_callables" else make(module) if "wrap" in kind else make()(module)
    )
    module(x)
    for copied in _copies(module):
        with torch.no_grad():
            for p in copied.parameters():
                p.mul_(2)
        for _ in range(2):
            torch.testing.assert_close(module(x).detach().cpu(), plain(x).detach().cpu())
            torch.testing.assert_close(copied(x).detach().cpu(), 2 * plain(x).detach().cpu())
        for p in copied.parameters():
            p.grad = None
        if kind == "ModuleCacher":
            copied(x).sum().backward()
            assert all(p.grad is not None for p in copied.parameters())
            assert all(p.grad is None for p in module.parameters())


@on_device("wrap_in_hpu_graph", "ModuleCacher", "make_graphed_callables", "wrap_in_hpu_graph_func", modes=LAZY)
def test_what_replays_graphs_has_the_signature_of_what_it_replaces(kind: str) -> None:
    """Libraries ask `inspect.signature(model.forward)` which arguments a model takes."""

    class Model(torch.nn.Module):
        def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:
            """Doubles."""
            return input_ids * 2

    model = Model().to("hpu")
    before, x = inspect.signature(model.forward), torch.ones(2, device="hpu")
    if kind == "wrap_in_hpu_graph_func":
        forward = torch.hpu.wrap_in_hpu_graph_func(model.forward)
    elif kind == "make_graphed_callables":
        forward = torch.hpu.make_graphed_callables(model, (x,)).forward
        single = torch.hpu.make_graphed_callables(model.__class__.forward.__get__(model), (x,))
        assert inspect.signature(single) == before
    elif kind == "ModuleCacher":
        forward = torch.hpu.ModuleCacher()(model=model).forward
    else:
        forward = torch.hpu.wrap_in_hpu_graph(model).forward
    assert inspect.signature(forward) == before
    assert (forward.__name__, forward.__doc__) == ("forward", "Doubles.")
    assert forward(x).tolist() == [2, 2]


@on_device(modes=LAZY)
def test_one_cacher_serves_several_modules_and_named_arguments() -> None:
    class Scaled(torch.nn.Linear):
        def forward(self, input: Any, scale: float = 1.0, shift: Any = None) -> Any:
            made = super().forward(input) * scale
            return made if shift is None else made + shift

    torch.manual_seed(0)
    plain = [Scaled(4, 4).hpu() for _ in range(2)]
    cacher = torch.hpu.ModuleCacher()
    cached = [cacher(copy.deepcopy(m)) for m in plain]
    x, shift = torch.randn(3, 4).hpu(), torch.randn(4).hpu()
    for _ in range(2):
        for ours, theirs in zip(cached, plain, strict=True):
            for named in ({}, {"scale": 2.0}, {"scale": 2.0, "shift": shift}, {"shift": shift}):
                torch.testing.assert_close(
                    ours(input=x, **named).detach().cpu(), theirs(x, **named).detach().cpu()
                )  # fmt: skip


@on_device(modes=LAZY)
def test_calls_with_objects_that_hold_tensors_run_as_before() -> None:
    """A cache of keys and values is one: a replay would not write it, and read what it held at the capture."""

    class Cache:
        held: Any = 0

    class Model(torch.nn.Module):
        def forward(self, x: Any, cache: Cache) -> Any:
            cache.held = cache.held + x
            return cache.held * 2

    wrapped = torch.hpu.wrap_in_hpu_graph(Model())
    cache = Cache()
    found = [wrapped(torch.ones(2).hpu(), cache).tolist() for _ in range(3)]
    assert found == [[2, 2], [4, 4], [6, 6]] and cache.held.tolist() == [3, 3]
