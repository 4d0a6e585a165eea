"""Weights that linear layers keep in 8 bits from one micro-batch to the next: as if they were cast each time."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest

from tests.torch.child import on_device

pytest.importorskip("torch")

import torch

from tests.torch.transformer_engine.test_linear import engine, recipe, step


@on_device()
def test_microbatches_share_the_weight_in_8_bits() -> None:
    how, x, g = recipe(), torch.randn(3, 6), torch.randn(3, 4)
    for minimal in (False, True):
        torch.manual_seed(0)
        module = engine().Linear(6, 4, minimize_memory=minimal)
        plain = copy.deepcopy(module)
        for first in (True, True, False):
            made = step(module, x, g, how, is_first_microbatch=first)
            assert all(map(torch.equal, made, step(plain, x, g, how)))
        kept = module._kept
        assert kept is not None and copy.deepcopy(module)._kept is None
        step(module, x, g, how)
        step(module, x, g, how, is_first_microbatch=False)
        assert module._kept is kept


def _stepped(module: Any, kind: Any) -> None:
    module.weight.grad = torch.ones_like(module.weight)
    kind([module.weight], lr=1.0).step()


def _moved_and_back(module: Any) -> None:
    module.to("cpu").weight.data.mul_(3.0)
    module.to("hpu")


def _compiled(module: Any) -> None:
    twice = torch.compile(lambda t: t.mul_(3.0), backend="hpu_backend")
    twice(module.weight.data)
    twice(module.weight.data)


def _freed_and_filled(module: Any) -> None:
    storage = module.weight.untyped_storage()
    size = storage.nbytes()
    storage.resize_(0)
    storage.resize_(size)
    module.weight.data.copy_(OTHER)


def _fused(module: Any) -> None:
    from habana_frameworks.torch.hpex.optimizers import FusedAdamW

    _stepped(module, FusedAdamW)


OTHER = torch.linspace(-3, 3, 24).reshape(4, 6)
WAYS: dict[str, Callable[[Any], Any]] = {
    "load_state_dict": lambda m: m.load_state_dict({"weight": OTHER, "bias": torch.ones(4)}),
    "copy_": lambda m: m.weight.detach().copy_(OTHER),
    "data.copy_": lambda m: m.weight.data.copy_(OTHER),
    "data.mul_": lambda m: m.weight.data.mul_(3.0),
    "data =": lambda m: setattr(m.weight, "data", OTHER.to("hpu")),
    "another parameter": lambda m: setattr(m, "weight", torch.nn.Parameter(OTHER.to("hpu"))),
    "swapped": lambda m: torch.utils.swap_tensors(m.weight, torch.nn.Parameter(OTHER.to("hpu"))),
    "a step": lambda m: _stepped(m, torch.optim.SGD),
    "a fused step": _fused,
    "vector_to_parameters": lambda m: torch.nn.utils.vector_to_parameters(
        torch.cat([OTHER.flatten(), torch.ones(4)]).to("hpu"), m.parameters()
    ),
    "moved": _moved_and_back,
    "another type": lambda m: m.to(torch.bfloat16),
    "a part": lambda m: m.weight.data.view(-1)[3:9].fill_(7.0),
    "a list": lambda m: torch._foreach_mul_([m.weight.data], 3.0),
    "out=": lambda m: torch.mul(m.weight.data, 3.0, out=m.weight.data),
    "an op of the CPU": lambda m: m.weight.data.geometric_(0.3),
    "its storage": lambda m: m.weight.untyped_storage().copy_(OTHER.untyped_storage()),
    "turned": lambda m: setattr(m.weight, "data", m.weight.data.flip(0)),
    "compiled": _compiled,
    "freed and filled": _freed_and_filled,
}


@on_device()
def test_weights_that_were_written_are_cast_again() -> None:
    """By whatever way, also where a call says that it is no first micro-batch; as a module made anew with them."""
    how, x, g = recipe(), torch.randn(3, 6), torch.randn(3, 4)
    for way, change in WAYS.items():
        module = engine().Linear(6, 4)
        for first in (None, True):
            before = step(module, x, g, how, is_first_microbatch=first)
        change(module)
        fresh = engine().Linear(6, 4, params_dtype=module.weight.dtype)
        fresh.load_state_dict(copy.deepcopy(module.state_dict()))
        made, want = (step(m, x, g, how, is_first_microbatch=False) for m in (module, fresh))
        assert all(map(torch.equal, made, want)), way
        assert way == "another type" or not torch.equal(made[0], before[0]), way
    copied, file = copy.deepcopy(module), io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    for each in (copied, torch.load(file, weights_only=False)):
        each.weight.data.copy_(OTHER)
        fresh.load_state_dict(copy.deepcopy(each.state_dict()))
        assert all(map(torch.equal, *(step(m, x, g, how, is_first_microbatch=False) for m in (each, fresh))))
    given = OTHER.flip(0).to("hpu")
    module.eval()
    with engine().fp8_autocast(enabled=True, fp8_recipe=how):
        for first in (True, False):
            mine = module(x.to("hpu"), is_first_microbatch=first)
        theirs, want = (module(x.to("hpu"), weight=given, is_first_microbatch=first).cpu() for first in (False, None))
    assert torch.equal(theirs, want) and not torch.equal(theirs, mine.cpu())
    grouped = engine().GroupedLinear(2, 6, 4).eval()
    with engine().fp8_autocast(enabled=True, fp8_recipe=how):
        grouped(x.to("hpu"), [1, 2], is_first_microbatch=True)
        grouped.weight1.data.mul_(3.0)
        found = [grouped(x.to("hpu"), [1, 2], is_first_microbatch=first).cpu() for first in (False, None)]
        on_cpu = engine().Linear(6, 4, device="cpu").eval()
        found += [on_cpu(x, is_first_microbatch=first) for first in (True, None)]
    assert torch.equal(*found[:2]) and torch.equal(*found[2:])


@on_device(modes=("lazy",))
def test_weights_that_a_graph_writes_or_reads_are_cast_again() -> None:
    import habana_frameworks.torch as ht

    how, x = recipe(), torch.randn(3, 6).to("hpu")
    module, graph = engine().Linear(6, 4).eval(), ht.hpu.HPUGraph()
    with ht.hpu.graph(graph):
        module.weight.data.mul_(3.0)
    with torch.no_grad(), engine().fp8_autocast(enabled=True, fp8_recipe=how):
        module(x, is_first_microbatch=True)
        graph.replay()
        assert torch.equal(module(x, is_first_microbatch=False).cpu(), module(x).cpu())
        replayed = ht.hpu.wrap_in_hpu_graph(copy.deepcopy(module))
        for factor in (3.0, 0.1):
            for first in (True, False):
                replayed(x, is_first_microbatch=first)
            for m in (module, replayed):
                m.weight.data.mul_(factor)
            assert torch.equal(replayed(x, is_first_microbatch=False).cpu(), module(x).cpu())


@on_device()
def test_the_last_microbatch_measures_the_weight_that_the_first_cast() -> None:
    """As recipes of Megatron measure once for all micro-batches of a step."""
    how, x, g = recipe(interval=3), torch.randn(3, 6), torch.randn(3, 4)
    module = engine().Linear(6, 4)
    plain = copy.deepcopy(module)
    for k in range(7):
        made = step(module, x * 2.0**k, g, how, is_first_microbatch=k % 3 == 0)
        assert all(map(torch.equal, made, step(plain, x * 2.0**k, g, how)))
    amaxes = module.fp8_meta["scaling_fwd"].amax_history[0].cpu()
    assert amaxes.tolist() == [32 * x.abs().max().item(), module.weight.detach().abs().max().item()]
