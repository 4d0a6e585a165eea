"""A module that is moved keeps its parameters: for optimizers made before, and for modules that share weights."""

from __future__ import annotations

import io
import weakref
from typing import Any

import pytest

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


class Marked(torch.nn.Parameter if HAS_TORCH else object):  # type: ignore[misc]
    """A parameter of a program's own class."""


@on_device("to", "hpu", "cpu", "bfloat16", "back")
def test_a_moved_parameter_keeps_all_that_was_said_of_it(how: str) -> None:
    model = nn.Linear(2, 1)
    model.weight = Marked(model.weight.detach().clone())
    weight, called = model.weight, []
    weight._no_weight_decay = True
    weight.register_hook(lambda grad: grad * 2)
    weight.register_post_accumulate_grad_hook(called.append)
    kept, output = weakref.ref(weight), model(torch.ones(1, 2))
    model.to("hpu")
    moved = {"cpu": lambda: model.cpu(), "bfloat16": lambda: model.bfloat16(), "back": lambda: model.cpu().to("hpu")}
    moved.get(how, lambda: model)()
    assert output.requires_grad and model.weight is weight is kept() and type(weight) is Marked and weight.is_leaf
    assert weight._no_weight_decay and weight.device.type == ("cpu" if how == "cpu" else "hpu")
    model(torch.ones(3, 2, dtype=weight.dtype, device=weight.device)).sum().backward()
    assert weight.grad.cpu().tolist() == [[6.0, 6.0]] and weight.grad.device == weight.device
    assert [p is weight for p in called] == [True]


@on_device()
def test_modules_whose_sizes_come_with_the_first_input_can_be_moved() -> None:
    lazy = (
        (nn.LazyLinear(3), (2, 5)), (nn.LazyConv1d(3, 3), (2, 5, 8)), (nn.LazyConv2d(3, 3), (2, 5, 8, 8)),
        (nn.LazyConvTranspose2d(3, 3), (2, 5, 4, 4)), (nn.LazyBatchNorm1d(), (4, 5)),
        (nn.LazyInstanceNorm2d(), (2, 5, 4, 4)),
    )  # fmt: skip
    for module, shape in lazy:
        x = torch.randn(shape)
        y = module.to("hpu")(x.to("hpu"))
        assert {p.device.type for p in module.parameters()} <= {"hpu"}
        torch.testing.assert_close(module.cpu()(x), y.cpu(), rtol=1e-4, atol=1e-5)


@on_device()
def test_a_loaded_script_can_be_moved() -> None:
    file = io.BytesIO()
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).eval()
    torch.jit.save(torch.jit.script(model), file)
    file.seek(0)
    loaded = torch.jit.load(file).to("hpu")
    x = torch.randn(4, 2)
    torch.testing.assert_close(loaded(x.to("hpu")).cpu(), model(x))


@on_device()
def test_data_of_the_other_device_can_be_assigned() -> None:
    p = nn.Parameter(torch.ones(3))
    p.data = p.data.to("hpu")
    (p * p).sum().backward()
    assert p.device.type == "hpu" and p.is_leaf and p.grad.tolist() == [2, 2, 2]
    p.data = torch.ones(4, device="hpu", dtype=torch.bfloat16)
    assert p.dtype == torch.bfloat16 and p.shape == (4,)
    p.data = torch.zeros(2)
    assert p.device.type == "cpu" and p.tolist() == [0, 0]
    x = torch.ones(2, device="hpu")
    x.data = torch.zeros(3)
    assert x.device.type == "cpu" and x.shape == (3,)
    for strange in (torch.zeros(2, device="meta"), torch.eye(2).to_sparse()):
        with pytest.raises(RuntimeError, match="incompatible tensor type"):
            torch.ones(2, device="hpu").data = strange


@on_device("overwrite", "swap")
def test_what_a_program_says_of_conversions_holds(setting: str) -> None:
    switch = {
        "overwrite": torch.__future__.set_overwrite_module_params_on_conversion,
        "swap": torch.__future__.set_swap_module_params_on_conversion,
    }[setting]
    model = nn.Linear(2, 1)
    weight, address = model.weight, id(model.weight)
    switch(True)
    try:
        model.to("hpu")
    finally:
        switch(False)
    assert model.weight.device.type == "hpu" and (id(model.weight) == address) == (setting == "swap")
    assert weight.device.type == ("hpu" if setting == "swap" else "cpu")


@on_device()
def test_a_module_that_stays_is_converted_as_ever() -> None:
    model = nn.Linear(2, 1)
    weight = model.weight
    assert model.double().weight is weight and weight.dtype == torch.float64 and weight.device.type == "cpu"
