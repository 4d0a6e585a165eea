"""Operands in host memory: indices, masks, values and any other operand that is read, against PyTorch's CPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tests.torch.child import HAS_TORCH, on_device, raises

if HAS_TORCH:
    import torch
    from torch import nn
    from torch.nn import functional

    HOST = torch.tensor([0, 2])
    MASK = torch.tensor([True, False, True])
    TIMES = torch.arange(4.0)


def _written(x: torch.Tensor, write: Callable[[torch.Tensor], Any]) -> torch.Tensor:
    x = x.clone()
    write(x)
    return x


def _gradient(x: torch.Tensor, loss: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    x = x.detach().clone().requires_grad_()
    loss(x).backward()
    assert x.grad is not None
    return x.grad


INDICES: dict[str, Callable[[torch.Tensor], Any]] = {
    "rows": lambda x: x[HOST],
    "columns": lambda x: x[:, HOST],
    "both": lambda x: x[HOST, HOST],
    "of two places": lambda x: x[HOST, HOST.to(x.device)],
    "with a number": lambda x: x[HOST, 1],
    "behind a new axis": lambda x: x[None, HOST],
    "int32": lambda x: x[HOST.int()],
    "negative": lambda x: x[-1 - HOST],
    "empty": lambda x: x[HOST[:0]],
    "mask": lambda x: x[MASK],
    "mask of bytes": lambda x: x[MASK.byte()],
    "mask of bytes on the card": lambda x: x[MASK.byte().to(x.device)],
    "mask and index": lambda x: x[HOST, torch.tensor([True, False, True, False])],
    "a number": lambda x: x[torch.tensor(1), torch.tensor(2)],
    "set to a number": lambda x: _written(x, lambda y: y.__setitem__(HOST, 9)),
    "set to a tensor of the host": lambda x: _written(x, lambda y: y.__setitem__(HOST, torch.arange(8.0).view(2, 4))),
    "set by a mask": lambda x: _written(x, lambda y: y.__setitem__(MASK, 9)),
    "set by a mask of all": lambda x: _written(x, lambda y: y.__setitem__(x.cpu() > 5, 9)),
    "put": lambda x: _written(x, lambda y: y.index_put_((HOST,), torch.tensor(5.0, device=x.device))),
    "put of the host": lambda x: _written(x, lambda y: y.index_put_((HOST, HOST), torch.ones(2))),
    "put added": lambda x: x.index_put((HOST * 0, HOST), torch.ones(2, device=x.device), accumulate=True),
    "put by bytes": lambda x: _written(x, lambda y: y.index_put_((MASK.byte(),), y[MASK], accumulate=True)),
    "select": lambda x: x.index_select(0, HOST),
    "gather": lambda x: x.gather(1, HOST[:, None]),
    "scatter": lambda x: x.scatter(1, HOST[:, None], 5.0),
    "scatter of the host": lambda x: x.scatter(1, HOST[:, None], torch.ones(2, 1)),
    "scatter_add": lambda x: x.scatter_add(1, HOST[:, None], torch.ones(2, 1)),
    "index_add": lambda x: x.index_add(0, HOST, torch.ones(2, 4, device=x.device)),
    "index_copy": lambda x: x.index_copy(0, HOST, torch.ones(2, 4)),
    "index_fill": lambda x: x.index_fill(0, HOST, torch.tensor(5.0)),
    "take": lambda x: x.take(HOST),
    "masked_fill": lambda x: x.masked_fill(MASK[:, None], torch.tensor(2.0)),
    "masked_select": lambda x: x.masked_select(MASK[:, None]),
    "masked_scatter": lambda x: x.masked_scatter(MASK[:, None], torch.arange(12.0)),
    "where of bytes": lambda x: torch.where((x > 5).byte(), x, 1),
    "repeat_interleave": lambda x: torch.repeat_interleave(x, torch.tensor([1, 2, 1]), dim=0),
    "unpad": lambda x: nn.utils.rnn.unpad_sequence(x.t()[..., None], torch.tensor([4, 2, 3])),
    "gradient": lambda x: _gradient(x, lambda y: (y[HOST] * y[:, HOST].sum()).sum()),
}
OPERANDS: dict[str, Callable[[torch.Tensor], Any]] = {
    "add": lambda x: x + torch.ones(1),
    "first": lambda x: torch.ones(4) - x,
    "other type": lambda x: x * torch.arange(4),
    "in place": lambda x: _written(x, lambda y: y.add_(torch.ones(4))),
    "compared": lambda x: x == TIMES,
    "where": lambda x: torch.where((x > 5).cpu(), TIMES, x),
    "product": lambda x: x @ torch.ones(4, 2),
    "linear": lambda x: functional.linear(x, torch.ones(2, 4), torch.ones(2)),
    "addmm": lambda x: torch.addmm(torch.ones(4), x, torch.ones(4, 4)),
    "convolution": lambda x: functional.conv2d(x[None, None], torch.ones(1, 1, 2, 2)),
    "layer norm": lambda x: functional.layer_norm(x, (4,), torch.ones(4), torch.zeros(4)),
    "embedding": lambda x: functional.embedding(HOST, x),
    "loss": lambda x: functional.cross_entropy(x, torch.tensor([1, 2, 3])),
    "cat": lambda x: torch.cat([x, torch.ones(1, 4)]),
    "stack": lambda x: torch.stack([torch.ones(3, 4), x]),
    "lists": lambda x: torch._foreach_add([x, x], [torch.ones(4), torch.ones(1)]),
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, torch.ones(4, 2)),
    "float64": lambda x: x.double() + torch.ones(4, dtype=torch.float64),
    "on the CPU": lambda x: torch.lerp(x, torch.ones(4), torch.full((4,), 0.5)),
    "a view": lambda x: x * torch.arange(8.0).view(4, 2).t()[:1],
    "out": lambda x: torch.add(x, torch.ones(4), out=torch.empty_like(x)),
    "isin": lambda x: torch.isin(x, torch.tensor([1.0, 2.0])),
    "grid": lambda x: functional.grid_sample(x[None, None], torch.zeros(1, 2, 2, 2), align_corners=False),
    "gradient": lambda x: _gradient(x, lambda y: (y * TIMES).pow(2).sum()),
}
NUMBERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "copy_ of a float": lambda x: _written(x, lambda y: y.copy_(5.5)),
    "copy_ of a float to whole numbers": lambda x: x.long().copy_(5.7),
    "copy_ of an integer": lambda x: _written(x, lambda y: y.copy_(5)),
    "copy_ of a boolean": lambda x: _written(x, lambda y: y[1].copy_(True)),
    "masked_fill": lambda x: x.masked_fill(x > 5, torch.tensor(2.0)),
    "floor": lambda x: x // torch.tensor(2.0),
    "copysign": lambda x: torch.copysign(x, torch.tensor(-1.0)),
    "copysign, first": lambda x: torch.copysign(torch.tensor(-1.0), x),
    "clamp": lambda x: torch.clamp(x, torch.tensor(2.0), torch.tensor(5.0)),
    "fill": lambda x: _written(x, lambda y: y.fill_(torch.tensor(5))),
}


def _compare(cases: dict[str, Callable[[torch.Tensor], Any]]) -> None:
    x = torch.arange(12.0).view(3, 4)
    for name, case in cases.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, got = case(x), case(x.to("hpu"))
        pairs = zip(expected, got, strict=True) if isinstance(expected, (list, tuple)) else [(expected, got)]
        for of_cpu, t in pairs:
            assert t.device.type == "hpu" and t.dtype is of_cpu.dtype and t.stride() == of_cpu.stride(), name
            torch.testing.assert_close(t.cpu(), of_cpu, msg=lambda text: f"{name}: {text}")  # noqa: B023


@on_device()
def test_indices_and_masks_of_the_host() -> None:
    _compare(INDICES)


@on_device()
def test_operands_of_the_host() -> None:
    _compare(OPERANDS)


@on_device()
def test_numbers_of_the_host() -> None:
    _compare(NUMBERS)


@on_device()
def test_other_values_of_the_host_are_read_at_each_call() -> None:
    x = torch.zeros(4).to("hpu")
    host, index = torch.ones(4), torch.tensor([1])
    results = []
    for k in range(3):
        host.fill_(k)
        index.fill_(k)
        results.append((x + host, (x + 1).index_put_((index,), torch.tensor(5.0))))
    host.fill_(9)
    for k, (added, put) in enumerate(results):
        assert added.eq(k).all() and put.cpu().argmax() == k


@on_device()
def test_what_is_written_is_not_on_the_host() -> None:
    x = torch.ones(4).to("hpu")
    for wrong in (
        lambda: torch.ones(4).add_(x),
        lambda: torch.add(x, 1, out=torch.empty(4)),
        lambda: torch.ones(4).index_put_((torch.tensor([0]).to("hpu"),), torch.tensor(1.0)),
        lambda: torch.ones(()).add_(x[0]),
        lambda: torch._foreach_add_([torch.ones(4)], [x]),
        lambda: torch.erfinv(x, out=torch.empty(4)),
    ):
        raises("device", wrong)
    assert x.eq(1).all()


@on_device()
def test_uint8_masks_warn_as_on_the_cpu() -> None:
    x = torch.ones(3, 4).to("hpu")
    for call in (lambda: x[MASK.byte()], lambda: torch.where((x > 5).byte(), x, 1)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert any("uint8" in str(w.message) for w in caught)


@on_device()
def test_copies_of_operands_are_in_the_placement_report() -> None:
    import habana_tf
    from habana_tf.resolver import placements

    placements.reset()
    x = torch.ones(1000).to("hpu")
    for _ in range(3):
        x = x + torch.ones(1000)
    x = x * torch.tensor(2.0)  # a number
    x[torch.tensor([1, 2])].sum().item()
    copied = {each["op"]: each for each in habana_tf.placement_report().to_dict()["host_operands"]}
    assert copied["aten.add.Tensor"]["count"] == 3 and copied["aten.add.Tensor"]["nbytes"] == 12_000
    assert copied["aten.index.Tensor"]["nbytes"] == 16 and len(copied) == 2
    assert "aten.add.Tensor" in str(habana_tf.placement_report())


@on_device()
def test_compiled_graphs_with_inputs_of_the_host() -> None:
    def picked(x: torch.Tensor, index: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        return (x * 2)[index] + by

    compiled = torch.compile(picked, backend="hpu_backend")
    x = torch.arange(12.0).view(3, 4)
    for index, by in (([0, 2], 1.0), ([1, 1], 2.0), ([2, 0], 3.0)):
        args = torch.tensor(index), torch.tensor(by)
        torch.testing.assert_close(compiled(x.to("hpu"), *args).cpu(), picked(x, *args))
