"""Packed sequences: results, states, gradients and exceptions as the CPU's, and few recipes for many lengths."""

from __future__ import annotations

from typing import Any

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch
    from torch import nn
    from torch.nn.utils import rnn

LENGTHS = (
    [5, 3, 3, 1],
    [7, 6, 2, 2],
    [9, 8, 3, 1],
    [4, 4, 4, 3],
    [11, 3, 2, 2],
    [6, 5, 5, 2],
    [8, 7, 7, 6],
    [10, 9, 4, 3],
)
FORMS = ({}, {"bidirectional": True, "num_layers": 2}, {"bias": False})


def _trained(module: Any, x: torch.Tensor, lengths: list[int], **options: Any) -> list[torch.Tensor]:
    """Results and gradients."""
    module.zero_grad()
    x = x.clone().requires_grad_()
    out, states = module(rnn.pack_padded_sequence(x, lengths, **options))
    y, known = rnn.pad_packed_sequence(out, padding_value=0.25, total_length=12)
    assert known.device.type == "cpu" and known.tolist() == lengths
    states = states if isinstance(states, tuple) else (states,)
    (y.pow(2).sum() + sum(state.sin().sum() for state in states)).backward()
    return [y, *states, x.grad, *(p.grad for p in module.parameters())]


def _alike(made: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    for got, want in zip(made, wanted, strict=True):
        assert got.stride() == want.stride()
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)


@on_device("LSTM", "GRU")
def test_layers_of_packed_sequences(kind: str) -> None:
    from habana_tf.cache import stats
    from habana_tf.torch import loader

    lazy = loader.load().lazy
    for form in FORMS:
        torch.manual_seed(2)
        here, there = getattr(nn, kind)(3, 4, **form), getattr(nn, kind)(3, 4, **form)
        there.load_state_dict(here.state_dict())
        there.to("hpu")
        counts = []
        for lengths in LENGTHS:
            x = torch.randn(max(lengths), 4, 3)
            before = stats().counts().compiled
            made = _trained(there, x.to("hpu"), lengths)
            counts.append(stats().counts().compiled - before)
            _alike(made, _trained(here, x, lengths))
        if lazy:
            assert sum(counts[2:]) <= 2, counts
        mixed = [2, 6, 1, 4]
        _alike(_trained(there, x.to("hpu"), mixed, enforce_sorted=False),
               _trained(here, x, mixed, enforce_sorted=False))  # fmt: skip


@on_device()
def test_packing_and_padding() -> None:
    x = torch.arange(24.0).reshape(4, 3, 2)
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        for batch_first, lengths in ((False, [4, 2, 1]), (True, [3, 2, 1, 1]), (False, [3, 3, 3])):
            packed = [rnn.pack_padded_sequence(x.to(d, dtype), lengths, batch_first) for d in ("cpu", "hpu")]
            want, got = packed
            assert got.data.device.type == "hpu" and got.batch_sizes.equal(want.batch_sizes)
            assert got.data.cpu().equal(want.data) and got.data.stride() == want.data.stride()
            for total in (None, 4, 7):
                want, got = (rnn.pad_packed_sequence(p, batch_first, 1.0, total)[0] for p in packed)
                assert got.cpu().equal(want) and got.stride() == want.stride()


@on_device()
def test_packed_sequences_that_the_cpu_refuses() -> None:
    def parameters(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        return [p.detach() for p in nn.LSTM(3, 4).to(device).parameters()]

    def layer(device: str, counts: list[int], rows: int, batch: int) -> Any:
        state = torch.zeros(1, batch, 4, device=device)
        x = torch.ones(rows, 3, device=device)
        return torch.lstm(x, torch.tensor(counts), [state] * 2, parameters(device), True, 1, 0.0, False, False)

    calls = [
        lambda d: rnn.pack_padded_sequence(torch.ones(3, 2, 1, device=d), [1, 3]),
        lambda d: rnn.pack_padded_sequence(torch.ones(3, 2, 1, device=d), [3, 0]),
        lambda d: rnn.pack_padded_sequence(torch.ones(3, 2, 1, device=d), [3]),
        lambda d: rnn.pad_packed_sequence(
            rnn.pack_padded_sequence(torch.ones(3, 2, 1, device=d), [3, 1]), total_length=2
        ),
        lambda d: layer(d, [2, 2], 5, 2),
        lambda d: layer(d, [1, 3], 4, 1),
    ]
    for call in calls:
        raised = []
        for device in ("cpu", "hpu"):
            try:
                call(device)
            except Exception as why:
                raised.append(type(why))
        assert len(raised) == 2 and raised[0] is raised[1], raised
