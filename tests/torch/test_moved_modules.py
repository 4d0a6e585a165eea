"""A module that is moved keeps its parameters: for optimizers made before, and for modules that share weights."""

from __future__ import annotations

import weakref
from typing import Any

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch
    from torch import nn

MOVES = "to", "hpu", "half way"


def _tied() -> Any:
    model = nn.Sequential(nn.Embedding(5, 4), nn.LSTM(4, 4), nn.Linear(4, 5, bias=False))
    model[2].weight = model[0].weight
    return model


def _there(model: Any, how: str) -> Any:
    if how == "half way":
        model[0].to("hpu")
    return model.hpu() if how == "hpu" else model.to("hpu")


@on_device(*MOVES)
def test_an_optimizer_of_before_trains_what_was_moved(how: str) -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    before = dict(model.named_parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    old = {name: p.detach().clone() for name, p in before.items()}
    _there(model, how)
    assert all(p is before[name] and p.device.type == "hpu" and p.is_leaf for name, p in model.named_parameters())
    model(torch.tensor([[1.0, 2, 3]]).to("hpu")).sum().backward()
    optimizer.step()
    for name, p in model.named_parameters():
        assert p.grad.abs().sum() > 0
        torch.testing.assert_close(p.detach().cpu(), old[name] - 0.5 * p.grad.cpu())


@on_device(*MOVES)
def test_weights_that_two_modules_share_stay_shared(how: str) -> None:
    model = _there(_tied(), how)
    assert model[2].weight is model[0].weight and model[0].weight.device.type == "hpu"
    assert model.cpu()[2].weight is model[0].weight and model[0].weight.device.type == "cpu"
    assert len(list(model.parameters())) == 5


@on_device()
def test_gradients_move_too() -> None:
    model = nn.Linear(2, 1)
    model(torch.ones(3, 2)).sum().backward()
    model.to("hpu")
    assert model.weight.grad.device.type == "hpu" and model.weight.grad.cpu().tolist() == [[3.0, 3.0]]


@on_device()
def test_a_parameter_that_is_referred_to_weakly_moves_as_another_object() -> None:
    model = nn.Linear(2, 1)
    kept = weakref.ref(model.weight)
    model.to("hpu")
    assert kept() is not model.weight and model.weight.device.type == "hpu"
    assert not torch.__future__.get_swap_module_params_on_conversion()


@on_device()
def test_a_module_that_stays_is_converted_as_ever() -> None:
    model = nn.Linear(2, 1)
    weight = model.weight
    assert model.double().weight is weight and weight.dtype == torch.float64 and weight.device.type == "cpu"
