"""`out=`: results in given tensors, computed by programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch

CALLS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, out: torch.add(x, y, alpha=2, out=out),
    "add a number": lambda x, y, out: torch.add(x, 3, out=out),
    "mul by a number": lambda x, y, out: torch.mul(x, 0.5, out=out),
    "maximum": lambda x, y, out: torch.maximum(x, y, out=out),
    "cat": lambda x, y, out: torch.cat([x, y], 1, out=out),
    "stack": lambda x, y, out: torch.stack([x, y], out=out),
    "mm": lambda x, y, out: torch.mm(x, y.T, out=out),
    "addmm": lambda x, y, out: torch.addmm(x[:, :1], x, y.T, out=out),
    "sum": lambda x, y, out: torch.sum(x, 1, out=out),
    "amax": lambda x, y, out: torch.amax(x, 0, out=out),
    "norm": lambda x, y, out: torch.linalg.vector_norm(x, dim=1, out=out),
    "where": lambda x, y, out: torch.where(x > y, x, y, out=out),
    "index_select": lambda x, y, out: torch.index_select(x, 0, torch.tensor([2, 0], device=x.device), out=out),
    "gather": lambda x, y, out: torch.gather(x, 1, torch.zeros(3, 1, dtype=torch.int64, device=x.device), out=out),
    "softmax": lambda x, y, out: torch.softmax(x, 1, out=out),
    "exp": lambda x, y, out: torch.exp(x, out=out),
}


def _tensors(device: str) -> tuple[Any, Any]:
    torch.manual_seed(0)
    return torch.randn(3, 4).to(device), torch.randn(3, 4).to(device)


@contextmanager
def _none_left() -> Iterator[None]:
    from habana_tf.resolver import placements

    placements.reset()
    yield
    assert not [each.op for each in placements.placements().cpu]


@on_device(*CALLS)
def test_results_are_those_of_the_cpu_and_computed_by_programs(name: str) -> None:
    want = CALLS[name](*_tensors("cpu"), torch.empty(0))
    for given in (
        torch.empty(0),
        torch.full_like(want, 7),
        torch.full_like(want.movedim(0, -1).contiguous(), 7).movedim(-1, 0),
    ):
        out = given.to("hpu")
        again = out[...]  # a view sees what is written
        with _none_left():
            assert CALLS[name](*_tensors("hpu"), out) is out
        assert torch.allclose(out.cpu(), want, atol=1e-5) and out.shape == want.shape
        assert not given.numel() or torch.equal(again.cpu(), out.cpu())


@on_device()
def test_out_may_be_an_argument_or_a_view() -> None:
    x, y = _tensors("hpu")
    want = x.cpu() - y.cpu()
    torch.sub(x, y, out=x)
    assert torch.allclose(x.cpu(), want)
    whole = torch.zeros(3, 8, device="hpu")
    torch.mul(x, y, out=whole[:, ::2])
    assert torch.allclose(whole.cpu()[:, ::2], want * y.cpu()) and not whole.cpu()[:, 1::2].any()


@on_device()
def test_several_results() -> None:
    x, _ = _tensors("hpu")
    values, places = torch.empty(0, device="hpu"), torch.empty(0, dtype=torch.int64, device="hpu")
    with _none_left():
        got = torch.max(x, 1, out=(values, places))
    want = torch.max(x.cpu(), 1)
    assert torch.equal(values.cpu(), want.values) and torch.equal(places.cpu(), want.indices)
    assert got[0] is values


@on_device()
def test_casts_sizes_and_refusals_are_those_of_the_cpu() -> None:
    for device in ("cpu", "hpu"):
        x, y = _tensors(device)
        wide = torch.empty(3, 4, dtype=torch.float64, device=device)
        assert torch.allclose(torch.add(x, y, out=wide).cpu(), (x.cpu() + y.cpu()).double())
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
            torch.add(x, y, out=torch.empty(3, 4, dtype=torch.int64, device=device))
        other = torch.ones(2, device=device)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            torch.maximum(x, y, out=other)
        assert other.shape == (3, 4) and any("was resized" in str(w.message) for w in told)
        with pytest.raises(RuntimeError, match="must match the size"):
            torch.add(x, y[:2], out=torch.empty(3, 4, device=device))


@on_device("step", modes=("lazy",))
def test_adamax_leaves_nothing_on_the_cpu(_: str) -> None:
    torch.manual_seed(0)
    start, gradient, found = torch.randn(5), torch.randn(5), []
    for device in ("cpu", "hpu"):
        p = torch.nn.Parameter(start.clone().to(device))
        p.grad = gradient.to(device)
        optimizer = torch.optim.Adamax([p], foreach=False)
        with _none_left():
            for _ in range(3):
                optimizer.step()
        found.append(p.detach().cpu())
    assert torch.allclose(*found)
